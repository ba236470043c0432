#include "plan/regions.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "graph/opdef.h"
#include "plan/order.h"

namespace outsize {

namespace {

std::size_t at(ValueId id) { return static_cast<std::size_t>(id.index); }
std::size_t at(OpId id) { return static_cast<std::size_t>(id.index); }

bool reduces(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  return !op.def->can_gather({graph, op});
}

// Rows times columns (times depth).
std::int64_t spatial_elements(const Dims& shape) {
  std::int64_t elements = 1;
  for (int dim = 2; dim < shape.rank(); ++dim) elements *= shape[dim];
  return elements;
}

// A set of ids below some number that is emptied without touching them all: passes have few of a graph's ops and values each.
class Marks {
 public:
  explicit Marks(std::int64_t count) : marked_(static_cast<std::size_t>(count), 0) {}
  void clear() { ++now_; }
  void put(std::size_t id) { marked_[id] = now_; }
  bool has(std::size_t id) const { return marked_[id] == now_; }

 private:
  std::vector<std::int32_t> marked_;  // by id: when last
  std::int32_t now_ = 1;
};

class RegionPlanner {
 public:
  RegionPlanner(const Graph& graph, const Tiling& tiling)
      : graph_(graph),
        tiling_(tiling),
        order_(eager_order(graph)),
        position_(static_cast<std::size_t>(graph.op_count())),
        numbers_(pass_numbers(graph, tiling)),
        last_read_(static_cast<std::size_t>(graph.value_count()), -1),
        ops_(graph.op_count()),
        values_(graph.value_count()) {
    for (std::size_t i = 0; i < order_.size(); ++i) position_[at(order_[i])] = i;
    const std::int32_t last = *std::max_element(numbers_.begin(), numbers_.end());
    passes_.resize(static_cast<std::size_t>(last) + 1);
    for (ValueId output : graph.outputs()) last_read_[at(output)] = std::numeric_limits<std::int32_t>::max();
  }

  Plan make(std::string planner) {
    for (OpId op : order_)
      if (!tiling_.tiled[at(op)])
        for (ValueId input : graph_.op(op).inputs) read_by(input, std::numeric_limits<std::int32_t>::max());
    for (OpId op : order_)
      if (tiling_.tiled[at(op)]) passes_[static_cast<std::size_t>(numbers_[at(op)])].push_back(op);
    for (std::size_t p = passes_.size(); p-- > 0;) settle(p);
    put_off_updates();

    Plan plan;
    plan.name = graph_.name;
    plan.planner = std::move(planner);
    std::vector<std::vector<OpId>> before(passes_.size() + 1);
    for (OpId op : order_)
      if (!tiling_.tiled[at(op)]) before[std::min(passes_.size(), static_cast<std::size_t>(numbers_[at(op)]))].push_back(op);
    for (std::size_t p = 0; p < before.size(); ++p) {
      for (OpId op : before[p]) plan.steps.push_back(RunStep{op});
      if (p == passes_.size() || passes_[p].empty()) continue;
      Pass pass;
      pass.name =
          (graph_.op(passes_[p].back()).phase == Phase::forward ? "forward." : "backward.") + std::to_string(plan.passes.size());
      pass.ops = passes_[p];
      pass.driver =
          driver_of(graph_, passes_[p], [&](ValueId value) { return last_read_[at(value)] > static_cast<std::int32_t>(p); });
      plan.steps.push_back(PassStep{static_cast<int>(plan.passes.size())});
      plan.passes.push_back(std::move(pass));
    }
    return plan;
  }

 private:
  void read_by(ValueId value, std::int32_t pass) { last_read_[at(value)] = std::max(last_read_[at(value)], pass); }

