#include "backend/host_memory.h"

#include <malloc.h>
#include <omp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>

#include "base/bytes.h"
#include "base/threads.h"
#include "ops/combine.h"

namespace outsize {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
// Below this, waking threads costs more than it saves.
constexpr std::int64_t kParallelBytes = std::int64_t{1} << 20;
// Ranges that threads share out begin at multiples of this many elements, so that no two write one cache line.
constexpr std::int64_t kGrain = 64;

// The number in a line such as "MemAvailable:   123 kB" of a file, or the first number of the file when `key` is empty; -1 where
// there is none.
std::int64_t number_in(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    if (!key.empty() && word != key) continue;
    if (!key.empty() && !(file >> word)) break;
    return word.find_first_not_of("0123456789") == std::string::npos ? std::stoll(word) : -1;
  }
  return -1;
}

// Of a group of processes: what it may take, and takes now; files that are held count as free.
struct Limits {
  const char* root;
  const char* limit;
  const char* used;
  const char* files;  // its keys in memory.stat are …
  const char* keys[2];
};
constexpr Limits kGroups2{"/sys/fs/cgroup", "memory.max", "memory.current", "memory.stat", {"active_file", "inactive_file"}};
constexpr Limits kGroups1{"/sys/fs/cgroup/memory",
                          "memory.limit_in_bytes",
                          "memory.usage_in_bytes",
                          "memory.stat",
                          {"total_active_file", "total_inactive_file"}};

// The least that is left to the group at `path` and those above it; `bytes` where none has less.
std::int64_t left_to_group(const Limits& limits, std::string path, std::int64_t bytes) {
  for (;; path = path.substr(0, path.rfind('/'))) {
    const std::string folder = limits.root + path + "/";
    const std::int64_t limit = number_in((folder + limits.limit).c_str(), ""), used = number_in((folder + limits.used).c_str(), "");
    if (limit > 0 && used >= 0) {
      std::int64_t left = limit - used;
      for (const char* key : limits.keys) left += std::max<std::int64_t>(number_in((folder + limits.files).c_str(), key), 0);
      bytes = std::clamp<std::int64_t>(left, 0, bytes);
    }
    if (path.empty()) return bytes;
  }
}

// The same of the groups that this process is in. A container sees its own as the root.
std::int64_t left_to_groups(std::int64_t bytes) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) bytes = left_to_group(kGroups2, path, bytes);
    if (controllers == "memory") bytes = left_to_group(kGroups1, path, bytes);
  }
  return bytes;
}

// What the limits of the process itself leave: those on its data (`ulimit -d`) and on all its addresses (`ulimit -v`).
std::int64_t left_to_process(std::int64_t bytes) {
  for (const auto& [resource, key] : {std::pair(RLIMIT_DATA, "VmData:"), std::pair(RLIMIT_AS, "VmSize:")}) {
    rlimit limit{};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    const std::int64_t used = std::max<std::int64_t>(number_in("/proc/self/status", key), 0) * 1024;
    bytes = std::clamp<std::int64_t>(static_cast<std::int64_t>(limit.rlim_cur) - used, 0, bytes);
  }
  return bytes;
}

[[noreturn]] void refuse(std::int64_t bytes, std::string_view what, std::string_view why) {
  user_error("cannot get {} ({} bytes) of {} memory: {}; give a smaller --memory or --host-memory, or close other programs",
             format_bytes(bytes), bytes, what, why);
}

// Most systems promise more than they have and end the process when it is used; asking first lets us say so instead.
void expect_available(std::int64_t bytes, std::string_view what) {
  const std::int64_t available = available_bytes();
  if (bytes > available) refuse(bytes, what, fmt::format("the system has {} available", format_bytes(available)));
  // Libraries, kernels, threads and batches come after it.
  if (bytes > available - kLeastOutside)
    refuse(bytes, what,
           fmt::format("of the {} available it leaves less than the {} that a run takes beside it", format_bytes(available),
                       format_bytes(kLeastOutside)));
}

// The part of [0, total) that falls to `index` of `parts`.
Interval share(std::int64_t total, std::int64_t parts, std::int64_t index) {
  const std::int64_t each = align_up((total + parts - 1) / parts, kGrain);
  return {std::min(total, each * index), std::min(total, each * (index + 1))};
}

