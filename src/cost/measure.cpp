#include "cost/measure.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <latch>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/bytes.h"
#include "base/error.h"
#include "base/nameless_file.h"

namespace outsize {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

// The best of what `once` returns, a rate, in at least three goes and for at least so long.
template <class Once>
double best_rate(double seconds, Once once) {
  const Clock::time_point start = Clock::now();
  double best = 0;
  for (int i = 0; i < 3 || seconds_since(start) < seconds; ++i) best = std::max(best, once());
  return best;
}

// How long `threads` threads take that begin body(0), body(1), … together: from the first one's start to the last one's end, by
// their own clocks, so that it does not matter when this thread runs again.
template <class Body>
double seconds_together(int threads, Body body) {
  std::latch ready(threads);
  std::vector<Clock::time_point> starts(static_cast<std::size_t>(threads)), ends(starts.size());
  std::vector<std::jthread> team;
  for (int i = 0; i < threads; ++i)
    team.emplace_back([&, i] {
      ready.arrive_and_wait();
      starts[static_cast<std::size_t>(i)] = Clock::now();
      body(i);
      ends[static_cast<std::size_t>(i)] = Clock::now();
    });
  team.clear();  // joins them
  return std::chrono::duration<double>(*std::ranges::max_element(ends) - *std::ranges::min_element(starts)).count();
}

// Memory like that of an arena: huge pages where the system has them, each page touched.
class Buffer {
 public:
  explicit Buffer(std::int64_t bytes)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(2 * kMebibyte, static_cast<std::size_t>(bytes)))), bytes_(bytes) {
    if (!memory_) throw std::bad_alloc();
    madvise(memory_.get(), static_cast<std::size_t>(bytes), MADV_HUGEPAGE);  // a wish, as in the arenas
    std::memset(memory_.get(), 1, static_cast<std::size_t>(bytes));
  }
  std::byte* at(std::int64_t offset) const { return memory_.get() + offset; }
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::int64_t bytes_;
};

void copy(const Buffer& from, const Buffer& to, std::int64_t offset, std::int64_t bytes) {
  std::memcpy(to.at(offset), from.at(offset), static_cast<std::size_t>(bytes));
}

// Loops of independent multiply-adds in registers; each returns how many operations it made, in `result` what keeps them alive.
// Ten chains of vectors hide the latency of two units that take four or five cycles; each begins with another number, or the
// compiler would make one of them all.
constexpr int kChains = 10;
using MultiplyAdd = double (*)(std::int64_t rounds, float& result);

double plain_multiply_add(std::int64_t rounds, float& result) {
  constexpr int kLanes = 4 * kChains;
  float sums[kLanes];
  for (int i = 0; i < kLanes; ++i) sums[i] = static_cast<float>(i);
  for (std::int64_t round = 0; round < rounds; ++round)
    for (float& sum : sums) sum = sum * 0.5F + 1.0F;
  for (const float sum : sums) result += sum;
  return 2.0 * kLanes * static_cast<double>(rounds);
}

#if defined(__x86_64__)

__attribute__((target("avx2,fma"))) double avx2_multiply_add(std::int64_t rounds, float& result) {
  const __m256 half = _mm256_set1_ps(0.5F), one = _mm256_set1_ps(1.0F);
  __m256 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  for (std::int64_t round = 0; round < rounds; ++round)
#pragma GCC unroll 10
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_fmadd_ps(sums[i], half, one);
  for (const __m256& sum : sums) result += _mm256_cvtss_f32(sum);
  return 2.0 * 8 * kChains * static_cast<double>(rounds);
}

__attribute__((target("avx512f"))) double avx512_multiply_add(std::int64_t rounds, float& result) {
  const __m512 half = _mm512_set1_ps(0.5F), one = _mm512_set1_ps(1.0F);
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (std::int64_t round = 0; round < rounds; ++round)
#pragma GCC unroll 10
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(sums[i], half, one);
  for (const __m512& sum : sums) result += _mm512_cvtss_f32(sum);
  return 2.0 * 16 * kChains * static_cast<double>(rounds);
}

#endif

struct Vectors {
  std::string_view name;
  MultiplyAdd multiply_add;
};

