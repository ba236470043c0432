#include "run/executor.h"

#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>

#include "backend/host_memory.h"
#include "program/schedule.h"
#include "run/debug_memory.h"
#include "run/lanes.h"
#include "run/layout.h"
#include "run/source_reader.h"
#include "run/spill_check.h"

namespace outsize {
namespace {

// Behind every arena; a kernel that runs over its end is caught after the step.
constexpr std::int64_t kGuardBytes = 4096;

// What is taken of a value at a time where it is written or read in parts.
constexpr std::int64_t kPartBytes = std::int64_t{1} << 20;

using Clock = std::chrono::steady_clock;

// One side of a copy, or one argument of a kernel: where its piece is, and what it holds in an iteration.
struct Access {
  PieceId piece;
  const MovingBox* moving_holds = nullptr;
  const MovingBox* moving_box = nullptr;
  const ValueType* type = nullptr;
  std::byte* memory = nullptr;  // of the piece; nullptr where it has no address
  std::int64_t offset = 0;      // of the piece in its tier

  Box holds(std::int64_t iteration) const { return moving_holds->at(iteration); }
  Box box(std::int64_t iteration) const { return moving_box->at(iteration); }
  bool moves() const { return moving_holds->moves() || moving_box->moves(); }
};

// An instruction with everything found beforehand that does not change in a step. What changes from iteration to iteration is
// rewritten in place, by the one thread of its lane.
struct PreparedInstruction {
  const Instruction* instruction = nullptr;
  std::vector<Access> reads;
  std::vector<Access> writes;
  bool moves = false;
  // kernels
  std::shared_ptr<const Kernel> kernel;
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  std::vector<Box> in_boxes;
  std::vector<Box> out_boxes;
  std::byte* workspace = nullptr;
  std::int64_t workspace_end = 0;  // in its arena
  Box owned;
  // everything else; of a zero, all that is filled
  CopyPlan plan;
  Box window;  // that is read from a source
};

}  // namespace

std::shared_ptr<Memory> make_memory(const Program& program, Backend& backend, const ExecutorOptions& options) {
  return std::make_shared<Memory>(backend, program.peak_bytes, std::max(kGuardBytes, options.canary_bytes),
                                  options.spill_directory);
}

struct Executor::Impl {
  Impl(const Graph& graph_, const Program& program_, Backend& backend_, std::shared_ptr<Memory> memory_, ExecutorOptions options_);

  void check_memory() const;
  std::byte* at(Tier tier, std::int64_t offset) const { return memory->arena(tier)->data() + offset; }
  bool addressable(Tier tier) const { return in_memory(tier) && memory->arena(tier)->addressable(); }
  Access access(const Operand& operand) const;
  PreparedInstruction prepare(std::int32_t index) const;
  void check_access(const Access& access, std::int32_t index) const;
  void place(PreparedInstruction& prepared, std::int64_t iteration) const;
  template <class Pointers, class Body>
  void for_each_range(const std::vector<Access>& accesses, const Pointers& pointers, const std::vector<Box>& boxes,
                      Body&& body) const;
  void begin_sources();
  void begin_check();
  const std::byte* view(const Access& access, std::int64_t iteration) const;

  void step();
  void run_lane(Lane lane);
  void put_into_queues();
  void run_in_issue_order();
  void run_one(std::int32_t index, std::int64_t iteration);
  void execute_checked(PreparedInstruction& prepared);
  void execute(PreparedInstruction& prepared);
  void* queue_of(Lane lane) const { return queues && of_device(lane) ? queues->queue(lane) : nullptr; }
  void fetch_stamps();

  PieceId bound_piece(ValueId value, const std::vector<Binding>& bindings, std::string_view what) const;
  void check_size(ValueId value, std::size_t bytes) const;