  // Whether a pass after the one that makes the value finds it stored.
  bool waits(ValueId value) const {
    const Value& v = graph_.value(value);
    if (reduces(graph_, v.producer) || tiling_.cuts[at(value)] || tiling_.stored[at(value)] || graph_.is_output(value)) return true;
    return std::any_of(v.consumers.begin(), v.consumers.end(), [&](OpId reader) { return !tiling_.tiled[at(reader)]; });
  }

  // The ops of a pass: its own that later passes, or whole ops, want something of, and those that make again what these read.
  // Passes after it are settled.
  void settle(std::size_t p) {
    const auto number = static_cast<std::int32_t>(p);
    std::vector<OpId> ops;
    ops_.clear();
    values_.clear();
    const auto add = [&](OpId op) {
      if (ops_.has(at(op))) return;
      ops_.put(at(op));
      ops.push_back(op);
    };
    const std::vector<OpId> own = std::move(passes_[p]);
    for (std::size_t k = own.size(); k-- > 0;) {
      const Op& op = graph_.op(own[k]);
      const bool used = std::any_of(op.outputs.begin(), op.outputs.end(),
                                    [&](ValueId v) { return values_.has(at(v)) || last_read_[at(v)] > number; });
      if (!used) continue;
      add(own[k]);
      for (ValueId input : op.inputs) values_.put(at(input));
    }
    for (std::size_t k = 0; k < ops.size(); ++k)
      for (ValueId input : graph_.op(ops[k]).inputs) {
        const OpId producer = graph_.value(input).producer;
        if (producer && tiling_.tiled[at(producer)] && (numbers_[at(producer)] == number || !waits(input)))
          add(producer);
        else
          read_by(input, number);
      }
    std::sort(ops.begin(), ops.end(), [&](OpId a, OpId b) { return position_[at(a)] < position_[at(b)]; });
    passes_[p] = std::move(ops);
  }

  // An update runs after the last pass, and the last whole op, that reads what it replaces; so does what reads its results.
  void put_off_updates() {
    std::vector<std::int32_t> least(static_cast<std::size_t>(graph_.value_count()), 0);
    for (std::size_t p = 0; p < passes_.size(); ++p)
      for (OpId op : passes_[p])
        for (ValueId input : graph_.op(op).inputs) least[at(input)] = static_cast<std::int32_t>(p) + 1;
    for (OpId id : order_) {
      const Op& op = graph_.op(id);
      if (tiling_.tiled[at(id)]) continue;
      std::int32_t& number = numbers_[at(id)];
      for (ValueId input : op.inputs) {
        const OpId producer = graph_.value(input).producer;
        if (producer && !tiling_.tiled[at(producer)]) number = std::max(number, numbers_[at(producer)]);
      }
      for (const InPlacePair& pair : op.updates) {
        const ValueId replaced = op.inputs[static_cast<std::size_t>(pair.input)];
        number = std::max(number, least[at(replaced)]);
        for (OpId reader : graph_.value(replaced).consumers)
          if (!tiling_.tiled[at(reader)] && reader != id) number = std::max(number, numbers_[at(reader)]);
      }
    }
  }

  const Graph& graph_;
  const Tiling& tiling_;
  const std::vector<OpId> order_;
  std::vector<std::size_t> position_;  // by op, in the order
  std::vector<std::int32_t> numbers_;
  std::vector<std::int32_t> last_read_;  // by value: the last pass that reads it and does not make it
  std::vector<std::vector<OpId>> passes_;
  Marks ops_, values_;  // of the pass that is settled
};

}  // namespace

std::vector<std::int32_t> pass_numbers(const Graph& graph, const Tiling& tiling) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(graph.op_count()), 0);
  for (std::int64_t o = 0; o < graph.op_count(); ++o) {
    const OpId id(o);
    for (ValueId input : graph.op(id).inputs) {
      const OpId producer = graph.value(input).producer;
      if (!producer) continue;
      const bool after =
          tiling.tiled[at(producer)] && (!tiling.tiled[at(id)] || tiling.cuts[at(input)] || reduces(graph, producer));
      numbers[at(id)] = std::max(numbers[at(id)], numbers[at(producer)] + (after ? 1 : 0));
    }
  }
  return numbers;
}