// The same choice that the kernels' clones make.
Vectors vectors_here() {
#if defined(__x86_64__)
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (v4) return {"AVX-512", avx512_multiply_add};
  if (v3) return {"AVX2", avx2_multiply_add};
  return {"SSE2", plain_multiply_add};
#else
  return {"none", plain_multiply_add};
#endif
}

// Goes of multiply-adds on some threads, each long enough for the threads to run side by side for most of it, yet short enough to
// pass between interruptions.
class Arithmetic {
 public:
  explicit Arithmetic(int threads) : results_(static_cast<std::size_t>(threads)) {
    while (run().seconds < 0.004) rounds_ *= 2;
  }
  // Operations a second in one go.
  double rate() {
    const Go go = run();
    return go.operations / go.seconds;
  }

 private:
  struct Go {
    double operations = 0;
    double seconds = 0;
  };
  Go run() {
    std::vector<double> operations(results_.size());
    Go go;
    go.seconds = seconds_together(static_cast<int>(results_.size()), [&](int i) {
      const auto at = static_cast<std::size_t>(i);
      operations[at] = multiply_add_(rounds_, results_[at]);
    });
    for (const double made : operations) go.operations += made;
    return go;
  }

  MultiplyAdd multiply_add_ = vectors_here().multiply_add;
  std::vector<float> results_;
  std::int64_t rounds_ = 10'000;
};

// One thread that copies again and again, as a copy lane does, until it goes.
class Copier {
 public:
  Copier(const Buffer& from, const Buffer& to, std::int64_t offset, std::int64_t bytes)
      : thread_([this, &from, &to, offset, bytes](const std::stop_token& stop) {
          constexpr std::int64_t kChunk = kMebibyte;
          for (std::int64_t done = 0; !stop.stop_requested(); done = (done + kChunk) % bytes) {
            copy(from, to, offset + done, std::min(kChunk, bytes - done));
            copied_ += std::min(kChunk, bytes - done);
          }
        }) {}
  std::int64_t copied() const { return copied_; }

 private:
  std::atomic<std::int64_t> copied_ = 0;
  std::jthread thread_;  // last: it uses the rest
};

struct Overlap {
  double kernel = 1;
  double copy = 1;
};

// What loops, of which `once` makes one go and returns its rate, and copies of `bytes` at `offset` take of each other. `link` is
// the rate of copies alone.
template <class Once>
Overlap measure_overlap(double link, const Buffer& from, const Buffer& to, std::int64_t offset, std::int64_t bytes, Once once) {
  constexpr double kSeconds = 0.15;
  const auto rates = [&] {
    std::vector<double> all;
    for (const Clock::time_point start = Clock::now(); all.size() < 3 || seconds_since(start) < kSeconds;) all.push_back(once());
    return median(all);
  };
  const double alone = rates();
  const Copier copier(from, to, offset, bytes);
  const std::int64_t before = copier.copied();
  const Clock::time_point start = Clock::now();
  const double beside = rates();
  const double copied = static_cast<double>(std::max<std::int64_t>(copier.copied() - before, 1)) / seconds_since(start);
  return {std::max(1.0, alone / beside), std::max(1.0, link / copied)};
}

// Writes or reads `data` at the offset, all of it.
template <class Move>
void move_all(Move move, int file, std::byte* data, std::int64_t bytes, std::int64_t offset) {
  for (std::int64_t done = 0; done < bytes;) {
    const ssize_t moved = move(file, data + done, static_cast<std::size_t>(bytes - done), offset + done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved == 0) errno = EIO;
    if (moved <= 0) throw std::system_error(errno, std::generic_category());
    done += moved;
  }
}