  const Graph& graph;
  const Program& program;
  Backend& backend;
  ExecutorOptions options;
  Schedule schedule;
  std::shared_ptr<Memory> memory;
  std::vector<PreparedInstruction> prepared;
  std::map<PieceId, WindowReader> sources;
  std::unique_ptr<SourceReader> source_reader;  // where there are any
  std::unique_ptr<DebugMemory> debug;
  std::unique_ptr<SpillCheck> check;
  Queues* queues = nullptr;      // of a device that has them
  std::vector<Awaited> awaited;  // by instruction, where there are queues
  bool in_issue_order = false;   // all lanes on one thread, one instruction after another
  Trace trace;
  Clock::time_point step_start;
  std::optional<Lanes> lanes;  // last: its threads use all the rest
};

Executor::Impl::Impl(const Graph& graph_, const Program& program_, Backend& backend_, std::shared_ptr<Memory> memory_,
                     ExecutorOptions options_)
    : graph(graph_),
      program(program_),
      backend(backend_),
      options(std::move(options_)),
      schedule(make_schedule(program_)),
      memory(std::move(memory_)) {
  if (program.storage != backend.storage())
    internal_error("program {} was lowered for another storage of maps than that of backend {}", program.name, backend.name());
  check_memory();
  prepared.reserve(program.instructions.size());
  for (std::size_t i = 0; i < program.instructions.size(); ++i) prepared.push_back(prepare(static_cast<std::int32_t>(i)));
  begin_sources();
  if (options.check_spill) begin_check();
  if (options.trace) trace.events.resize(static_cast<std::size_t>(schedule.events));
  if (options.debug_memory) {
    const std::array<Arena*, 4> by_tier{memory->arena(Tier::device), memory->arena(Tier::host), nullptr, nullptr};
    debug = std::make_unique<DebugMemory>(graph, program, schedule, by_tier, options.canary_bytes);
  }
  queues = backend.queues();
  if (queues) awaited = find_awaited(program, schedule);
  in_issue_order = debug || (queues && check);
  std::array<bool, kLanes> used{};
  for (std::size_t lane = 0; lane < kLanes && !in_issue_order; ++lane)
    used[lane] = schedule.totals[lane] > 0 && !(queues && of_device(static_cast<Lane>(lane)));
  lanes.emplace(
      used, [this](Lane lane) { backend.enter(lane); }, [this](Lane lane) { run_lane(lane); });
}

void Executor::Impl::check_memory() const {
  for (const Piece& piece : program.pieces) {
    if (piece.tier == Tier::source) continue;
    if (piece.first < 0 && piece.offset < 0) continue;  // never used, so it has no place
    if (piece.offset < 0 || piece.bytes < 0 || piece.offset + piece.bytes > program.peak_bytes[piece.tier])
      internal_error("piece '{}' ({} bytes at {}) lies outside the {} arena of {} bytes", label_of(graph, piece), piece.bytes,
                     piece.offset, name_of(piece.tier), program.peak_bytes[piece.tier]);
  }
  for (const Tier tier : kTiers) OUTSIZE_CHECK(memory->sizes()[tier] >= program.peak_bytes[tier]);
}

Access Executor::Impl::access(const Operand& operand) const {
  const Piece& piece = program.piece(operand.piece);
  Access access{operand.piece, &program.boxes[operand.holds], &program.boxes[operand.box], &type_of(graph, piece), nullptr,
                piece.offset};
  if (in_memory(piece.tier)) access.memory = at(piece.tier, piece.offset);
  return access;
}

PreparedInstruction Executor::Impl::prepare(std::int32_t index) const {
  const Instruction& instruction = program.instructions[static_cast<std::size_t>(index)];
  PreparedInstruction made;
  made.instruction = &instruction;
  for (const Operand& operand : instruction.reads) made.reads.push_back(access(operand));
  for (const Operand& operand : instruction.writes) made.writes.push_back(access(operand));
  for (const std::vector<Access>* accesses : {&made.reads, &made.writes})
    for (const Access& one : *accesses) {
      check_access(one, index);
      made.moves = made.moves || one.moves();
    }
  const bool owned_moves = instruction.owned && program.boxes[instruction.owned].moves();
  made.moves = (made.moves || owned_moves) && schedule.loop[static_cast<std::size_t>(index)] >= 0;

  if (instruction.action == Action::kernel) {
    made.kernel = backend.kernel(call_of(graph, program, instruction), instruction.lane, program.kernel_of(instruction.op));
    made.in.resize(made.reads.size());
    made.out.resize(made.writes.size());
    made.in_boxes.resize(made.reads.size());
    made.out_boxes.resize(made.writes.size());
    const std::int64_t needed = made.kernel->workspace_bytes();
    const std::int64_t booked = instruction.workspace ? program.piece(instruction.workspace).bytes : 0;
    if (needed > booked)
      internal_error("{} needs {} bytes of workspace, {} are booked", describe(graph, program, index), needed, booked);
    if (instruction.workspace) {
      const Piece& piece = program.piece(instruction.workspace);
      made.workspace = at(piece.tier, piece.offset);
      made.workspace_end = piece.offset + piece.bytes;
    }
  }
  place(made, 0);
  // Statistics are merged column by column, which a box of part of them would not show.
  if (instruction.action == Action::combine && instruction.combine != Combine::sum) OUTSIZE_CHECK(run_count(made.plan) == 1);
  return made;
}

// The checker proves far more; this much keeps a wrong program from writing over foreign memory.
void Executor::Impl::check_access(const Access& access, std::int32_t index) const {
  const Piece& piece = program.piece(access.piece);
  const std::int32_t loop = schedule.loop[static_cast<std::size_t>(index)];
  const std::int64_t last = loop < 0 ? 0 : program.loops[static_cast<std::size_t>(loop)].count - 1;
  for (const std::int64_t iteration : {std::int64_t{0}, last}) {
    const Box holds = access.holds(iteration), box = access.box(iteration);
    const bool fits =
        piece.tier == Tier::source || stored_bytes(program.storage, type_of(graph, piece), holds.shape()) <= piece.bytes;
    if (!fits || !holds.contains(box))
      internal_error("{}: piece '{}' of {} bytes is said to hold {}, of which {} is used", describe(graph, program, index),
                     label_of(graph, piece), piece.bytes, to_string(holds), to_string(box));
    if (program.instructions[static_cast<std::size_t>(index)].action != Action::kernel || box.empty()) continue;
    // A kernel sees a dense piece, so the box must be one range of what is held: cut out, it keeps its strides.
    const CopyPlan plan = plan_copy(program.storage, type_of(graph, piece).format, holds, box, box);
    for (int i = 0; i < CopyPlan::kLoops; ++i)
      if (plan.count[i] > 1 && plan.from_stride[i] != plan.to_stride[i])
        internal_error("{}: {} is not one range of piece '{}', which holds {}", describe(graph, program, index), to_string(box),
                       label_of(graph, piece), to_string(holds));
  }
}

const std::byte* Executor::Impl::view(const Access& access, std::int64_t iteration) const {
  const Box box = access.box(iteration);
  if (box.empty()) return nullptr;
  return access.memory +
         stored_offset(program.storage, access.type->format, access.holds(iteration), box.lo) * size_of(access.type->dtype);
}

void Executor::Impl::place(PreparedInstruction& made, std::int64_t iteration) const {
  switch (made.instruction->action) {
    case Action::kernel:
      for (std::size_t i = 0; i < made.reads.size(); ++i) {
        made.in[i] = view(made.reads[i], iteration);
        made.in_boxes[i] = made.reads[i].box(iteration);
      }
      for (std::size_t i = 0; i < made.writes.size(); ++i) {
        made.out[i] = const_cast<std::byte*>(view(made.writes[i], iteration));
        made.out_boxes[i] = made.writes[i].box(iteration);
      }
      if (made.instruction->owned) made.owned = program.boxes[made.instruction->owned].at(iteration);
      return;
    case Action::zero: {
      const Access& target = made.writes[0];
      made.plan.length = stored_elements(program.storage, target.type->format, target.holds(iteration).shape());
      return;
    }
    default: {
      const Access &from = made.reads[0], &to = made.writes[0];
      made.plan = plan_copy(program.storage, from.type->format, from.holds(iteration), to.holds(iteration), from.box(iteration));
      if (program.piece(from.piece).tier == Tier::source) made.window = from.box(iteration);
      return;
    }
  }
}

// Calls body(piece, offset, data) for the ranges that a kernel takes of its arguments.
template <class Pointers, class Body>
void Executor::Impl::for_each_range(const std::vector<Access>& accesses, const Pointers& pointers, const std::vector<Box>& boxes,
                                    Body&& body) const {
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    if (boxes[i].empty()) continue;
    const std::int64_t bytes = stored_bytes(program.storage, *accesses[i].type, boxes[i].shape());
    body(accesses[i].piece, pointers[i] - accesses[i].memory, {pointers[i], static_cast<std::size_t>(bytes)});
  }
}

