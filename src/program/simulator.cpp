#include "program/simulator.h"

#include <array>

#include "program/schedule.h"

namespace outsize {
namespace {

double bytes_of(const Graph& graph, const Program& program, const Operand& operand) {
  return static_cast<double>(
      stored_bytes(program.storage, type_of(graph, program.piece(operand.piece)), program.boxes[operand.box].start.shape()));
}

// What is read and what is written: a memory's rate counts both.
double touched_bytes(const Graph& graph, const Program& program, const Instruction& instruction) {
  double bytes = 0;
  for (const Operand& operand : instruction.reads) bytes += bytes_of(graph, program, operand);
  for (const Operand& operand : instruction.writes) bytes += bytes_of(graph, program, operand);
  return bytes;
}

// How long an instruction takes once it runs; the same in every iteration, since boxes only move.
double duration(const Graph& graph, const Program& program, const Profile& profile, const Instruction& instruction) {
  const Device& device = profile.device;
  switch (instruction.action) {
    case Action::kernel:
      if (instruction.lane == Lane::host && !device.is_host())
        return device.launch_seconds + touched_bytes(graph, program, instruction) / device.host_bandwidth;
      return profile.seconds_of(call_of(graph, program, instruction), program.kernel_of(instruction.op));
    case Action::copy_out: return device.launch_seconds + bytes_of(graph, program, instruction.reads[0]) / device.link_out;
    case Action::copy_in: return device.launch_seconds + bytes_of(graph, program, instruction.reads[0]) / device.link_in;
    case Action::disk_out: return device.launch_seconds + bytes_of(graph, program, instruction.reads[0]) / device.disk_out;
    case Action::disk_in: return device.launch_seconds + bytes_of(graph, program, instruction.reads[0]) / device.disk_in;
    case Action::copy:
    case Action::combine:
    case Action::zero: return device.launch_seconds + touched_bytes(graph, program, instruction) / device.bandwidth;
  }
  internal_error("no duration for action {}", static_cast<int>(instruction.action));
}

// A lane's next instruction, and the one that runs now.
struct LaneState {
  std::size_t segment = 0;
  std::int64_t iteration = 0;
  std::size_t position = 0;
  std::int64_t completed = 0;  // instructions, unrolled

  bool running = false;
  // The instruction that runs: at `since`, `left` seconds of its work were left, if nothing slowed it; now each of them takes
  // `pace`.
  double since = 0;
  double left = 0;
  double pace = 1;

  double end() const { return since + left * pace; }
};

// From one completion to the next: what can start starts, then the earliest end is the next moment.
class Simulation {
 public:
  Simulation(const Graph& graph, const Program& program, const Profile& profile)
      : program_(program), device_(profile.device), schedule_(make_schedule(program)) {
    for (const Instruction& instruction : program.instructions) seconds_.push_back(duration(graph, program, profile, instruction));
    trace_.events.resize(schedule_.events);
  }

  Trace run() {
    do {
      start_ready_lanes();
      set_paces();
    } while (complete_next());
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      if (lanes_[lane].completed != schedule_.totals[lane])
        internal_error("lane {} waits for ever at its instruction {} of {}", name_of(static_cast<Lane>(lane)),
                       lanes_[lane].completed, schedule_.totals[lane]);
    trace_.seconds = now_;
    return std::move(trace_);
  }

 private:
  LaneState& at(Lane lane) { return lanes_[index_of(lane)]; }
  const LaneState& at(Lane lane) const { return lanes_[index_of(lane)]; }

  const LaneSegment* segment(Lane lane) const {
    const auto& segments = schedule_.lanes[index_of(lane)];
    return at(lane).segment < segments.size() ? &segments[at(lane).segment] : nullptr;
  }
  // The lane's next instruction, or the one that runs; it must have one.
  std::int32_t instruction(Lane lane) const { return segment(lane)->instructions[at(lane).position]; }
  TraceEvent& event(Lane lane) { return trace_.events[schedule_.event(instruction(lane), at(lane).iteration)]; }