// Calls body(from, to, length), in elements, so that everything the plan moves is covered once, on up to `threads` threads.
template <class Body>
void share_out(const CopyPlan& plan, std::int64_t element_bytes, int threads, Body&& body) {
  const std::int64_t runs = run_count(plan);
  if (threads <= 1 || runs * plan.length * element_bytes < kParallelBytes) {
    for_each_run(plan, 0, runs, [&](std::int64_t from, std::int64_t to) { body(from, to, plan.length); });
    return;
  }
  const bool many = runs >= std::int64_t{4} * threads;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int thread = 0; thread < threads; ++thread) {
    if (many) {
      const std::int64_t begin = runs * thread / threads, end = runs * (thread + 1) / threads;
      for_each_run(plan, begin, end, [&](std::int64_t from, std::int64_t to) { body(from, to, plan.length); });
    } else {
      const Interval part = share(plan.length, threads, thread);
      if (part.empty()) continue;
      for_each_run(plan, 0, runs, [&](std::int64_t from, std::int64_t to) { body(from + part.lo, to + part.lo, part.size()); });
    }
  }
}

template <class T>
void add_runs(const CopyPlan& plan, int threads, const std::byte* from, std::byte* to) {
  const T* const source = reinterpret_cast<const T*>(from);
  T* const target = reinterpret_cast<T*>(to);
  share_out(plan, sizeof(T), threads, [=](std::int64_t at_from, std::int64_t at_to, std::int64_t length) {
    const T* const a = source + at_from;
    T* const sum = target + at_to;
#pragma omp simd
    for (std::int64_t i = 0; i < length; ++i) sum[i] += a[i];
  });
}

}  // namespace

std::int64_t available_bytes() {
  std::int64_t bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  if (const std::int64_t kibibytes = number_in("/proc/meminfo", "MemAvailable:"); kibibytes > 0)
    bytes = std::min(bytes, kibibytes * 1024);
  return left_to_process(left_to_groups(bytes));
}

// getrusage() would also count what the process was before it became this program.
std::int64_t process_peak_bytes() { return std::max<std::int64_t>(number_in("/proc/self/status", "VmHWM:"), 0) * 1024; }

std::byte* map_pages(std::int64_t bytes, std::string_view what) {
  OUTSIZE_CHECK(bytes > 0);
  expect_available(bytes, what);
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  const std::int64_t size = align_up(bytes, page);
  const bool huge = bytes >= kHugePage;
  const std::int64_t mapped = huge ? size + kHugePage : size;
  void* const memory = mmap(nullptr, static_cast<std::size_t>(mapped), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) refuse(bytes, what, std::strerror(errno));
  std::byte* const begin = static_cast<std::byte*>(memory);
  if (!huge) return begin;
  // Keep the aligned part; give the rest back, so that unmap_pages need not know of it.
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(begin));
  const std::int64_t head = align_up(address, kHugePage) - address;
  if (head > 0) munmap(begin, static_cast<std::size_t>(head));
  if (mapped > head + size) munmap(begin + head + size, static_cast<std::size_t>(mapped - head - size));
  madvise(begin + head, static_cast<std::size_t>(size), MADV_HUGEPAGE);  // a wish: without huge pages it only runs slower
  return begin + head;
}

void unmap_pages(std::byte* memory, std::int64_t bytes) {
  if (memory == nullptr) return;
  munmap(memory, static_cast<std::size_t>(align_up(bytes, sysconf(_SC_PAGESIZE))));
}

std::byte* remap_pages(std::byte* memory, std::int64_t bytes, std::int64_t wanted, std::string_view what) {
  OUTSIZE_CHECK(wanted >= bytes);
  expect_available(wanted - bytes, what);
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  const auto size = static_cast<std::size_t>(align_up(bytes, page)), wanted_size = static_cast<std::size_t>(align_up(wanted, page));
  void* const moved = mremap(memory, size, wanted_size, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED) refuse(wanted, what, std::strerror(errno));
  if (wanted >= kHugePage) madvise(moved, wanted_size, MADV_HUGEPAGE);
  return static_cast<std::byte*>(moved);
}

void fill_memory(std::byte* memory, std::int64_t bytes, std::byte byte) {
  std::memset(memory, std::to_integer<int>(byte), static_cast<std::size_t>(bytes));
}

std::int64_t first_other_byte(const std::byte* memory, std::int64_t bytes, std::byte byte) {
  const std::byte* const found = std::find_if(memory, memory + bytes, [byte](std::byte it) { return it != byte; });
  return found == memory + bytes ? -1 : found - memory;
}

std::int64_t last_other_byte(const std::byte* memory, std::int64_t bytes, std::byte byte) {
  // Blank ends of large memory are skipped block by block.
  constexpr std::int64_t kBlock = 4096;
  std::array<std::byte, kBlock> blank;
  blank.fill(byte);
  while (bytes >= kBlock && std::memcmp(memory + bytes - kBlock, blank.data(), kBlock) == 0) bytes -= kBlock;
  while (bytes > 0 && memory[bytes - 1] == byte) --bytes;
  return bytes - 1;
}

