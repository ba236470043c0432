#include "run/simulator.h"

#include <array>
#include <limits>

#include "run/schedule.h"

namespace outsize {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

double bytes_of(const Program& program, const Operand& operand) {
  return static_cast<double>(stored_bytes(program.storage, program.piece(operand.piece).type, operand.box.shape()));
}

// How long an instruction takes once it runs; the same in every iteration, since boxes only move.
double duration(const Graph& graph, const Program& program, const Profile& profile, const Instruction& instruction) {
  const Device& device = profile.device;
  switch (instruction.action) {
    case Action::kernel: return profile.seconds_of(call_of(graph, instruction));
    case Action::copy_out: return device.launch_seconds + bytes_of(program, instruction.reads[0]) / device.link_out;
    case Action::copy_in: return device.launch_seconds + bytes_of(program, instruction.reads[0]) / device.link_in;
    case Action::disk_out: return device.launch_seconds + bytes_of(program, instruction.reads[0]) / device.disk_out;
    case Action::disk_in: return device.launch_seconds + bytes_of(program, instruction.reads[0]) / device.disk_in;
    case Action::copy:
    case Action::combine:
    case Action::zero: {
      double bytes = 0;  // device memory's rate counts what is read and what is written
      for (const Operand& operand : instruction.reads) bytes += bytes_of(program, operand);
      for (const Operand& operand : instruction.writes) bytes += bytes_of(program, operand);
      return device.launch_seconds + bytes / device.bandwidth;
    }
  }
  internal_error("no duration for action {}", static_cast<int>(instruction.action));
}

// A lane's next instruction and what it has done so far.
struct LaneState {
  std::size_t segment = 0;
  std::int64_t iteration = 0;
  std::size_t position = 0;
  std::vector<double> ends;  // of its instructions, unrolled

  double free_at() const { return ends.empty() ? 0 : ends.back(); }
};

class Simulation {
 public:
  Simulation(const Graph& graph, const Program& program, const Profile& profile)
      : program_(program), full_duplex_(profile.device.full_duplex), schedule_(make_schedule(program)) {
    for (const Instruction& instruction : program.instructions) seconds_.push_back(duration(graph, program, profile, instruction));
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes_[lane].ends.reserve(static_cast<std::size_t>(schedule_.totals[lane]));
    trace_.events.resize(static_cast<std::size_t>(schedule_.events));
  }

  Trace run() {
    while (advance_free_lanes() || advance_link()) {
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      if (static_cast<std::int64_t>(lanes_[lane].ends.size()) != schedule_.totals[lane])
        internal_error("lane {} waits for ever at its instruction {} of {}", name_of(static_cast<Lane>(lane)),
                       lanes_[lane].ends.size(), schedule_.totals[lane]);
    for (const LaneState& lane : lanes_) trace_.seconds = std::max(trace_.seconds, lane.free_at());
    return std::move(trace_);
  }

 private:
  const LaneSegment* segment(Lane lane) const {
    const auto& segments = schedule_.lanes[index_of(lane)];
    const std::size_t at = lanes_[index_of(lane)].segment;
    return at < segments.size() ? &segments[at] : nullptr;
  }

  // When the lane's next instruction can start, or kUnknown while something it waits for is not yet placed in time.
  double ready_at(Lane lane) const {
    const LaneSegment* const current = segment(lane);
    if (current == nullptr) return kUnknown;
    const LaneState& state = lanes_[index_of(lane)];
    double ready = state.free_at();
    const auto index = static_cast<std::size_t>(current->instructions[state.position]);
    for (const Wait& wait : program_.instructions[index].waits) {
      const std::int64_t target = target_of(wait, state.iteration);
      const std::vector<double>& ends = lanes_[index_of(wait.lane)].ends;
      if (target > static_cast<std::int64_t>(ends.size())) return kUnknown;
      if (target > 0) ready = std::max(ready, ends[static_cast<std::size_t>(target - 1)]);
    }
    return ready;
  }

  void run_next(Lane lane, double start) {
    const LaneSegment& current = *segment(lane);
    LaneState& state = lanes_[index_of(lane)];
    const std::int32_t index = current.instructions[state.position];
    const double end = start + seconds_[static_cast<std::size_t>(index)];
    trace_.events[static_cast<std::size_t>(schedule_.event(index, state.iteration))] = {index, state.iteration, lane, start, end};
    state.ends.push_back(end);
    if (++state.position < current.instructions.size()) return;
    state.position = 0;
    if (++state.iteration < current.count) return;
    state.iteration = 0;
    ++state.segment;
  }

  // Runs the lanes that share nothing as far as they come. True when any moved.
  bool advance_free_lanes() {
    bool moved = false;
    for (const Lane lane : {Lane::compute, Lane::disk_out, Lane::disk_in, Lane::copy_out, Lane::copy_in}) {
      if (!full_duplex_ && (lane == Lane::copy_out || lane == Lane::copy_in)) continue;
      for (double ready = ready_at(lane); ready != kUnknown; ready = ready_at(lane)) {
        run_next(lane, ready);
        moved = true;
      }
    }
    return moved;
  }

  // On a half duplex link, the copy that is ready first goes first. All other lanes stand still here, so a copy whose start is
  // unknown depends on the other direction and cannot come before it. True when one moved.
  bool advance_link() {
    if (full_duplex_) return false;
    const double out = ready_at(Lane::copy_out), in = ready_at(Lane::copy_in);
    if (out == kUnknown && in == kUnknown) return false;
    const Lane next = earlier_of(out, in);
    const double start = std::max(std::min(out, in), link_free_);
    run_next(next, start);
    link_free_ = lanes_[index_of(next)].free_at();
    return true;
  }

  // Two that both wait for the link count as ready together, and then the one issued first goes first.
  Lane earlier_of(double out, double in) const {
    out = std::max(out, link_free_);
    in = std::max(in, link_free_);
    if (out != in) return out < in ? Lane::copy_out : Lane::copy_in;
    const auto issued = [this](Lane lane) {
      const LaneState& state = lanes_[index_of(lane)];
      return schedule_.event(segment(lane)->instructions[state.position], state.iteration);
    };
    return issued(Lane::copy_out) < issued(Lane::copy_in) ? Lane::copy_out : Lane::copy_in;
  }

  const Program& program_;
  bool full_duplex_;
  Schedule schedule_;
  std::vector<double> seconds_;  // by instruction
  std::array<LaneState, kLanes> lanes_;
  double link_free_ = 0;
  Trace trace_;
};

}  // namespace

Trace simulate(const Graph& graph, const Program& program, const Profile& profile) {
  return Simulation(graph, program, profile).run();
}

}  // namespace outsize