// A descriptor that is closed when it goes.
struct File {
  explicit File(int opened) : number(opened) {}
  ~File() {
    if (number >= 0) close(number);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int number;
};

DiskRates measure_file(int file) {
  constexpr std::int64_t kChunk = 4 * kMebibyte, kMost = 256 * kMebibyte;
  constexpr double kSeconds = 0.5;
  const Buffer buffer(kChunk);
  DiskRates rates;
  std::int64_t written = 0, read = 0;
  Clock::time_point start = Clock::now();
  while (written < kMost && (written == 0 || seconds_since(start) < kSeconds)) {
    move_all(pwrite, file, buffer.at(0), kChunk, written);
    written += kChunk;
    // Now and then, so that a slow disk is noticed in time.
    if (written % (4 * kChunk) == 0 && fdatasync(file) != 0) throw std::system_error(errno, std::generic_category());
  }
  if (fdatasync(file) != 0) throw std::system_error(errno, std::generic_category());
  rates.out = static_cast<double>(written) / seconds_since(start);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);  // what is read now comes from the disk
  start = Clock::now();
  for (; read < written && (read == 0 || seconds_since(start) < kSeconds); read += kChunk)
    move_all(pread, file, buffer.at(0), kChunk, read);
  rates.in = static_cast<double>(read) / seconds_since(start);
  return rates;
}

// Of each of two buffers that no cache holds.
std::int64_t bytes_no_cache_holds(std::int64_t free_bytes) {
  return std::clamp(free_bytes / 16 / (2 * kMebibyte), std::int64_t{4}, std::int64_t{128}) * 2 * kMebibyte;
}

// Bytes that copies on so many threads read and write in a second.
double copy_rate(int threads, const Buffer& from, const Buffer& to) {
  const std::int64_t part = from.bytes() / threads / 64 * 64;
  return best_rate(0.3, [&] {
    const double seconds = seconds_together(threads, [&](int i) { copy(from, to, i * part, part); });
    return 2 * static_cast<double>(part) * threads / seconds;
  });
}

}  // namespace

double measure_memory(int threads, std::int64_t free_bytes) {
  const std::int64_t each = bytes_no_cache_holds(free_bytes);
  return copy_rate(threads, Buffer(each), Buffer(each));
}

Machine describe_machine() {
  Machine machine;
  machine.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  machine.vectors = vectors_here().name;
  machine.memory_bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; machine.processor.empty() && std::getline(file, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos)
      machine.processor = line.substr(line.find(": ") + 2);
  if (machine.processor.empty()) machine.processor = "unknown";
  return machine;
}

MachineRates measure_machine(int threads, std::int64_t free_bytes) {
  MachineRates rates;
  Arithmetic arithmetic(threads);
  rates.flops = best_rate(0.3, [&] { return arithmetic.rate(); });
  // Two buffers that no cache holds.
  const std::int64_t each = bytes_no_cache_holds(free_bytes);
  const Buffer device(each), host(each);
  const std::int64_t part = each / threads / 64 * 64;
  rates.bandwidth = copy_rate(threads, device, host);
  rates.link =
      best_rate(0.3, [&] { return static_cast<double>(each) / seconds_together(1, [&](int) { copy(device, host, 0, each); }); });
  // Each lane has its own half of both buffers.
  rates.link_both = best_rate(0.3, [&] {
    return static_cast<double>(each) / seconds_together(2, [&](int lane) {
             lane == 0 ? copy(device, host, 0, each / 2) : copy(host, device, each / 2, each / 2);
           });
  });
  // The loop of memory has the first halves, the copies have the second.
  const std::int64_t half = each / 2, half_part = part / 2 / 64 * 64;
  const Overlap beside_arithmetic = measure_overlap(rates.link, device, host, half, half, [&] { return arithmetic.rate(); });
  const Overlap beside_memory = measure_overlap(rates.link, device, host, half, half, [&] {
    return 1 / seconds_together(threads, [&](int i) { copy(device, host, i * half_part, half_part); });
  });
  rates.kernel_overlap = (beside_arithmetic.kernel + beside_memory.kernel) / 2;
  rates.copy_overlap = (beside_arithmetic.copy + beside_memory.copy) / 2;
  return rates;
}

double median(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  const std::size_t half = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[half] : (numbers[half - 1] + numbers[half]) / 2;
}

DiskRates measure_disk(const std::string& directory) {
  const File file(open_nameless_file(directory));
  if (file.number < 0) user_error("spill directory '{}': cannot make a file: {}", directory, std::strerror(errno));
  try {
    return measure_file(file.number);
  } catch (const std::system_error& error) {
    user_error("spill directory '{}': cannot be measured: {}", directory, error.code().message());
  }
}

}  // namespace outsize