std::vector<bool> stored_in_phase(const Graph& graph, const Tiling& tiling) {
  const std::vector<std::int32_t> numbers = pass_numbers(graph, tiling);
  std::vector<bool> stored(static_cast<std::size_t>(graph.value_count()), false);
  std::vector<bool> crosses(static_cast<std::size_t>(graph.value_count()), false);
  const auto is_map_of_tiles = [&](ValueId value) {
    const OpId producer = graph.value(value).producer;
    return producer && tiling.tiled[at(producer)] && !reduces(graph, producer);
  };
  for (std::int64_t v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(ValueId(v));
    if (!is_map_of_tiles(ValueId(v))) continue;
    for (OpId reader : value.consumers)
      crosses[static_cast<std::size_t>(v)] =
          crosses[static_cast<std::size_t>(v)] ||
          (tiling.tiled[at(reader)] && graph.op(reader).phase == graph.op(value.producer).phase &&
           numbers[at(reader)] > numbers[at(value.producer)]);
  }
  for (std::int64_t v = 0; v < graph.value_count(); ++v) {
    if (!crosses[static_cast<std::size_t>(v)]) continue;
    const Op& producer = graph.op(graph.value(ValueId(v)).producer);
    // One that is made of a single stored value, cheaply, is made again.
    std::int64_t maps = 0, stored_maps = 0;
    for (ValueId input : producer.inputs) {
      if (!is_map_of_tiles(input)) continue;
      ++maps;
      stored_maps += stored[at(input)] || tiling.cuts[at(input)];
    }
    stored[static_cast<std::size_t>(v)] = !(maps == 1 && stored_maps == 1 && producer.def->cheap({graph, producer}));
  }
  return stored;
}

ValueId driver_of(const Graph& graph, const std::vector<OpId>& ops, const std::function<bool(ValueId)>& leaves) {
  ValueId best;
  std::vector<bool> extended(static_cast<std::size_t>(graph.value_count()), false), made(extended);
  for (OpId id : ops) {
    for (ValueId output : graph.op(id).outputs) made[at(output)] = true;
    if (reduces(graph, id)) continue;
    for (ValueId input : graph.op(id).inputs) extended[at(input)] = true;
  }
  // What the pass makes comes before what it only reads: labels lead to nothing.
  const auto rank = [&](ValueId value) { return std::pair(!made[at(value)], spatial_elements(graph.value(value).type.shape)); };
  const auto consider = [&](ValueId value) {
    if (!extended[at(value)] && (!best || rank(value) <= rank(best))) best = value;
  };
  for (OpId id : ops) {
    const Op& op = graph.op(id);
    if (reduces(graph, id))
      consider(op.inputs[static_cast<std::size_t>(op.def->push_driver({graph, op}))]);
    else if (std::any_of(op.outputs.begin(), op.outputs.end(), leaves))
      consider(op.outputs[0]);
  }
  // Where other ops read what the reductions take their tiles from, as of a transposed convolution's weight: what they read
  // besides.
  if (!best)
    for (OpId id : ops)
      for (ValueId input : graph.op(id).inputs)
        if (reduces(graph, id) && made[at(input)]) consider(input);
  OUTSIZE_CHECK(best);
  return best;
}

Plan plan_of(const Graph& graph, const Tiling& tiling, std::string planner) {
  return RegionPlanner(graph, tiling).make(std::move(planner));
}

namespace {

// A map, or as much as one: statistics and gradients of weights are summed on the device.
bool is_large(const Value& value) {
  constexpr std::int64_t kLarge = 1 << 16;
  if (value.type.format == Format::map) return true;
  const bool of_samples = value.role == Role::activation || value.role == Role::gradient || value.role == Role::input;
  return of_samples && value.type.elements() >= kLarge;
}

}  // namespace