void Executor::Impl::begin_sources() {
  for (const Binding& binding : program.inputs)
    if (program.piece(binding.piece).tier == Tier::source) sources[binding.piece];
  if (sources.empty()) return;
  source_reader = std::make_unique<SourceReader>(program.storage, backend.threads());
  for (const PreparedInstruction& made : prepared)
    if (made.instruction->action == Action::disk_in && sources.contains(made.reads[0].piece)) {
      const Access& to = made.writes[0];
      OUTSIZE_CHECK(to.holds(0) == made.window);  // the staging piece holds the window and nothing else
      source_reader->make_room(*to.type, made.window.shape());
    }
}

// Boxes move evenly from iteration to iteration, so that two tell of all.
void Executor::Impl::begin_check() {
  check = std::make_unique<SpillCheck>(graph, program, *memory);
  for (std::size_t i = 0; i < prepared.size(); ++i) {
    PreparedInstruction& made = prepared[i];
    const bool again = made.moves && program.loops[static_cast<std::size_t>(schedule.loop[i])].count > 1;
    for (const std::int64_t iteration : {std::int64_t{0}, std::int64_t{again}}) {
      place(made, iteration);
      if (made.instruction->action != Action::kernel) {
        check->expect(*made.instruction, made.plan);
        continue;
      }
      const auto expect = [&](PieceId piece, std::int64_t offset, std::span<const std::byte> data) {
        check->expect(piece, offset, static_cast<std::int64_t>(data.size()));
      };
      for_each_range(made.reads, made.in, made.in_boxes, expect);
      for_each_range(made.writes, made.out, made.out_boxes, expect);
    }
  }
  check->begin();
}