HostBackend::HostBackend(KernelTable kernels, StorageRule storage, int threads, AlternativesTable alternatives)
    : name_(kernels.backend),
      storage_(storage),
      threads_(threads),
      kernels_(std::move(kernels), storage, std::move(alternatives)) {}

// Otherwise the first kernel of the lane starts threads of its own in the middle of a step.
void HostBackend::enter(Lane lane) {
  if (lane != Lane::compute) omp_set_num_threads(1);
}

void HostBackend::release_kernels() {
  kernels_.release_unused();
  malloc_trim(0);
}

// OpenMP ends the process where it cannot start a thread, so that there must be room for its threads before it is asked, and its
// threads are there before the arenas take what room there is.
void HostBackend::start_threads() {
  if (started_threads_) return;
  expect_threads("computing", threads_ - 1);
#pragma omp parallel num_threads(threads_)
  {}
  started_threads_ = true;
}

std::byte* HostBackend::allocate(Tier tier, std::int64_t bytes) {
  OUTSIZE_CHECK(tier != Tier::disk);
  start_threads();
  return map_pages(bytes, tier == Tier::device ? "device" : "host");
}

std::byte* HostBackend::reallocate(Tier tier, std::byte* memory, std::int64_t bytes, std::int64_t wanted) {
  return remap_pages(memory, bytes, wanted, tier == Tier::device ? "device" : "host");
}

void HostBackend::deallocate(Tier, std::byte* memory, std::int64_t bytes) { unmap_pages(memory, bytes); }

void HostBackend::copy(Lane lane, const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::byte* to) {
  share_out(plan, element_bytes, lane == Lane::compute ? threads_ : 1,
            [=](std::int64_t at_from, std::int64_t at_to, std::int64_t length) {
              std::memcpy(to + at_to * element_bytes, from + at_from * element_bytes,
                          static_cast<std::size_t>(length * element_bytes));
            });
}

void HostBackend::combine(Lane, Combine rule, const CopyPlan& plan, DType dtype, const std::byte* from, std::byte* to) {
  if (rule != Combine::sum) {
    OUTSIZE_CHECK(run_count(plan) <= 1 && plan.from == 0 && plan.to == 0);
    return combine_into(rule, dtype, to, from, plan.length);
  }
  switch (dtype) {
    case DType::f32: return add_runs<float>(plan, threads_, from, to);
    case DType::f64: return add_runs<double>(plan, threads_, from, to);
    default: internal_error("only f32 and f64 add up, not {}", name_of(dtype));
  }
}

void HostBackend::fill(Tier, std::byte* memory, std::int64_t bytes, std::byte byte) { fill_memory(memory, bytes, byte); }

std::int64_t HostBackend::first_other(Tier, const std::byte* memory, std::int64_t bytes, std::byte byte) const {
  return first_other_byte(memory, bytes, byte);
}

std::int64_t HostBackend::last_other(Tier, const std::byte* memory, std::int64_t bytes, std::byte byte) const {
  return last_other_byte(memory, bytes, byte);
}

void HostBackend::upload(Tier, std::span<const std::byte> from, std::byte* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

void HostBackend::download(Tier, const std::byte* from, std::span<std::byte> to) const {
  if (!to.empty()) std::memcpy(to.data(), from, to.size());
}

double HostBackend::seconds(Lane, const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Of the largest cache that a processor reaches, or a usual one where the system does not say; at most what there is time to fill.
// The C library is not asked: of some processors it takes the caches of all dies for one, ten times the size.
std::int64_t HostBackend::cache_bytes() const {
  constexpr std::int64_t kUsual = std::int64_t{32} << 20, kMost = std::int64_t{128} << 20;
  std::int64_t largest = 0;
  for (int index = 0;; ++index) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));  // "32768K"
    std::int64_t kibibytes = 0;
    if (!(file >> kibibytes)) break;
    largest = std::max(largest, kibibytes << 10);
  }
  return largest > 0 ? std::min(largest, kMost) : kUsual;
}

void HostBackend::zero(Lane, std::byte* memory, std::int64_t bytes) {
  CopyPlan plan;
  plan.length = bytes;
  share_out(plan, 1, threads_, [=](std::int64_t, std::int64_t at, std::int64_t length) {
    std::memset(memory + at, 0, static_cast<std::size_t>(length));
  });
}

}  // namespace outsize
