#include "program/schedule.h"

#include <algorithm>

namespace outsize {
namespace {

void append(Schedule& schedule, const Program& program, std::int32_t begin, std::int32_t end, std::int64_t count, int loop) {
  const std::int64_t step = loop < 0 ? 0 : end - begin;
  std::array<LaneSegment, kLanes> segments;
  for (std::int32_t i = begin; i < end; ++i) {
    segments[index_of(program.instructions[i].lane)].instructions.push_back(i);
    schedule.first_event.push_back(schedule.events + i - begin);
    schedule.event_step.push_back(step);
    schedule.loop.push_back(loop);
  }
  schedule.events += (end - begin) * count;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (segments[lane].instructions.empty()) continue;
    segments[lane].count = count;
    schedule.totals[lane] += static_cast<std::int64_t>(segments[lane].instructions.size()) * count;
    schedule.lanes[lane].push_back(std::move(segments[lane]));
  }
}

void check_waits(const Program& program, const Schedule& schedule) {
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const std::int32_t loop = schedule.loop[i];
    const std::int64_t last = loop < 0 ? 0 : program.loops[loop].count - 1;
    for (const Wait& wait : program.instructions[i].waits) {
      const std::int64_t most = std::max(target_of(wait, 0), target_of(wait, last));
      if (most > schedule.totals[index_of(wait.lane)])
        internal_error("instruction {} waits for {} instructions of lane {}, which has only {}", i, most, name_of(wait.lane),
                       schedule.totals[index_of(wait.lane)]);
    }
  }
}

}  // namespace

Schedule make_schedule(const Program& program) {
  Schedule schedule;
  const auto size = static_cast<std::int32_t>(program.instructions.size());
  std::int32_t next = 0;
  for (std::size_t i = 0; i < program.loops.size(); ++i) {
    const Loop& loop = program.loops[i];
    if (loop.begin < next || loop.end <= loop.begin || loop.end > size || loop.count < 1)
      internal_error("loop {} over instructions [{}, {}) × {} does not follow the loops before it", i, loop.begin, loop.end,
                     loop.count);
    append(schedule, program, next, loop.begin, 1, -1);
    append(schedule, program, loop.begin, loop.end, loop.count, static_cast<int>(i));
    next = loop.end;
  }
  append(schedule, program, next, size, 1, -1);
  check_waits(program, schedule);
  return schedule;
}

std::vector<Awaited> find_awaited(const Program& program, const Schedule& schedule) {
  // By lane, its segments' first instruction numbers, to find the instruction that a count ends with.
  std::array<std::vector<std::int64_t>, kLanes> begins;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    std::int64_t begin = 0;
    for (const LaneSegment& segment : schedule.lanes[lane]) {
      begins[lane].push_back(begin);
      begin += static_cast<std::int64_t>(segment.instructions.size()) * segment.count;
    }
  }
  std::vector<Awaited> awaited(program.instructions.size(), Awaited::never);
  const auto note = [&](Lane lane, std::int64_t count, Awaited by) {
    if (count <= 0) return;
    const std::vector<std::int64_t>& begin = begins[index_of(lane)];
    const auto found = std::ranges::upper_bound(begin, count - 1) - begin.begin() - 1;
    const std::vector<std::int32_t>& instructions = schedule.lanes[index_of(lane)][found].instructions;
    const std::int64_t place = (count - 1 - begin[found]) % static_cast<std::int64_t>(instructions.size());
    Awaited& is = awaited[instructions[place]];
    is = std::max(is, by);
  };
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const std::int32_t loop = schedule.loop[i];
    const std::int64_t last = loop < 0 ? 0 : program.loops[loop].count - 1;
    const Awaited by = of_device(instruction.lane) ? Awaited::by_device : Awaited::by_host;
    for (const Wait& wait : instruction.waits) {
      if (!of_device(wait.lane) || wait.lane == instruction.lane) continue;
      // A count moves by the instructions that its lane has in the loop (waits.h), so that it ends with the same one in every
      // iteration but the first, where that may lie before the loop.
      for (const std::int64_t iteration : {std::int64_t{0}, std::min<std::int64_t>(last, 1), last})
        note(wait.lane, target_of(wait, iteration), by);
    }
  }
  return awaited;
}

std::string describe(const Graph& graph, const Program& program, std::int32_t instruction) {
  const Instruction& it = program.instructions[instruction];
  const std::string op = it.op ? fmt::format(", op {}", graph.op(it.op).name) : "";
  return fmt::format("instruction {} ({}{})", instruction, name_of(it.action), op);
}

}  // namespace outsize