void Executor::Impl::execute_checked(PreparedInstruction& made) {
  const bool kernel = made.instruction->action == Action::kernel;
  if (!check || (kernel && made.instruction->lane != Lane::host)) return execute(made);
  if (kernel) {
    for_each_range(made.reads, made.in, made.in_boxes, [this](PieceId piece, std::int64_t offset, std::span<const std::byte> data) {
      std::uint32_t running = 0;
      check->verify(piece, offset, data, running);
    });
    execute(made);
    for_each_range(
        made.writes, made.out, made.out_boxes,
        [this](PieceId piece, std::int64_t offset, std::span<const std::byte> data) { check->note(piece, offset, data); });
    return;
  }
  const std::byte* const from = made.reads.empty() ? nullptr : made.reads[0].memory;
  const std::byte* const to = made.writes[0].memory;
  check->before(*made.instruction, made.plan, from, to);
  execute(made);
  if (queues) queues->finish();  // what it wrote is looked at
  check->after(*made.instruction, made.plan, from, to);
}

void Executor::Impl::execute(PreparedInstruction& made) {
  const Instruction& instruction = *made.instruction;
  if (instruction.action == Action::kernel) {
    // Libraries ask for a workspace that they do not always use to its end; it is theirs nonetheless.
    if (made.workspace) memory->arena(program.piece(instruction.workspace).tier)->count_as_touched(made.workspace_end);
    return made.kernel->run(
        {made.in, made.out, made.workspace, made.in_boxes, made.out_boxes, made.owned, queue_of(instruction.lane)});
  }
  const Access& to = made.writes[0];
  if (instruction.action == Action::zero)
    return backend.zero(instruction.lane, to.memory, made.plan.length * size_of(to.type->dtype));

  const Access& from = made.reads[0];
  const std::int64_t element_bytes = size_of(from.type->dtype);
  switch (instruction.action) {
    case Action::disk_out: return memory->spill()->write_box(made.plan, element_bytes, from.memory, to.offset);
    case Action::disk_in:
      if (program.piece(from.piece).tier == Tier::source)
        return source_reader->read(sources.at(from.piece), *to.type, made.window, to.memory);
      return memory->spill()->read_box(made.plan, element_bytes, from.offset, to.memory);
    case Action::combine:
      return backend.combine(instruction.lane, instruction.combine, made.plan, from.type->dtype, from.memory, to.memory);
    default: return backend.copy(instruction.lane, made.plan, element_bytes, from.memory, to.memory);
  }
}