  // Whether the lane is free, and all that its next instruction waits for is done.
  bool can_start(Lane lane) const {
    if (at(lane).running || segment(lane) == nullptr) return false;
    for (const Wait& wait : program_.instructions[instruction(lane)].waits)
      if (at(wait.lane).completed < target_of(wait, at(lane).iteration)) return false;
    return true;
  }

  void start(Lane lane) {
    LaneState& state = at(lane);
    state.running = true;
    state.since = now_;
    state.left = seconds_[instruction(lane)];
    state.pace = 1;
    event(lane) = {instruction(lane), state.iteration, lane, now_, now_};
  }

  void start_ready_lanes() {
    for (const Lane lane : {Lane::compute, Lane::disk_out, Lane::disk_in, Lane::host})
      if (can_start(lane)) start(lane);
    if (device_.full_duplex) {
      for (const Lane lane : {Lane::copy_out, Lane::copy_in})
        if (can_start(lane)) start(lane);
      return;
    }
    // A half duplex link serves who is ready first; of two that are ready, the one issued first.
    if (at(Lane::copy_out).running || at(Lane::copy_in).running) return;
    const bool out = can_start(Lane::copy_out), in = can_start(Lane::copy_in);
    if (out && in)
      start(issued(Lane::copy_out) < issued(Lane::copy_in) ? Lane::copy_out : Lane::copy_in);
    else if (out || in)
      start(out ? Lane::copy_out : Lane::copy_in);
  }

  std::int64_t issued(Lane lane) const { return schedule_.event(instruction(lane), at(lane).iteration); }

  // Kernels and copies that run beside each other take longer; the disk is slow enough to leave them alone.
  void set_paces() {
    const bool computes = at(Lane::compute).running;
    const bool out = at(Lane::copy_out).running, in = at(Lane::copy_in).running;
    const bool copies = out || in;
    // Where host and device are one processor, kernels of both share it.
    const bool shared = device_.is_host() && computes && at(Lane::host).running;
    set_pace(Lane::compute, (copies ? device_.kernel_overlap : 1) * (shared ? 2 : 1));
    set_pace(Lane::host, shared ? 2 : 1);
    const double copy_pace = (computes ? device_.copy_overlap : 1) * (out && in ? device_.link_overlap : 1);
    for (const Lane lane : {Lane::copy_out, Lane::copy_in}) set_pace(lane, copy_pace);
  }

  // Where the pace stays, nothing is touched, so that what nobody disturbs ends at exactly its start and its duration.
  void set_pace(Lane lane, double pace) {
    LaneState& state = at(lane);
    if (!state.running || state.pace == pace) return;
    state.left = std::max(0.0, state.left - (now_ - state.since) / state.pace);
    state.since = now_;
    state.pace = pace;
  }

  // Goes to the next moment at which something ends, and ends all that ends then. False when nothing runs.
  bool complete_next() {
    bool any = false;
    double next = 0;
    for (const LaneState& state : lanes_)
      if (state.running && (!any || state.end() < next)) {
        any = true;
        next = state.end();
      }
    if (!any) return false;
    now_ = next;
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      if (lanes_[lane].running && lanes_[lane].end() <= now_) complete(static_cast<Lane>(lane));
    return true;
  }

  void complete(Lane lane) {
    event(lane).end = now_;
    const LaneSegment& current = *segment(lane);
    LaneState& state = at(lane);
    state.running = false;
    ++state.completed;
    if (++state.position < current.instructions.size()) return;
    state.position = 0;
    if (++state.iteration < current.count) return;
    state.iteration = 0;
    ++state.segment;
  }

  const Program& program_;
  const Device& device_;
  Schedule schedule_;
  std::vector<double> seconds_;  // by instruction
  std::array<LaneState, kLanes> lanes_;
  double now_ = 0;
  Trace trace_;
};

}  // namespace

Trace simulate(const Graph& graph, const Program& program, const Profile& profile) {
  return Simulation(graph, program, profile).run();
}

}  // namespace outsize