std::vector<ValueId> streamable(const Graph& graph, const Plan& plan, const std::vector<std::vector<bool>>& later) {
  std::vector<bool> whole(static_cast<std::size_t>(graph.value_count()), false), waits(whole);
  for (const Step& step : plan.steps) {
    if (const auto* run = std::get_if<RunStep>(&step)) {
      for (ValueId value : graph.op(run->op).inputs) whole[at(value)] = true;
      for (ValueId value : graph.op(run->op).outputs) whole[at(value)] = true;
    }
    const auto* pass = std::get_if<PassStep>(&step);
    if (!pass) continue;
    for (OpId op : plan.passes[static_cast<std::size_t>(pass->pass)].ops) {
      for (ValueId input : graph.op(op).inputs) waits[at(input)] = waits[at(input)] || graph.value(input).role == Role::input;
      for (ValueId output : graph.op(op).outputs)
        waits[at(output)] = waits[at(output)] || later[static_cast<std::size_t>(pass->pass)][at(output)];
    }
  }
  std::vector<ValueId> found;
  for (std::int64_t v = 0; v < graph.value_count(); ++v)
    if (waits[static_cast<std::size_t>(v)] && !whole[static_cast<std::size_t>(v)] && is_large(graph.value(ValueId(v))) &&
        !graph.is_output(ValueId(v)))
      found.push_back(ValueId(v));
  return found;
}

Pass with_shared_rows(const Graph& graph, Pass pass) {
  for (OpId id : pass.ops) {
    const Op& op = graph.op(id);
    if (!op.def->can_gather({graph, op})) continue;
    for (ValueId output : op.outputs)
      if (output != pass.driver && graph.value(output).type.format == Format::map) pass.share.push_back(output);
  }
  return pass;
}

std::optional<Pass> with_pushed_gradients(const Graph& graph, Pass pass) {
  std::vector<OpId> made_here = pass.ops;
  std::sort(made_here.begin(), made_here.end(), [](OpId a, OpId b) { return a.index < b.index; });
  const auto is_gradient = [&](ValueId value) {
    const OpId producer = graph.value(value).producer;
    const ValueType& type = graph.value(value).type;
    // That of a whole map's mean leads to a map, but is none that can be cut.
    return producer && graph.op(producer).phase == Phase::backward && type.format == Format::map &&
           spatial_elements(type.shape) > 1;
  };
  const auto here = [&](ValueId value) {
    const OpId producer = graph.value(value).producer;
    return producer &&
           std::binary_search(made_here.begin(), made_here.end(), producer, [](OpId a, OpId b) { return a.index < b.index; });
  };
  std::vector<ValueId> leading, only_leading;
  for (OpId id : pass.ops) {
    const Op& op = graph.op(id);
    if (op.phase != Phase::backward) continue;
    // A reduction that takes its tiles from elsewhere needs a whole window of the gradient.
    if (reduces(graph, id) && !is_gradient(op.inputs[static_cast<std::size_t>(op.def->push_driver({graph, op}))]))
      std::copy_if(op.inputs.begin(), op.inputs.end(), std::back_inserter(only_leading), is_gradient);
    bool follows = false;
    for (ValueId input : op.inputs) {
      if (!is_gradient(input)) continue;
      follows = true;
      if (!here(input)) leading.push_back(input);
    }
    if (!follows && is_gradient(op.outputs[0])) leading.push_back(op.outputs[0]);
    if (!follows && !is_gradient(op.outputs[0])) return std::nullopt;
  }
  const auto another = [&](ValueId value) { return value != leading[0]; };
  if (leading.empty() || std::any_of(leading.begin(), leading.end(), another) ||
      std::any_of(only_leading.begin(), only_leading.end(), another))
    return std::nullopt;
  pass.driver = leading[0];
  return pass;
}

}  // namespace outsize