void Executor::Impl::run_one(std::int32_t index, std::int64_t iteration) {
  PreparedInstruction& made = prepared[static_cast<std::size_t>(index)];
  if (made.moves) place(made, iteration);
  if (!options.trace) return execute_checked(made);
  const Lane lane = made.instruction->lane;
  const std::int64_t number = schedule.event(index, iteration);
  TraceEvent& event = trace.events[static_cast<std::size_t>(number)];
  event = {index, iteration, lane, 0, 0};
  if (queues && of_device(lane)) {
    queues->stamp(lane, 2 * number);
    execute_checked(made);
    return queues->stamp(lane, 2 * number + 1);
  }
  const auto seconds = [this] { return std::chrono::duration<double>(Clock::now() - step_start).count(); };
  event.start = seconds();
  execute_checked(made);
  event.end = seconds();
}

void Executor::Impl::run_lane(Lane lane) {
  if (in_issue_order) return run_in_issue_order();
  if (queues && lane == Lane::compute) return put_into_queues();
  for (const LaneSegment& segment : schedule.lanes[index_of(lane)])
    for (std::int64_t iteration = 0; iteration < segment.count; ++iteration)
      for (const std::int32_t index : segment.instructions) {
        if (lanes->failed()) return;
        for (const Wait& wait : program.instructions[static_cast<std::size_t>(index)].waits) {
          const std::int64_t count = target_of(wait, iteration);
          const bool done = queues && of_device(wait.lane) ? queues->await(wait.lane, count, lanes->failure())
                                                           : lanes->wait_for(wait.lane, count);
          if (!done) return;
        }
        run_one(index, iteration);
        lanes->complete(lane);
        if (queues) queues->complete(lane, lanes->completed(lane));
      }
}

// Calls body(instruction, iteration) for all of the program, in the order in which it was lowered.
template <class Body>
void for_each_issued(const Program& program, const Schedule& schedule, Body&& body) {
  const auto size = static_cast<std::int32_t>(program.instructions.size());
  for (std::int32_t index = 0; index < size;) {
    const std::int32_t loop_index = schedule.loop[static_cast<std::size_t>(index)];
    if (loop_index < 0) {
      body(index++, 0, true);
      continue;
    }
    const Loop& loop = program.loops[static_cast<std::size_t>(loop_index)];
    for (std::int64_t iteration = 0; iteration < loop.count; ++iteration)
      for (index = loop.begin; index < loop.end; ++index) body(index, iteration, iteration + 1 == loop.count);
  }
}

