#include "plan/tiling/regions.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/table.h"
#include "graph/opdef.h"
#include "plan/analysis/order.h"

namespace outsize {

namespace {

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
template <class Id>
class Marks {
 public:
  explicit Marks(std::int64_t count) : marked_(count, 0) {}
  void clear() { ++now_; }
  void put(Id id) { marked_[id] = now_; }
  bool has(Id id) const { return marked_[id] == now_; }

 private:
  IdVector<Id, std::int32_t> marked_;  // when last
  std::int32_t now_ = 1;
};

class RegionPlanner {
 public:
  // `seconds`: by op; empty: none takes any.
  RegionPlanner(const Graph& graph, const Tiling& tiling, const IdVector<OpId, double>& seconds, double most)
      : graph_(graph),
        tiling_(tiling),
        seconds_(seconds),
        most_(most),
        order_(eager_order(graph)),
        position_(graph.op_count()),
        numbers_(pass_numbers(graph, tiling)),
        last_read_(graph.value_count(), kNone),
        again_(graph.value_count()),
        ops_(graph.op_count()),
        values_(graph.value_count()) {
    for (std::size_t i = 0; i < order_.size(); ++i) position_[order_[i]] = i;
    const std::int32_t last = *std::max_element(numbers_.begin(), numbers_.end());
    passes_.resize(last + 1);
    backward_ = first_of_backward(graph, tiling, numbers_);
    for (ValueId output : graph.outputs()) last_read_[output] = std::numeric_limits<std::int32_t>::max();
  }

  // Nothing where that takes longer than it may.
  std::optional<Plan> make(std::string planner) {
    for (OpId op : order_)
      if (!tiling_.tiled[op]) {
        spend(op);
        for (ValueId input : graph_.op(op).inputs) read_by(input, std::numeric_limits<std::int32_t>::max());
      }
    for (OpId op : order_)
      if (tiling_.tiled[op]) passes_[numbers_[op]].push_back(op);
    for (std::int64_t p = passes_.size(); p-- > backward_ && spent_ <= most_;) settle(p);
    make_again();
    for (std::int64_t p = backward_; p-- > 0 && spent_ <= most_;) settle(p);
    if (spent_ > most_) return std::nullopt;
    put_off_updates();

    Plan plan;
    plan.name = graph_.name;
    plan.planner = std::move(planner);
    Table<std::vector<OpId>> before(passes_.size() + 1);
    for (OpId op : order_)
      if (!tiling_.tiled[op]) before[std::min<std::int64_t>(passes_.size(), numbers_[op])].push_back(op);
    for (std::int64_t p = 0; p < before.size(); ++p) {
      for (OpId op : before[p]) plan.steps.push_back(RunStep{op});
      if (p == passes_.size() || passes_[p].empty()) continue;
      Pass pass;
      pass.name =
          (graph_.op(passes_[p].back()).phase == Phase::forward ? "forward." : "backward.") + std::to_string(plan.passes.size());
      pass.ops = passes_[p];
      pass.driver = driver_of(graph_, passes_[p], [&](ValueId value) {
        const auto number = static_cast<std::int32_t>(p);
        const Again& again = again_[value];
        return last_read_[value] > number || (again.made == number && again.last_read > number);
      });
      plan.steps.push_back(PassStep{static_cast<int>(plan.passes.size())});
      plan.passes.push_back(std::move(pass));
    }
    return plan;
  }

  // Of what was made.
  double seconds() const { return spent_; }

 private:
  void spend(OpId op) {
    if (!seconds_.empty()) spent_ += seconds_[op];
  }
  void read_by(ValueId value, std::int32_t pass) { last_read_[value] = std::max(last_read_[value], pass); }

  // How passes after the one that makes the value find it.
  Stored stored(ValueId value) const {
    const Value& v = graph_.value(value);
    const bool whole = std::any_of(v.consumers.begin(), v.consumers.end(), [&](OpId reader) { return !tiling_.tiled[reader]; });
    const bool must = whole || reduces(graph_, v.producer) || tiling_.cuts[value] || graph_.is_output(value);
    return must ? Stored::always : tiling_.stored[value];
  }

