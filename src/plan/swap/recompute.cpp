#include "plan/swap/recompute.h"

#include <algorithm>
#include <limits>
#include <set>

#include "graph/opdef.h"
#include "plan/analysis/order.h"

namespace outsize {

namespace {

// The results that were made again and are there, and which of them goes when they take too much.
class Cache {
 public:
  Cache(std::int64_t values, IdVector<ValueId, std::int64_t> bytes, std::int64_t capacity)
      : bytes_(std::move(bytes)), capacity_(capacity), used_at_(values, kAbsent), pins_(values, 0) {}

  // It is there, and used just now.
  void use(ValueId id) {
    if (used_at_[id] == kAbsent)
      held_ += bytes(id);
    else
      by_use_.erase({used_at_[id], id});
    used_at_[id] = ++now_;
    by_use_.insert({now_, id});
  }
  bool has(ValueId id) const { return used_at_[id] != kAbsent; }
  void remove(ValueId id) {
    by_use_.erase({used_at_[id], id});
    used_at_[id] = kAbsent;
    held_ -= bytes(id);
  }
  // What is pinned does not go: an op that is about to run reads it.
  void pin(const std::vector<ValueId>& values) {
    for (ValueId id : values) ++pins_[id];
  }
  void unpin(const std::vector<ValueId>& values) {
    for (ValueId id : values) --pins_[id];
  }
  // What goes to make room: the least recently used, removed.
  std::vector<ValueId> make_room() {
    std::vector<ValueId> gone;
    std::int64_t left = held_;
    for (auto it = by_use_.begin(); it != by_use_.end() && left > capacity_; ++it) {
      if (pins_[it->second] > 0) continue;
      gone.push_back(it->second);
      left -= bytes(it->second);
    }
    for (ValueId id : gone) remove(id);
    return gone;
  }

 private:
  static constexpr std::int64_t kAbsent = -1;

  std::int64_t bytes(ValueId id) const { return bytes_.empty() ? 1 : bytes_[id]; }

  IdVector<ValueId, std::int64_t> bytes_;
  std::int64_t capacity_;
  std::int64_t held_ = 0, now_ = 0;
  IdVector<ValueId, std::int64_t> used_at_;  // by value
  IdVector<ValueId, int> pins_;              // by value
  std::set<std::pair<std::int64_t, ValueId>> by_use_;
};

std::int64_t capacity_of(Again again, const RecomputeCache& cache) {
  switch (again) {
    case Again::held: return std::numeric_limits<std::int64_t>::max();
    case Again::cached: return cache.capacity;
    case Again::remade: return 0;
  }
  internal_error("no capacity for {}", static_cast<int>(again));
}

class Recomputation {
 public:
  Recomputation(const Graph& graph, const IdVector<ValueId, bool>& dropped, Again again, const RecomputeCache& cache,
                std::int64_t most = std::numeric_limits<std::int64_t>::max())
      : graph_(graph),
        dropped_(dropped),
        most_(most),
        there_(graph.value_count(), false),
        held_(again == Again::held),
        cache_(there_.size(), cache.bytes, capacity_of(again, cache)) {
    for (std::int64_t v = 0; v < graph.value_count(); ++v)
      if (!graph.value(ValueId(v)).producer) there_[ValueId(v)] = true;
  }

  // Empty where it would take more runs than `most`.
  Runs run(const std::vector<OpId>& order) {
    IdVector<ValueId, OpId> last_reader(graph_.value_count());
    for (OpId id : order)
      for (ValueId input : graph_.op(id).inputs) last_reader[input] = id;
    std::vector<OpId> updates;
    for (OpId id : order) {
      const Op& op = graph_.op(id);
      if (op.phase == Phase::update) {
        updates.push_back(id);
        continue;
      }
      if (op.phase == Phase::backward && !backward_) leave_forward();
      cache_.pin(op.inputs);
      for (ValueId input : op.inputs) ensure(input);
      if (runs_.size() > most_) return {};
      append(id);
      cache_.unpin(op.inputs);
      make_room();
      // Nothing but another result's making can need it now.
      for (ValueId input : op.inputs)
        if (!held_ && cache_.has(input) && last_reader[input] == id) lose(input);
    }
    return with_updates(updates);
  }