// One thread puts in the instructions of all the device's lanes, in the program's order: whatever one of them waits for is in its
// queue before it, or is done by a thread of the host's lanes.
void Executor::Impl::put_into_queues() {
  struct AtEnd {  // also where something is thrown: the device must be still when the step ends
    Impl& impl;
    ~AtEnd() {
      const bool thrown = std::uncaught_exceptions() > 0;
      if (impl.lanes->failed() || thrown) impl.queues->release();
      if (!thrown) return;
      try {
        impl.queues->finish();
      } catch (const UserError&) {  // a device that failed is still too; what was thrown first is told
      }
    }
  };
  {
    const AtEnd at_end{*this};
    std::array<std::int64_t, kLanes> issued{};
    bool failed = false;
    for_each_issued(program, schedule, [&](std::int32_t index, std::int64_t iteration, bool) {
      const Instruction& instruction = program.instructions[static_cast<std::size_t>(index)];
      if (!of_device(instruction.lane) || failed) return;
      failed = lanes->failed();
      if (failed) return;
      for (const Wait& wait : instruction.waits)
        if (wait.lane != instruction.lane) queues->wait(instruction.lane, wait.lane, target_of(wait, iteration));
      run_one(index, iteration);
      const std::int64_t count = ++issued[index_of(instruction.lane)];
      if (const Awaited by = awaited[static_cast<std::size_t>(index)]; by != Awaited::never)
        queues->mark(instruction.lane, count, by == Awaited::by_host);
    });
  }
  queues->finish();
}

// All lanes on one thread: only in one order of all instructions is there a moment at which a piece has had its last use.
void Executor::Impl::run_in_issue_order() {
  std::array<std::int64_t, kLanes> completed{};
  const auto run = [&](std::int32_t index, std::int64_t iteration, bool last_iteration) {
    const Instruction& instruction = program.instructions[static_cast<std::size_t>(index)];
    for (const Wait& wait : instruction.waits)
      if (completed[index_of(wait.lane)] < target_of(wait, iteration))
        internal_error("{} waits for an instruction of lane {} that is issued after it", describe(graph, program, index),
                       name_of(wait.lane));
    if (debug) debug->before(index);
    run_one(index, iteration);
    if (queues) queues->finish();
    if (debug) debug->after(index, last_iteration);
    ++completed[index_of(instruction.lane)];
  };
  if (debug) debug->begin_step();
  for_each_issued(program, schedule, run);
  if (queues) queues->finish();
}

void Executor::Impl::step() {
  for (const auto& [piece, reader] : sources)
    if (!reader) user_error("value {} of program {} has no source", label_of(graph, program.piece(piece)), program.name);
  if (queues) queues->begin_step();
  step_start = Clock::now();
  lanes->run();
  trace.seconds = std::chrono::duration<double>(Clock::now() - step_start).count();
  if (queues && options.trace) fetch_stamps();
  for (const Tier tier : {Tier::device, Tier::host})
    if (const Arena* arena = memory->arena(tier)) arena->check_guard();
}

// The times of the device's lanes. Of a long loop, those beyond the last stamp are missing: such events stay at 0.
void Executor::Impl::fetch_stamps() {
  const std::int64_t known = std::min(static_cast<std::int64_t>(trace.events.size()), queues->stamps() / 2);
  for (std::int64_t number = 0; number < known; ++number) {
    TraceEvent& event = trace.events[static_cast<std::size_t>(number)];
    if (!of_device(event.lane)) continue;
    event.start = queues->seconds(2 * number);
    event.end = queues->seconds(2 * number + 1);
  }
}

PieceId Executor::Impl::bound_piece(ValueId value, const std::vector<Binding>& bindings, std::string_view what) const {
  // A version that an update makes takes its value's place.
  const ValueId original = graph.value(value).version_of;
  for (const Binding& binding : bindings)
    if (binding.value == value) return binding.piece;
  for (const Binding& binding : program.persistent)
    if (binding.value == value || (original && binding.value == original)) return binding.piece;
  std::string names;
  for (const std::vector<Binding>* list : {&bindings, &program.persistent})
    for (const Binding& binding : *list) names += (names.empty() ? "" : ", ") + graph.value(binding.value).name;
  user_error("value {} is no {} of program {}; those are: {}", graph.value(value).name, what, program.name, names);
}

