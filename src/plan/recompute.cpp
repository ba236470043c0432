#include "plan/recompute.h"

#include <algorithm>

#include "graph/opdef.h"
#include "plan/order.h"

namespace outsize {

namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

class Recomputation {
 public:
  Recomputation(const Graph& graph, const std::vector<bool>& dropped, Again again)
      : graph_(graph), dropped_(dropped), again_(again), there_(at(graph.value_count()), false) {
    for (std::int64_t v = 0; v < graph.value_count(); ++v)
      if (!graph.value(ValueId(v)).producer) there_[at(v)] = true;
  }

  Runs run() {
    std::vector<OpId> updates;
    bool backward = false;
    for (OpId id : eager_order(graph_)) {
      const Op& op = graph_.op(id);
      if (op.phase == Phase::update) {
        updates.push_back(id);
        continue;
      }
      if (op.phase == Phase::backward && !backward) {
        backward = true;
        leave_forward();
      }
      for (ValueId input : op.inputs) ensure(input);
      append(id);
      if (again_ == Again::remade && backward) forget(op.inputs);
    }
    return with_updates(updates);
  }

 private:
  bool droppable(ValueId id) const {
    const Value& value = graph_.value(id);
    return value.producer && graph_.op(value.producer).phase == Phase::forward && !graph_.is_output(id) && dropped_[at(id.index)];
  }

  void leave_forward() {
    for (std::int64_t v = 0; v < graph_.value_count(); ++v)
      if (droppable(ValueId(v))) there_[at(v)] = false;
  }

  void forget(const std::vector<ValueId>& values) {
    for (ValueId id : values)
      if (droppable(id)) there_[at(id.index)] = false;
  }

  void append(OpId id) {
    runs_.push_back(id);
    for (ValueId output : graph_.op(id).outputs) there_[at(output.index)] = true;
  }

  // Runs producers again, the furthest ancestors first. With its own stack: chains may be as long as the network.
  void ensure(ValueId wanted) {
    if (there_[at(wanted.index)]) return;
    std::vector<OpId> stack{graph_.value(wanted).producer};
    while (!stack.empty()) {
      const Op& op = graph_.op(stack.back());
      const auto lacking =
          std::find_if(op.inputs.begin(), op.inputs.end(), [&](ValueId input) { return !there_[at(input.index)]; });
      if (lacking != op.inputs.end()) {
        stack.push_back(graph_.value(*lacking).producer);
        continue;
      }
      append(stack.back());
      stack.pop_back();
    }
  }

  Runs with_updates(const std::vector<OpId>& updates) const {
    // By op, where it first runs; by value, the last position that reads it.
    std::vector<std::int64_t> ran(at(graph_.op_count()), -1), read(at(graph_.value_count()), -1);
    for (std::size_t p = 0; p < runs_.size(); ++p) {
      if (ran[at(runs_[p].index)] < 0) ran[at(runs_[p].index)] = static_cast<std::int64_t>(p);
      for (ValueId input : graph_.op(runs_[p]).inputs) read[at(input.index)] = static_cast<std::int64_t>(p);
    }
    std::vector<std::vector<OpId>> after(runs_.size() + 1);  // after[p]: run once p runs are made
    for (OpId id : updates) {
      const Op& op = graph_.op(id);
      std::int64_t last = -1;
      for (ValueId input : op.inputs)
        if (const OpId producer = graph_.value(input).producer) last = std::max(last, ran[at(producer.index)]);
      for (const InPlacePair& pair : op.def->updates({graph_, op}))
        last = std::max(last, read[at(op.inputs[at(pair.input)].index)]);
      ran[at(id.index)] = last;
      after[at(last + 1)].push_back(id);
    }
    Runs all;
    for (std::size_t p = 0; p <= runs_.size(); ++p) {
      if (p > 0) all.push_back(runs_[p - 1]);
      all.insert(all.end(), after[p].begin(), after[p].end());
    }
    return all;
  }

  const Graph& graph_;
  const std::vector<bool>& dropped_;
  Again again_;
  std::vector<bool> there_;
  Runs runs_;
};

}  // namespace

Runs with_recomputation(const Graph& graph, const std::vector<bool>& dropped, Again again) {
  return Recomputation(graph, dropped, again).run();
}

}  // namespace outsize
