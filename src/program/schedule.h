#pragma once

#include <array>
#include <vector>

#include "program/program.h"

namespace outsize {

// Instructions of one lane that run `count` times, in this order: those of a loop, or (count 1) those between loops.
struct LaneSegment {
  std::vector<std::int32_t> instructions;
  std::int64_t count = 1;
};

// A program as its lanes see it, with loops still rolled. Events number the unrolled instructions in issue order.
struct Schedule {
  std::array<std::vector<LaneSegment>, kLanes> lanes;
  std::array<std::int64_t, kLanes> totals{};  // unrolled instructions a lane
  std::vector<std::int64_t> first_event;      // of each instruction: the event of its iteration 0
  std::vector<std::int64_t> event_step;       // from one iteration to the next; 0 outside loops
  std::vector<std::int32_t> loop;             // index in Program::loops, or -1
  std::int64_t events = 0;

  std::int64_t event(std::int32_t instruction, std::int64_t iteration) const {
    return first_event[instruction] + event_step[instruction] * iteration;
  }
};

// Throws InternalError where loops overlap or an instruction waits for more than a lane ever completes.
Schedule make_schedule(const Program& program);

// How many instructions of its lane a wait asks for.
constexpr std::int64_t target_of(const Wait& wait, std::int64_t iteration) { return wait.count + wait.per_iteration * iteration; }

constexpr std::size_t index_of(Lane lane) { return static_cast<std::size_t>(lane); }

// The lanes whose work a device does that has queues of its own; the others are threads of the host.
constexpr bool of_device(Lane lane) { return lane == Lane::compute || lane == Lane::copy_out || lane == Lane::copy_in; }

// Which lanes wait until an instruction of a device lane is done.
enum class Awaited : std::uint8_t { never, by_device, by_host };

// By instruction, in whatever iteration. What is awaited by lanes of both kinds is by_host.
std::vector<Awaited> find_awaited(const Program& program, const Schedule& schedule);

// "instruction 12 (kernel, op conv1)"
std::string describe(const Graph& graph, const Program& program, std::int32_t instruction);

}  // namespace outsize
