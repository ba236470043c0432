#include "plan/remaking/problem.h"

#include <algorithm>

#include "base/alignment.h"
#include "graph/opdef.h"

namespace outsize {

namespace {

constexpr std::int32_t kNone = -1;

void add_once(std::vector<std::int32_t>& list, std::int32_t item) {
  if (std::ranges::find(list, item) == list.end()) list.push_back(item);
}

class Reading {
 public:
  Reading(const PlanRequest& request, const OpCosts& costs)
      : request_(request),
        graph_(request.graph),
        costs_(costs),
        index_of_op_(graph_.op_count(), kNone),
        index_of_unit_(graph_.op_count(), kNone),
        mark_of_unit_(graph_.op_count(), kNone),
        index_of_value_(graph_.value_count(), kNone) {}

  RemakeProblem read(Table<RunUnit> units) {
    for (std::int64_t v = 0; v < graph_.value_count(); ++v)
      if (!graph_.value(ValueId(v)).producer) add_value(ValueId(v));
    IdVector<OpId, bool> in_unit(graph_.op_count(), false);
    for (const RunUnit& unit : units) {
      add_op(unit);
      for (const OpId op : unit.ops) in_unit[op] = true;
    }
    for (std::int32_t k = 0; k < units.size(); ++k)
      for (const OpId op : units[k].behind) put_behind(op, k);
    for (std::int64_t k = 0; k < graph_.op_count(); ++k)
      if (graph_.op(OpId(k)).phase == Phase::update && !in_unit[OpId(k)]) add_update(OpId(k));
    for (RemakeProblem::Value& value : problem_.values) hold_numbers_of_updates(value);
    problem_.units = std::move(units);
    return std::move(problem_);
  }

 private:
  // A number that many updates read, as the learning rate, would be reckoned with all of them whenever one of them moves; that it
  // may end with the last of them gains nothing.
  static void hold_numbers_of_updates(RemakeProblem::Value& value) {
    constexpr std::size_t kMany = 16;
    if (value.bytes > kAlignment || value.updates.size() < kMany) return;
    value.lasts = true;
    value.updates.clear();
  }

  void add_value(ValueId id) {
    const Value& value = graph_.value(id);
    if (value.version_of) return;
    if (value.persistent()) {
      problem_.persistent += packed_bytes(request_, id);
      return;
    }
    index_of_value_[id] = static_cast<std::int32_t>(problem_.values.size());
    problem_.values.push_back({.bytes = packed_bytes(request_, id), .lasts = graph_.is_output(id)});
    problem_.value_ids.push_back(id);
  }

  void add_op(const RunUnit& unit) {
    const auto index = static_cast<std::int32_t>(problem_.ops.size());
    const bool tiled = unit.tiles.has_value();
    const OpId last = unit.ops.back();
    RemakeProblem::Op op{.seconds = tiled ? unit.tiles->seconds : costs_.seconds[last],
                         .workspace = align_up(tiled ? unit.tiles->bytes : costs_.workspace[last], kAlignment),
                         .inputs = {},
                         .outputs = {},
                         .again = std::ranges::all_of(unit.ops, [&](OpId id) { return graph_.op(id).phase == Phase::forward; })};
    for (const ValueId input : tiled ? unit.tiles->reads : graph_.op(last).inputs) {
      if (const std::int32_t value = index_of_value_[input]; value != kNone)
        add_once(op.inputs, value);
      else
        weight_readers_.push_back({input, index});
    }
    for (const std::int32_t input : op.inputs) problem_.values[input].readers.push_back(index);
    for (const ValueId output : tiled ? unit.tiles->makes : graph_.op(last).outputs) {
      add_value(output);
      const std::int32_t value = index_of_value_[output];
      if (value == kNone) continue;
      op.outputs.push_back(value);
      problem_.values[value].producer = index;
      op.again = op.again && !problem_.values[value].lasts;
    }
    if (!tiled) add_overwrites(graph_.op(last), op);
    problem_.ops.push_back(std::move(op));
    index_of_unit_[last] = index;
  }

  // A value without bytes, which the unit that ends with an op makes and the later one reads, keeps the two in their order.
  void put_behind(OpId op, std::int32_t later) {
    std::int32_t& value = mark_of_unit_[op];
    if (value == kNone) {
      value = static_cast<std::int32_t>(problem_.values.size());
      problem_.values.push_back({.producer = index_of_unit_[op]});
      problem_.value_ids.push_back({});
      problem_.ops[index_of_unit_[op]].outputs.push_back(value);
    }
    problem_.ops[later].inputs.push_back(value);
    problem_.values[value].readers.push_back(later);
  }