  Runs run(const std::vector<RecomputeLayer>& layers, const std::vector<ChainStep>& steps, const std::vector<OpId>& order) {
    IdVector<OpId, std::size_t> layer_of(graph_.op_count(), 0);
    IdVector<ValueId, bool> in_layer(graph_.value_count(), false);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      for (OpId id : layers[i].backward) layer_of[id] = i;
      for (ValueId value : layers[i].values) in_layer[value] = true;
    }
    std::vector<bool> made(layers.size(), false);
    std::size_t next = 0, reached = layers.size();
    const auto pass_over = [&](std::int64_t first) {
      for (std::int64_t p = first; p < runs_.size(); ++p)
        for (ValueId output : graph_.op(runs_[p]).outputs)
          if (droppable(output) && !in_layer[output]) there_[output] = false;
    };
    const auto step = [&] {
      const auto [kind, i] = steps[next++];
      const std::int64_t before = runs_.size();
      switch (kind) {
        case ChainStep::Kind::forward:
          if (made[i])
            for (ValueId value : layers[i].values) ensure(value);
          made[i] = true;
          if (next == steps.size() || steps[next] != ChainStep{ChainStep::Kind::backward, i}) pass_over(before);
          break;
        case ChainStep::Kind::backward: reached = i; break;
        case ChainStep::Kind::drop:
          if (i == 0) break;
          for (ValueId value : layers[i - 1].values)
            if (droppable(value)) there_[value] = false;
          break;
      }
    };
    std::vector<OpId> updates;
    for (OpId id : order) {
      const Op& op = graph_.op(id);
      if (op.phase == Phase::update) {
        updates.push_back(id);
        continue;
      }
      if (op.phase == Phase::backward) {
        if (!backward_) pass_over(0);
        backward_ = true;
        while (reached > layer_of[id] && next < steps.size()) step();
      }
      for (ValueId input : op.inputs) ensure(input);
      append(id);
    }
    return with_updates(updates);
  }

 private:
  bool droppable(ValueId id) const {
    const Value& value = graph_.value(id);
    return value.producer && graph_.op(value.producer).phase == Phase::forward && !graph_.is_output(id) && dropped_[id];
  }

  void leave_forward() {
    backward_ = true;
    for (std::int64_t v = 0; v < graph_.value_count(); ++v)
      if (droppable(ValueId(v))) there_[ValueId(v)] = false;
  }

  void lose(ValueId id) {
    cache_.remove(id);
    there_[id] = false;
  }

  void make_room() {
    for (ValueId id : cache_.make_room()) there_[id] = false;
  }

  void append(OpId id) {
    runs_.push_back(id);
    for (ValueId output : graph_.op(id).outputs) there_[output] = true;
    if (!backward_ || held_) return;
    for (ValueId input : graph_.op(id).inputs)
      if (cache_.has(input)) cache_.use(input);
    for (ValueId output : graph_.op(id).outputs)
      if (droppable(output)) cache_.use(output);
  }

  // Runs producers again, the furthest ancestors first, but no more than `most_`. With its own stack: chains may be as long as the
  // network.
  void ensure(ValueId wanted) {
    if (there_[wanted]) return;
    std::vector<OpId> stack;
    const auto push = [&](ValueId value) {
      stack.push_back(graph_.value(value).producer);
      cache_.pin(graph_.op(stack.back()).inputs);
    };
    push(wanted);
    while (!stack.empty() && runs_.size() <= most_) {
      const Op& op = graph_.op(stack.back());
      const auto lacking = std::find_if(op.inputs.begin(), op.inputs.end(), [&](ValueId input) { return !there_[input]; });
      if (lacking != op.inputs.end()) {
        push(*lacking);
        continue;
      }
      append(stack.back());
      stack.pop_back();
      cache_.unpin(op.inputs);
      make_room();
    }
  }

  Runs with_updates(const std::vector<OpId>& updates) const {
    // By op, where it first runs; by value, the last position that reads it.
    IdVector<OpId, std::int64_t> ran(graph_.op_count(), -1);
    IdVector<ValueId, std::int64_t> read(graph_.value_count(), -1);
    for (std::int64_t p = 0; p < runs_.size(); ++p) {
      if (ran[runs_[p]] < 0) ran[runs_[p]] = p;
      for (ValueId input : graph_.op(runs_[p]).inputs) read[input] = p;
    }
    Table<std::vector<OpId>> after(runs_.size() + 1);  // after[p]: run once p runs are made
    for (OpId id : updates) {
      const Op& op = graph_.op(id);
      std::int64_t last = -1;
      for (ValueId input : op.inputs)
        if (const OpId producer = graph_.value(input).producer) last = std::max(last, ran[producer]);
      for (const InPlacePair& pair : op.updates) last = std::max(last, read[op.inputs[pair.input]]);
      ran[id] = last;
      after[last + 1].push_back(id);
    }
    Runs all;
    for (std::int64_t p = 0; p <= runs_.size(); ++p) {
      if (p > 0) all.push_back(runs_[p - 1]);
      all.insert(all.end(), after[p].begin(), after[p].end());
    }
    return all;
  }

  const Graph& graph_;
  const IdVector<ValueId, bool>& dropped_;
  const std::int64_t most_;
  IdVector<ValueId, bool> there_;
  bool held_;
  bool backward_ = false;
  Cache cache_;
  Runs runs_;
};

}  // namespace

Runs with_recomputation(const Graph& graph, const IdVector<ValueId, bool>& dropped, Again again, const RecomputeCache& cache,
                        const std::vector<OpId>& order, std::int64_t most) {
  return Recomputation(graph, dropped, again, cache, most).run(order.empty() ? eager_order(graph) : order);
}

Runs with_chain_steps(const Graph& graph, const std::vector<RecomputeLayer>& layers, const std::vector<ChainStep>& steps,
                      const std::vector<OpId>& order) {
  IdVector<ValueId, bool> dropped;
  for (const Value& value : graph.values()) dropped.push_back(value.role != Role::statistic);
  return Recomputation(graph, dropped, Again::held, {}).run(layers, steps, order.empty() ? eager_order(graph) : order);
}

}  // namespace outsize