  enum class Source : std::uint8_t { made, stored, made_for_backward };
  // Where a pass has a value from that it reads: whether it makes it, finds it stored since the pass that it belongs to, or since
  // the first of backward that needs it.
  Source source_of(ValueId value, std::int32_t pass) const {
    const OpId producer = graph_.value(value).producer;
    if (!producer || !tiling_.tiled[producer]) return Source::stored;
    if (numbers_[producer] == pass) return Source::made;
    const Stored how = stored(value);
    if (how == Stored::never || how == Stored::always) return how == Stored::never ? Source::made : Source::stored;
    if (pass < backward_ || numbers_[producer] >= backward_) return Source::stored;
    return how == Stored::forward ? Source::made : Source::made_for_backward;
  }

  // The ops of a pass: its own that later passes, or whole ops, want something of, and those that make again what these read.
  // Passes after it are settled.
  void settle(std::int64_t p) {
    const auto number = static_cast<std::int32_t>(p);
    std::vector<OpId> ops;
    ops_.clear();
    values_.clear();
    const auto add = [&](OpId op) {
      if (ops_.has(op)) return;
      ops_.put(op);
      ops.push_back(op);
    };
    const std::vector<OpId> own = std::move(passes_[p]);
    for (std::size_t k = own.size(); k-- > 0;) {
      const Op& op = graph_.op(own[k]);
      const bool used =
          std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) { return values_.has(v) || last_read_[v] > number; });
      if (!used) continue;
      add(own[k]);
      for (ValueId input : op.inputs) values_.put(input);
    }
    for (std::size_t k = 0; k < ops.size(); ++k)
      for (ValueId input : graph_.op(ops[k]).inputs) {
        const Source source = source_of(input, number);
        if (source == Source::made) add(graph_.value(input).producer);
        if (source == Source::stored) read_by(input, number);
        if (source == Source::made_for_backward) again_[input].read_by(number);
      }
    for (OpId op : ops) spend(op);
    passes_[p] = std::move(ops);
    sort(p);
  }

  // Adds to the passes of backward the ops that make again what a pass stores for others of backward. They are settled.
  void make_again() {
    Table<std::vector<ValueId>> firsts(passes_.size());  // by pass: what it may be the first to need
    for (std::int64_t v = 0; v < graph_.value_count(); ++v)
      if (const Again& again = again_[ValueId(v)]; again.made != kNone) firsts[again.made].push_back(ValueId(v));
    for (std::int64_t p = 0; p < passes_.size() && spent_ <= most_; ++p) {
      if (firsts[p].empty()) continue;
      const auto number = static_cast<std::int32_t>(p);
      std::vector<OpId>& ops = passes_[p];
      ops_.clear();
      for (OpId op : ops) ops_.put(op);
      std::size_t next = ops.size();
      const auto add = [&](ValueId value) {
        const OpId op = graph_.value(value).producer;
        if (ops_.has(op)) return;
        ops_.put(op);
        ops.push_back(op);
        spend(op);
      };
      for (ValueId value : firsts[p])
        if (again_[value].made == number) add(value);  // else an earlier one has come to need it
      for (; next < ops.size(); ++next)
        for (ValueId input : graph_.op(ops[next]).inputs) {
          const Source source = source_of(input, number);
          if (source == Source::stored) read_by(input, number);
          if (source == Source::made_for_backward) again_[input].read_by(number);
          if (source == Source::made || (source == Source::made_for_backward && again_[input].made == number)) add(input);
        }
      sort(p);
    }
  }

  void sort(std::int64_t p) {
    std::sort(passes_[p].begin(), passes_[p].end(), [&](OpId a, OpId b) { return position_[a] < position_[b]; });
  }

  // An update runs after the last pass, and the last whole op, that reads what it replaces; so does what reads its results.
  void put_off_updates() {
    IdVector<ValueId, std::int32_t> least(graph_.value_count(), 0);
    for (std::int64_t p = 0; p < passes_.size(); ++p)
      for (OpId op : passes_[p])
        for (ValueId input : graph_.op(op).inputs) least[input] = static_cast<std::int32_t>(p) + 1;
    for (OpId id : order_) {
      const Op& op = graph_.op(id);
      if (tiling_.tiled[id]) continue;
      std::int32_t& number = numbers_[id];
      for (ValueId input : op.inputs) {
        const OpId producer = graph_.value(input).producer;
        if (producer && !tiling_.tiled[producer]) number = std::max(number, numbers_[producer]);
      }
      for (const InPlacePair& pair : op.updates) {
        const ValueId replaced = op.inputs[pair.input];
        number = std::max(number, least[replaced]);
        for (OpId reader : graph_.value(replaced).consumers)
          if (!tiling_.tiled[reader] && reader != id) number = std::max(number, numbers_[reader]);
      }
    }
  }

