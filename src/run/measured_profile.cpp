#include "run/measured_profile.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "backend/host_memory.h"
#include "base/alignment.h"
#include "base/bytes.h"
#include "base/philox.h"
#include "cost/measure.h"
#include "run/measured_links.h"
#include "search/prepare.h"

namespace outsize {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr std::size_t kLeastRuns = 3, kMostRuns = 15;
constexpr double kLongRun = 0.05;  // one such run says enough

// How often the threads of this process have been made to give up their processors.
std::int64_t preemptions() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// Whether the instruction is a kernel that the device runs: updates on the host, beside a card, are another processor's work.
bool runs_on(const Device& device, const Instruction& instruction) {
  return instruction.action == Action::kernel && (instruction.lane != Lane::host || device.is_host());
}

// Memory of the device that only grows; its contents do not stay.
class Scratch {
 public:
  explicit Scratch(Backend& backend) : backend_(backend) {}
  ~Scratch() { backend_.deallocate(Tier::device, memory_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* get(std::int64_t bytes) {
    if (bytes <= bytes_) return memory_;
    backend_.deallocate(Tier::device, memory_, bytes_);
    memory_ = nullptr;
    bytes_ = 0;
    memory_ = backend_.allocate(Tier::device, bytes);
    bytes_ = bytes;
    return memory_;
  }

 private:
  Backend& backend_;
  std::byte* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

// Which parts of the device's arena a cache of so many bytes would hold, were it to drop what was touched longest ago.
class CacheModel {
 public:
  CacheModel(std::int64_t arena_bytes, std::int64_t cache_bytes)
      : touched_(static_cast<std::size_t>(arena_bytes / kGrain + 1), -2 * cache_bytes), cache_bytes_(cache_bytes) {}

  void touch(const Interval& range) {
    for (std::int64_t grain = range.lo / kGrain; grain * kGrain < range.hi; ++grain) {
      traffic_ += std::min(kGrain, range.size());
      touched_[static_cast<std::size_t>(grain)] = traffic_;
    }
  }
  // Whether it holds at least half of the range.
  bool holds(const Interval& range) const {
    std::int64_t held = 0, all = 0;
    for (std::int64_t grain = range.lo / kGrain; grain * kGrain < range.hi; ++grain, ++all)
      held += traffic_ - touched_[static_cast<std::size_t>(grain)] < cache_bytes_ ? 1 : 0;
    return 2 * held >= all;
  }

 private:
  static constexpr std::int64_t kGrain = 64 * 1024;
  std::vector<std::int64_t> touched_;  // by grain: the traffic up to then
  std::int64_t cache_bytes_;
  std::int64_t traffic_ = 0;
};

// One operand in the memory that an op is timed in. Operands that lie at one place in the program do so here: in-place ops.
struct Place {
  PieceId piece;
  std::int64_t bytes = 0;
  std::int64_t offset = 0;
  bool warm = false;  // in the cache when the op begins
};

// A kernel of the program to be timed.
struct Candidate {
  const Instruction* instruction = nullptr;
  std::string signature;
  std::vector<Place> reads;
  std::vector<Place> writes;
  std::int64_t bytes = 0;  // of all operands
  double estimate = 0;     // seconds of all its calls in a step
};

class Measuring {
 public:
  Measuring(const Graph& graph, const Program& program, Backend& backend)
      : graph_(graph),
        program_(program),
        backend_(backend),
        cache_bytes_(backend.cache_bytes()),
        scratch_(backend),
        other_(backend),
        sink_(backend) {
    const RandomStream stream(0, "operands");
    for (std::size_t i = 0; i < random_.size(); ++i) random_[i] = static_cast<float>(stream.uniform(i));
  }

  // One a signature that the profile lacks or has disturbed, the one that takes longest first.
  std::vector<Candidate> candidates(const Profile& profile) const {
    CacheModel cache(program_.peak_bytes.device, cache_bytes_);
    std::map<std::string, Candidate> found;
    // Twice: a step begins with what the step before has left in the cache.
    for (const bool warm_up : {true, false})
      for (const Instruction& instruction : program_.instructions) {
        if (!warm_up && runs_on(profile.device, instruction)) add(profile, instruction, cache, found);
        for (const std::span<const Operand> operands : {std::span<const Operand>(instruction.reads), {instruction.writes}})
          for (const Operand& operand : operands)
            if (const auto range = range_of(operand); range && tier_of(operand) == Tier::device) cache.touch(*range);
      }
    std::vector<Candidate> sorted;
    for (auto& [key, candidate] : found) sorted.push_back(std::move(candidate));
    std::ranges::stable_sort(sorted, std::ranges::greater(), &Candidate::estimate);
    return sorted;
  }

  struct Timing {
    double seconds = 0;  // the median of some runs
    bool disturbed = false;
  };
  // Nothing where it cannot be run here.
  std::optional<Timing> time(const Candidate& candidate, const MeasureOptions& options) {
    const Call call = call_of(graph_, program_, *candidate.instruction);
    const std::shared_ptr<const Kernel> kernel =
        backend_.kernel(call, Lane::compute, program_.kernel_of(candidate.instruction->op));
    const std::int64_t needed = align_up(candidate.bytes + kernel->workspace_bytes(), kAlignment);
    // Of an op that is over in microseconds it matters that its code, too, is where a step has it: used a moment ago, since most
    // ops share theirs with others. It runs on other operands first.
    const bool rehearse = candidate.bytes <= cache_bytes_;
    const std::int64_t all_bytes = rehearse ? 2 * needed : needed;
    if (options.free_bytes > 0 && all_bytes + kEvicted * cache_bytes_ > options.free_bytes) return std::nullopt;

    std::byte* const memory = scratch_.get(std::max<std::int64_t>(all_bytes, 1));
    const Operands operands = place_operands(candidate, memory);
    const Operands others = place_operands(candidate, rehearse ? memory + needed : memory);
    void* const queue = backend_.queues() ? backend_.queues()->queue(Lane::compute) : nullptr;
    const auto run = [&](const Operands& on) {
      kernel->run({on.in, on.out, on.workspace, call.boxes.in, call.boxes.out, call.owned, queue});
    };

    try {
      run(operands);
    } catch (const UserError&) {  // the numbers are made up, and not to this op's taste
      return std::nullopt;
    }
    std::vector<double> all, calm;
    const Clock::time_point begin = Clock::now();
    do {
      empty_cache();
      if (rehearse) run(others);
      warm_cache(candidate, memory);
      const std::int64_t before = preemptions();
      all.push_back(backend_.seconds(Lane::compute, [&] { run(operands); }));
      if (preemptions() == before) calm.push_back(all.back());
    } while (all.size() < kMostRuns &&
             (seconds_since(begin) < options.op_seconds || (all.size() < kLeastRuns && all.back() < kLongRun)));
    return Timing{median(calm.empty() ? all : calm), calm.empty()};
  }

 private:
  // A cache does not always drop what was used longest ago: it takes more than its size to replace what is in it.
  static constexpr std::int64_t kEvicted = 2;

  struct Operands {
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    std::byte* workspace = nullptr;
  };
  Operands place_operands(const Candidate& candidate, std::byte* memory) const {
    Operands made;
    for (const Place& place : candidate.reads) {
      made.in.push_back(place.bytes > 0 ? memory + place.offset : nullptr);
      fill(place, memory + place.offset);
    }
    for (const Place& place : candidate.writes) made.out.push_back(place.bytes > 0 ? memory + place.offset : nullptr);
    made.workspace = memory + candidate.bytes;
    return made;
  }

  Tier tier_of(const Operand& operand) const { return program_.piece(operand.piece).tier; }
  // Where an operand lies in its arena; a copy's on disk or in a source lies in none.
  std::optional<Interval> range_of(const Operand& operand) const {
    const Piece& piece = program_.piece(operand.piece);
    const Box& box = program_.boxes[operand.box].start;
    if (!in_memory(piece.tier) || box.empty()) return std::nullopt;
    const std::int64_t first =
        stored_offset(program_.storage, type_of(graph_, piece).format, program_.boxes[operand.holds].start, box.lo);
    const std::int64_t begin = piece.offset + first * size_of(type_of(graph_, piece).dtype);
    return Interval{begin, std::min(begin + bytes_of(operand), piece.offset + piece.bytes)};
  }
  std::int64_t bytes_of(const Operand& operand) const {
    return stored_bytes(program_.storage, type_of(graph_, program_.piece(operand.piece)),
                        program_.boxes[operand.box].start.shape());
  }

  void add(const Profile& profile, const Instruction& instruction, const CacheModel& cache,
           std::map<std::string, Candidate>& found) const {
    const Call call = call_of(graph_, program_, instruction);
    const std::string_view kernel = program_.kernel_of(instruction.op);
    std::string key = signature(call, kernel);
    if (profile.seconds.contains(key) && !profile.disturbed.contains(key)) return;
    Candidate& candidate = found[key];
    candidate.estimate += profile.seconds_of(call, kernel);
    if (candidate.instruction != nullptr) return;
    candidate.instruction = &instruction;
    candidate.signature = std::move(key);
    std::map<std::pair<std::int64_t, std::int64_t>, Place> at;  // by where they lie in the arena, one for all of a kernel
    const auto place = [&](const Operand& operand) {
      const std::optional<Interval> range = range_of(operand);
      if (!range) return Place{operand.piece};
      const Place next{operand.piece, bytes_of(operand), candidate.bytes, tier_of(operand) == Tier::device && cache.holds(*range)};
      const auto [shared, is_new] = at.try_emplace({range->lo, range->hi}, next);
      if (is_new) candidate.bytes += align_up(next.bytes, kAlignment);
      return shared->second;
    };
    for (const Operand& operand : instruction.reads) candidate.reads.push_back(place(operand));
    for (const Operand& operand : instruction.writes) candidate.writes.push_back(place(operand));
  }

  // Small numbers of either sign; above 0 where they may be a variance or a count. Integers are 0, which is an index everywhere,
  // but for the number of a step, which counts from 1.
  void fill(const Place& place, std::byte* to) const {
    const Value& value = graph_.value(program_.piece(place.piece).value);
    const float lowest = value.role == Role::state || value.role == Role::statistic ? 0.0F : -0.5F;
    switch (value.type.dtype) {
      case DType::f32: return repeat<float>(to, place.bytes, lowest);
      case DType::f64: return repeat<double>(to, place.bytes, lowest);
      default: backend_.fill(Tier::device, to, place.bytes, std::byte{0});
    }
    const std::int32_t first = 1;
    if (value.type.dtype == DType::i32 && value.type.elements() == 1)
      backend_.upload(Tier::device, std::as_bytes(std::span(&first, 1)), to);
  }
  template <class T>
  void repeat(std::byte* to, std::int64_t bytes, float lowest) const {
    std::vector<T> numbers;
    for (const float number : random_) numbers.push_back(static_cast<T>(number + lowest));
    const auto period = static_cast<std::int64_t>(numbers.size() * sizeof(T));
    // Doubled until it is enough: few uploads, whatever the size.
    const std::int64_t begun = std::min(period, bytes);
    backend_.upload(Tier::device, std::as_bytes(std::span(numbers)).first(static_cast<std::size_t>(begun)), to);
    for (std::int64_t done = begun; done < bytes;) {
      CopyPlan plan;
      plan.length = std::min(done, bytes - done);
      backend_.copy(Lane::compute, plan, 1, to, to + done);
      done += plan.length;
    }
  }

  void empty_cache() {
    const std::int64_t half = align_up(kEvicted * cache_bytes_ / 2, kAlignment);
    std::byte* const other = other_.get(2 * half);
    CopyPlan plan;
    plan.length = half / size_of(DType::f32);
    backend_.combine(Lane::compute, Combine::sum, plan, DType::f32, other, other + half);  // zeros stay zeros
  }
  // Brings the warm operands in.
  void warm_cache(const Candidate& candidate, const std::byte* memory) {
    constexpr std::int64_t kSink = std::int64_t{1} << 20;
    std::byte* const sink = sink_.get(kSink);
    CopyPlan plan;
    for (const std::vector<Place>* places : {&candidate.reads, &candidate.writes})
      for (const Place& place : *places)
        for (std::int64_t done = 0; place.warm && done < place.bytes; done += kSink) {
          plan.length = std::min(place.bytes - done, kSink);
          backend_.copy(Lane::compute, plan, 1, memory + place.offset + done, sink);
        }
  }

  const Graph& graph_;
  const Program& program_;
  Backend& backend_;
  std::int64_t cache_bytes_;
  Scratch scratch_;  // the op's
  Scratch other_;    // what else is in the cache
  Scratch sink_;     // where operands are copied to, to be read
  std::array<float, 4093> random_;
};

// Calls body(signature, call) once for each signature of the kernels that the device runs.
template <class Body>
void for_each_signature(const Device& device, const Graph& graph, const Program& program, Body body) {
  std::set<std::string> seen;
  for (const Instruction& instruction : program.instructions) {
    if (!runs_on(device, instruction)) continue;
    const Call call = call_of(graph, program, instruction);
    const auto [key, is_new] = seen.insert(signature(call, program.kernel_of(instruction.op)));
    if (is_new) body(*key, call);
  }
}

// Gives the profile scales of the kinds that the program has ops of. What was timed while something else ran says nothing.
void set_scales(Profile& profile, const Graph& graph, const Program& program) {
  std::map<std::string, std::vector<MeasuredOp>> measured;
  for_each_signature(profile.device, graph, program, [&](const std::string& key, const Call& call) {
    const auto found = profile.seconds.find(key);
    if (found != profile.seconds.end() && !profile.disturbed.contains(key))
      measured[std::string(call.site.op.def->kind())].push_back({found->second, roofline_seconds(profile.device, call)});
  });
  for (const auto& [kind, ops] : measured)
    if (const std::optional<Scale> scale = scale_of(ops)) keep_better(profile.scale[kind], *scale);
}

}  // namespace

Coverage coverage_of(const Profile& profile, const Graph& graph, const Program& program) {
  Coverage coverage;
  for_each_signature(profile.device, graph, program, [&](const std::string& key, const Call& call) {
    ++coverage.ops;
    coverage.disturbed += profile.disturbed.contains(key) ? 1 : 0;
    if (profile.seconds.contains(key)) {
      ++coverage.measured;
    } else if (const auto scale = profile.scale.find(std::string(call.site.op.def->kind())); scale != profile.scale.end()) {
      ++coverage.scaled;
      coverage.scales.insert(*scale);
    }
  });
  return coverage;
}

std::int64_t measure(Profile& profile, const Graph& graph, const Program& program, Backend& backend,
                     const MeasureOptions& options) {
  const Clock::time_point begin = Clock::now();
  Measuring measuring(graph, program, backend);
  const std::vector<Candidate> candidates = measuring.candidates(profile);
  std::int64_t done = 0, timed = 0;
  for (const Candidate& candidate : candidates) {
    if (seconds_since(begin) >= options.seconds) break;
    if (options.progress) options.progress(done++, static_cast<std::int64_t>(candidates.size()));
    const auto timing = measuring.time(candidate, options);
    if (!timing) continue;
    // Whatever else runs can only lengthen it.
    const auto [entry, is_new] = profile.seconds.try_emplace(candidate.signature, timing->seconds);
    entry->second = std::min(entry->second, timing->seconds);
    if (timing->disturbed)
      profile.disturbed.insert(candidate.signature);
    else
      profile.disturbed.erase(candidate.signature);
    ++timed;
  }
  set_scales(profile, graph, program);
  return timed;
}

Device measure_device(const Device& description, int threads, const std::string& directory) {
  Device device = description;
  const MachineRates rates = measure_machine(threads, available_bytes());
  device.memory_bytes = device.host_bytes = describe_machine().memory_bytes;
  device.flops = rates.flops;
  device.bandwidth = rates.bandwidth;
  device.link_out = device.link_in = rates.link;
  device.full_duplex = rates.full_duplex();
  device.kernel_overlap = rates.kernel_overlap;
  device.copy_overlap = rates.copy_overlap;
  measure_disk_of(device, directory);
  return device;
}

void measure_disk_of(Device& device, const std::string& directory) {
  try {
    const DiskRates disk = measure_disk(directory);
    device.disk_out = disk.out;
    device.disk_in = disk.in;
  } catch (const UserError&) {
  }
}

void measure_card(Device& device, Backend& backend) {
  device.host_bandwidth = measure_memory(backend.threads(), available_bytes());
  try {
    use_links(device, time_links(backend));
  } catch (const UserError&) {  // others hold the memory
  }
}

}  // namespace outsize