void Executor::Impl::check_size(ValueId value, std::size_t bytes) const {
  const ValueType& type = graph.value(value).type;
  const std::int64_t expected = type.elements() * size_of(type.dtype);
  if (static_cast<std::int64_t>(bytes) != expected)
    user_error("value {} is {}, {} bytes, but {} were given", graph.value(value).name, to_string(type), expected, bytes);
}

Executor::Executor(const Graph& graph, const Program& program, Backend& backend, ExecutorOptions options)
    : Executor(graph, program, backend, make_memory(program, backend, options), options) {}

Executor::Executor(const Graph& graph, const Program& program, Backend& backend, std::shared_ptr<Memory> memory,
                   ExecutorOptions options)
    : impl_(std::make_unique<Impl>(graph, program, backend, std::move(memory), std::move(options))) {}

Executor::~Executor() = default;

void Executor::write(ValueId value, std::span<const std::byte> data) {
  const PieceId id = impl_->bound_piece(value, impl_->program.inputs, "input");
  const Piece& piece = impl_->program.piece(id);
  impl_->check_size(value, data.size());
  if (piece.tier == Tier::source)
    user_error("value {} comes from its source window by window, and is never written whole", impl_->graph.value(value).name);
  if (piece.offset < 0) return;  // nothing in the program reads it
  store_dense(impl_->program.storage, impl_->graph.value(value).type, data,
              [&](std::int64_t offset, std::span<const std::byte> part) {
                if (piece.tier == Tier::disk)
                  impl_->memory->spill()->write(piece.offset + offset, part);
                else
                  impl_->memory->arena(piece.tier)->write(piece.offset + offset, part);
                if (impl_->check) impl_->check->note(id, offset, part);
              });
}

void Executor::write_parts(ValueId value, const std::function<void(std::int64_t first, std::span<std::byte> part)>& fill) {
  const PieceId id = impl_->bound_piece(value, impl_->program.inputs, "input");
  const Piece& piece = impl_->program.piece(id);
  const ValueType& type = impl_->graph.value(value).type;
  const std::int64_t bytes = type.elements() * size_of(type.dtype);
  if (piece.offset < 0) return;  // nothing in the program reads it
  if (!stored_dense(impl_->program.storage, type)) {
    std::vector<std::byte> whole(static_cast<std::size_t>(bytes));
    fill(0, whole);
    return write(value, whole);
  }
  const bool direct = impl_->addressable(piece.tier);
  std::vector<std::byte> buffer(direct ? 0 : static_cast<std::size_t>(std::min(bytes, kPartBytes)));
  for (std::int64_t done = 0; done < bytes; done += kPartBytes) {
    const auto size = static_cast<std::size_t>(std::min(bytes - done, kPartBytes));
    const std::span<std::byte> part =
        direct ? std::span(impl_->at(piece.tier, piece.offset + done), size) : std::span(buffer).first(size);
    fill(done / size_of(type.dtype), part);
    if (piece.tier == Tier::disk)
      impl_->memory->spill()->write(piece.offset + done, part);
    else if (!direct)
      impl_->memory->arena(piece.tier)->write(piece.offset + done, part);
    if (impl_->check) impl_->check->note(id, done, part);
  }
}