  static constexpr std::int32_t kNone = -1;

  // A value that backward makes again for several of its passes.
  struct Again {
    std::int32_t made = kNone;       // by this pass, the first that needs it
    std::int32_t last_read = kNone;  // by this one
    void read_by(std::int32_t pass) {
      made = made == kNone ? pass : std::min(made, pass);
      last_read = std::max(last_read, pass);
    }
  };

  const Graph& graph_;
  const Tiling& tiling_;
  const IdVector<OpId, double>& seconds_;
  const double most_;  // seconds that its runs may take
  double spent_ = 0;   // those that they take
  const std::vector<OpId> order_;
  IdVector<OpId, std::size_t> position_;  // by op, in the order
  IdVector<OpId, std::int32_t> numbers_;
  std::int32_t backward_ = 0;                  // the first pass of backward
  IdVector<ValueId, std::int32_t> last_read_;  // by value: the last pass that reads it and does not make it
  IdVector<ValueId, Again> again_;             // by value
  Table<std::vector<OpId>> passes_;
  Marks<OpId> ops_;  // of the pass that is settled
  Marks<ValueId> values_;
};

}  // namespace

IdVector<OpId, std::int32_t> pass_numbers(const Graph& graph, const Tiling& tiling) {
  IdVector<OpId, std::int32_t> numbers(graph.op_count(), 0);
  for (std::int64_t o = 0; o < graph.op_count(); ++o) {
    const OpId id(o);
    for (ValueId input : graph.op(id).inputs) {
      const OpId producer = graph.value(input).producer;
      if (!producer) continue;
      const bool after = tiling.tiled[producer] && (!tiling.tiled[id] || tiling.cuts[input] || reduces(graph, producer));
      numbers[id] = std::max(numbers[id], numbers[producer] + (after ? 1 : 0));
    }
  }
  return numbers;
}

std::int32_t first_of_backward(const Graph& graph, const Tiling& tiling, const IdVector<OpId, std::int32_t>& numbers) {
  std::int32_t first = *std::max_element(numbers.begin(), numbers.end()) + 1;
  for (std::int64_t o = 0; o < graph.op_count(); ++o)
    if (tiling.tiled[OpId(o)] && graph.op(OpId(o)).phase == Phase::backward) first = std::min(first, numbers[OpId(o)]);
  return first;
}

IdVector<ValueId, bool> read_in_phase(const Graph& graph, const Tiling& tiling) {
  const IdVector<OpId, std::int32_t> numbers = pass_numbers(graph, tiling);
  IdVector<ValueId, bool> stored(graph.value_count(), false);
  IdVector<ValueId, bool> crosses(graph.value_count());
  const auto is_map_of_tiles = [&](ValueId value) {
    const OpId producer = graph.value(value).producer;
    return producer && tiling.tiled[producer] && !reduces(graph, producer);
  };
  for (std::int64_t v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(ValueId(v));
    if (!is_map_of_tiles(ValueId(v))) continue;
    for (OpId reader : value.consumers)
      crosses[ValueId(v)] =
          crosses[ValueId(v)] || (tiling.tiled[reader] && graph.op(reader).phase == graph.op(value.producer).phase &&
                                  numbers[reader] > numbers[value.producer]);
  }
  for (std::int64_t v = 0; v < graph.value_count(); ++v) {
    if (!crosses[ValueId(v)]) continue;
    const Op& producer = graph.op(graph.value(ValueId(v)).producer);
    // One that is made of a single stored value, cheaply, is made again.
    std::int64_t maps = 0, stored_maps = 0;
    for (ValueId input : producer.inputs) {
      if (!is_map_of_tiles(input)) continue;
      ++maps;
      stored_maps += stored[input] || tiling.cuts[input];
    }
    stored[ValueId(v)] = !(maps == 1 && stored_maps == 1 && producer.def->cheap({graph, producer}));
  }
  return stored;
}