  void add_overwrites(const Op& from, RemakeProblem::Op& op) const {
    for (const InPlacePair& pair : from.def->in_place({graph_, from})) {
      const std::int32_t input = index_of_value_[from.inputs[pair.input]], output = index_of_value_[from.outputs[pair.output]];
      if (input == kNone || output == kNone || problem_.values[input].producer == kNone) continue;
      if (problem_.values[input].bytes != problem_.values[output].bytes) continue;
      if (std::ranges::count(from.inputs, from.inputs[pair.input]) == 1) op.overwrites.push_back({output, input});
    }
  }

  void add_update(OpId id) {
    const Op& op = graph_.op(id);
    problem_.update_seconds += costs_.seconds[id];
    const auto index = static_cast<std::int32_t>(problem_.updates.size());
    RemakeProblem::Update update;
    for (const ValueId input : op.inputs) {
      if (const std::int32_t value = index_of_value_[input]; value != kNone) {
        add_once(update.reads, value);
        if (const std::int32_t producer = problem_.values[value].producer; producer != kNone)
          add_once(update.after_first, producer);
      }
      // What an update makes for another is there once that one has run.
      const OpId producer = graph_.value(input).producer;
      if (!producer || graph_.op(producer).phase != Phase::update) continue;
      const RemakeProblem::Update& before = problem_.updates[index_of_op_[producer]];
      for (const std::int32_t of : before.after_first) add_once(update.after_first, of);
      for (const std::int32_t of : before.after_all) add_once(update.after_all, of);
    }
    for (const InPlacePair& pair : op.updates)
      for (const auto& [weight, reader] : readers_of(op.inputs[pair.input])) add_once(update.after_all, reader);
    for (const std::int32_t value : update.reads) problem_.values[value].updates.push_back(index);
    for (const auto* ops : {&update.after_first, &update.after_all})
      for (const std::int32_t of : *ops) add_once(problem_.ops[of].updates, index);
    index_of_op_[id] = index;
    problem_.update_ids.push_back(id);
    problem_.updates.push_back(std::move(update));
  }

  using Reader = std::pair<ValueId, std::int32_t>;
  std::ranges::subrange<std::vector<Reader>::iterator> readers_of(ValueId weight) {
    if (!sorted_) std::ranges::sort(weight_readers_);
    sorted_ = true;
    return std::ranges::equal_range(weight_readers_, weight, {}, &Reader::first);
  }

  const PlanRequest& request_;
  const Graph& graph_;
  const OpCosts& costs_;
  IdVector<OpId, std::int32_t> index_of_op_;    // of updates
  IdVector<OpId, std::int32_t> index_of_unit_;  // by its last op
  IdVector<OpId, std::int32_t> mark_of_unit_;   // by its last op: the value without bytes that it makes
  IdVector<ValueId, std::int32_t> index_of_value_;
  std::vector<Reader> weight_readers_;  // weights or states, and ops of the problem that read them
  bool sorted_ = false;
  RemakeProblem problem_;
};

}  // namespace

Table<RunUnit> whole_units(const Graph& graph, const std::vector<OpId>& order) {
  Table<RunUnit> units;
  for (const OpId op : order)
    if (graph.op(op).phase != Phase::update) units.push_back({{op}});
  return units;
}

RemakeProblem remake_problem(const PlanRequest& request, const OpCosts& costs, Table<RunUnit> units) {
  return Reading(request, costs).read(std::move(units));
}

SequenceRuns runs_of(const RemakeProblem& problem, const std::vector<std::int32_t>& sequence) {
  Table<std::int64_t> first(problem.ops.size(), -1), last(problem.ops.size(), -1);
  for (std::int64_t p = 0; p < std::ssize(sequence); ++p) {
    if (first[sequence[p]] < 0) first[sequence[p]] = p;
    last[sequence[p]] = p;
  }
  Table<std::vector<OpId>> behind(std::ssize(sequence) + 1);  // updates, by how many runs are before them
  for (std::int64_t k = 0; k < problem.updates.size(); ++k) {
    const RemakeProblem::Update& update = problem.updates[k];
    std::int64_t at = -1;
    for (const std::int32_t op : update.after_first) at = std::max(at, first[op]);
    for (const std::int32_t op : update.after_all) at = std::max(at, last[op]);
    behind[at + 1].push_back(problem.update_ids[k]);
  }
  SequenceRuns made;
  const auto append = [&](OpId op, std::int32_t split) {
    made.runs.push_back(op);
    made.splits.of_run.push_back(split);
  };
  for (std::int64_t p = 0; p <= std::ssize(sequence); ++p) {
    if (p > 0) {
      const RunUnit& unit = problem.units[sequence[p - 1]];
      std::int32_t split = Splits::kWhole;
      if (unit.tiles) {
        split = static_cast<std::int32_t>(made.splits.all.size());
        made.splits.all.push_back(*unit.tiles);
        made.splits.all.back().pass.name = fmt::format("tiles.{}", split);
      }
      append(unit.ops.back(), split);
    }
    for (const OpId update : behind[p]) append(update, Splits::kWhole);
  }
  if (made.splits.all.empty()) made.splits.of_run.clear();
  return made;
}

}  // namespace outsize