void Executor::write(ValueId value, const WindowReader& reader) {
  const PieceId id = impl_->bound_piece(value, impl_->program.inputs, "input");
  const Piece& piece = impl_->program.piece(id);
  const ValueType& type = impl_->graph.value(value).type;
  if (piece.offset < 0) return;
  const Box whole = Box::whole(type.shape);
  if (!in_memory(piece.tier)) {
    std::vector<std::byte> all(static_cast<std::size_t>(type.elements() * size_of(type.dtype)));
    reader(whole, all.data());
    return write(value, all);
  }
  if (!impl_->source_reader)
    impl_->source_reader = std::make_unique<SourceReader>(impl_->program.storage, impl_->backend.threads());
  impl_->source_reader->make_room(type, type.shape);
  const bool direct = impl_->addressable(piece.tier);
  std::vector<std::byte> buffer(direct ? 0 : static_cast<std::size_t>(piece.bytes));
  std::byte* const stored = direct ? impl_->at(piece.tier, piece.offset) : buffer.data();
  impl_->source_reader->read(reader, type, whole, stored);
  if (!direct) impl_->memory->arena(piece.tier)->write(piece.offset, buffer);
  if (impl_->check) impl_->check->note(id, 0, {stored, static_cast<std::size_t>(piece.bytes)});
}

bool Executor::takes_windows(ValueId value) const {
  return impl_->program.piece(impl_->bound_piece(value, impl_->program.inputs, "input")).tier == Tier::source;
}

void Executor::source(ValueId value, WindowReader reader) {
  if (!takes_windows(value)) user_error("value {} is not streamed from a source", impl_->graph.value(value).name);
  impl_->sources.at(impl_->bound_piece(value, impl_->program.inputs, "input")) = std::move(reader);
}

void Executor::read(ValueId value, std::span<std::byte> data) const {
  const PieceId id = impl_->bound_piece(value, impl_->program.outputs, "output");
  const Piece& piece = impl_->program.piece(id);
  impl_->check_size(value, data.size());
  OUTSIZE_CHECK(piece.offset >= 0);
  std::uint32_t running = 0;
  load_dense(impl_->program.storage, impl_->graph.value(value).type, data, [&](std::int64_t offset, std::span<std::byte> part) {
    if (piece.tier == Tier::disk)
      impl_->memory->spill()->read(piece.offset + offset, part);
    else
      impl_->memory->arena(piece.tier)->read(piece.offset + offset, part);
    if (impl_->check) impl_->check->verify(id, offset, part, running);
  });
}

void Executor::read_parts(ValueId value, const std::function<void(std::span<const std::byte> part)>& sink) const {
  const PieceId id = impl_->bound_piece(value, impl_->program.outputs, "output");
  const Piece& piece = impl_->program.piece(id);
  const ValueType& type = impl_->graph.value(value).type;
  OUTSIZE_CHECK(piece.offset >= 0);
  const std::int64_t bytes = type.elements() * size_of(type.dtype);
  if (!stored_dense(impl_->program.storage, type)) {
    std::vector<std::byte> whole(static_cast<std::size_t>(bytes));
    read(value, whole);
    return sink(whole);
  }
  std::uint32_t running = 0;
  const bool direct = impl_->addressable(piece.tier);
  std::vector<std::byte> buffer(direct ? 0 : static_cast<std::size_t>(std::min(bytes, kPartBytes)));
  for (std::int64_t done = 0; done < bytes; done += kPartBytes) {
    const auto size = static_cast<std::size_t>(std::min(bytes - done, kPartBytes));
    if (piece.tier == Tier::disk)
      impl_->memory->spill()->read(piece.offset + done, std::span(buffer).first(size));
    else if (!direct)
      impl_->memory->arena(piece.tier)->read(piece.offset + done, std::span(buffer).first(size));
    const std::span<const std::byte> part =
        direct ? std::span<const std::byte>(impl_->at(piece.tier, piece.offset + done), size) : std::span(buffer).first(size);
    if (impl_->check) impl_->check->verify(id, done, part, running);
    sink(part);
  }
}

void Executor::step() { impl_->step(); }

const Trace& Executor::trace() const { return impl_->trace; }

std::int64_t Executor::measured_peak_bytes(Tier tier) const { return impl_->memory->touched_bytes(tier); }

}  // namespace outsize