IdVector<ValueId, Stored> stored_in_phase(const Graph& graph, const Tiling& tiling, Stored how) {
  const IdVector<ValueId, bool> read = read_in_phase(graph, tiling);
  IdVector<ValueId, Stored> stored(read.size(), Stored::never);
  for (std::int64_t v = 0; v < read.size(); ++v) {
    if (!read[ValueId(v)]) continue;
    const OpId producer = graph.value(ValueId(v)).producer;
    const bool lasts = how != Stored::never && graph.op(producer).phase == Phase::backward;
    stored[ValueId(v)] = lasts ? Stored::always : how;
  }
  return stored;
}

ValueId driver_of(const Graph& graph, const std::vector<OpId>& ops, const std::function<bool(ValueId)>& leaves) {
  ValueId best;
  IdVector<ValueId, bool> extended(graph.value_count(), false), made(extended);
  for (OpId id : ops) {
    for (ValueId output : graph.op(id).outputs) made[output] = true;
    if (reduces(graph, id)) continue;
    for (ValueId input : graph.op(id).inputs) extended[input] = true;
  }
  // What the pass makes comes before what it only reads: labels lead to nothing.
  const auto rank = [&](ValueId value) { return std::pair(!made[value], spatial_elements(graph.value(value).type.shape)); };
  const auto consider = [&](ValueId value) {
    if (!extended[value] && (!best || rank(value) <= rank(best))) best = value;
  };
  for (OpId id : ops) {
    const Op& op = graph.op(id);
    if (reduces(graph, id))
      consider(op.inputs[op.def->push_driver({graph, op})]);
    else if (std::any_of(op.outputs.begin(), op.outputs.end(), leaves))
      consider(op.outputs[0]);
  }
  // Where other ops read what the reductions take their tiles from, as of a transposed convolution's weight: what they read
  // besides.
  if (!best)
    for (OpId id : ops)
      for (ValueId input : graph.op(id).inputs)
        if (reduces(graph, id) && made[input]) consider(input);
  OUTSIZE_CHECK(best);
  return best;
}

Plan plan_of(const Graph& graph, const Tiling& tiling, std::string planner) {
  return *RegionPlanner(graph, tiling, {}, 0).make(std::move(planner));
}

std::optional<Plan> plan_within(const Graph& graph, const Tiling& tiling, std::string planner,
                                const IdVector<OpId, double>& seconds_of_ops, double most) {
  return RegionPlanner(graph, tiling, seconds_of_ops, most).make(std::move(planner));
}

double seconds_of_tiling(const Graph& graph, const Tiling& tiling, const IdVector<OpId, double>& seconds_of_ops, double most) {
  RegionPlanner planner(graph, tiling, seconds_of_ops, most);
  return planner.make("") ? planner.seconds() : std::numeric_limits<double>::infinity();
}

namespace {

// A map, or as much as one: statistics and gradients of weights are summed on the device.
bool is_large(const Value& value) {
  constexpr std::int64_t kLarge = 1 << 16;
  if (is_map(value.type.format)) return true;
  const bool of_samples = value.role == Role::activation || value.role == Role::gradient || value.role == Role::input;
  return of_samples && value.type.elements() >= kLarge;
}

}  // namespace

std::vector<ValueId> streamable(const Graph& graph, const Plan& plan, const std::vector<IdSet<ValueId>>& later) {
  IdVector<ValueId, bool> whole(graph.value_count(), false), waits(whole);
  for (const Step& step : plan.steps) {
    if (const auto* run = std::get_if<RunStep>(&step)) {
      for (ValueId value : graph.op(run->op).inputs) whole[value] = true;
      for (ValueId value : graph.op(run->op).outputs) whole[value] = true;
    }
    const auto* pass = std::get_if<PassStep>(&step);
    if (!pass) continue;
    for (OpId op : plan.passes[pass->pass].ops) {
      for (ValueId input : graph.op(op).inputs) waits[input] = waits[input] || graph.value(input).role == Role::input;
      for (ValueId output : graph.op(op).outputs) waits[output] = waits[output] || later[pass->pass].contains(output);
    }
  }
  std::vector<ValueId> found;
  for (std::int64_t v = 0; v < graph.value_count(); ++v)
    if (waits[ValueId(v)] && !whole[ValueId(v)] && is_large(graph.value(ValueId(v))) && !graph.is_output(ValueId(v)))
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
    if (reduces(graph, id) && !is_gradient(op.inputs[op.def->push_driver({graph, op})]))
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
