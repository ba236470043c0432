#include "plan/reckon/bounds.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/alignment.h"
#include "base/bytes.h"
#include "graph/opdef.h"
#include "graph/storage.h"
#include "plan/reckon/lives.h"

namespace outsize {

namespace {

// The ops that are looked at: so many that hold the most, and so many spread over the step.
constexpr std::int64_t kFullest = 64;
constexpr std::int64_t kSpread = 32;

// The most of a concave function over [0, 1], nearly: any value of it is a bound.
template <class Function>
double most_within_one(const Function& function) {
  constexpr int kSteps = 24;
  double best = std::max(function(0.0), function(1.0));
  double low = 0, high = 1;
  for (int step = 0; step < kSteps; ++step) {
    const double left = low + (high - low) / 3, right = high - (high - low) / 3;
    const double at_left = function(left), at_right = function(right);
    best = std::max({best, at_left, at_right});
    (at_left < at_right ? low : high) = at_left < at_right ? left : right;
  }
  return best;
}

// What can be away while an op runs, and what that costs: R and P of equations (4) and (5).
class Freeing {
 public:
  void add_held_below(std::int64_t bytes) { below_ += static_cast<double>(bytes); }
  // What one run of an op makes again.
  void add_made(std::int64_t bytes, double seconds, bool again) { made_.push_back({static_cast<double>(bytes), seconds, again}); }
  void sort() {
    std::erase_if(made_, [](const Made& made) { return made.bytes == 0; });
    std::sort(made_.begin(), made_.end(), [](const Made& a, const Made& b) { return a.rate() < b.rate(); });
    bytes_.assign(1, 0);
    seconds_.assign(1, 0);
    for (const Made& made : made_) {
      bytes_.push_back(bytes_.back() + made.bytes);
      seconds_.push_back(seconds_.back() + made.seconds);
    }
  }

  // The least price of freeing so many bytes, or of all there are: `in` and `out` for a byte that is copied, `compute` for a second
  // that is run again. Prices may be infinite.
  double least(double bytes, double out, double in, double compute) const {
    const std::int64_t first = cheaper_than(in, compute), second = cheaper_than(in + out, compute);
    double left = bytes, price = 0;
    const auto make_again = [&](std::int64_t from, std::int64_t to) {
      const double most = bytes_[to] - bytes_[from];
      if (left >= most) {
        left -= most;
        price += compute * (seconds_[to] - seconds_[from]);
        return;
      }
      const auto part = std::upper_bound(bytes_.begin() + from, bytes_.begin() + to, bytes_[from] + left) - bytes_.begin() - 1;
      price += compute * (seconds_[part] - seconds_[from] + (bytes_[from] + left - bytes_[part]) * made_[part].rate());
      left = 0;
    };
    const auto copy = [&](double most, double a_byte) {
      const double copied = std::min(left, most);
      if (copied <= 0) return;
      left -= copied;
      price += copied * a_byte;
    };
    make_again(0, first);
    copy(below_, in);
    make_again(first, second);
    copy(bytes_.back() - bytes_[second], in + out);
    return price;
  }

 private:
  struct Made {
    double bytes = 0;
    double seconds = 0;
    bool again = true;

    // Seconds a byte.
    double rate() const { return again ? seconds / bytes : std::numeric_limits<double>::infinity(); }
  };

  // How many of made_ cost less to make again than so much a byte.
  std::int64_t cheaper_than(double price, double compute) const {
    const auto end = std::partition_point(made_.begin(), made_.end(),
                                          [&](const Made& made) { return made.again && compute * made.rate() < price; });
    return end - made_.begin();
  }

  double below_ = 0;               // bytes that have a copy in a lower tier from the start
  std::vector<Made> made_;         // the cheapest first
  Table<double> bytes_, seconds_;  // sums of the first so many
};

class Bound {
 public:
  Bound(const Work& work, const BoundDevice& device)
      : work_(work),
        device_(device),
        head_(work.ops.size(), 0),
        tail_(work.ops.size(), 0),
        before_(work.ops.size()),
        after_(work.ops.size()) {
    for (std::int64_t k = 0; k < std::ssize(work.ops); ++k) {
      const Work::Op& op = work.ops[k];
      all_ += op.seconds;
      for (const std::int32_t input : op.inputs)
        if (const std::int32_t producer = work.values[input].producer; producer >= 0)
          head_[k] = std::max(head_[k], head_[producer]);
      head_[k] += op.seconds;
    }
    for (std::int64_t k = work.ops.size(); k-- > 0;) {
      for (const std::int32_t output : work.ops[k].outputs)
        for (const std::int32_t reader : work.values[output].readers) tail_[k] = std::max(tail_[k], tail_[reader]);
      tail_[k] += work.ops[k].seconds;
    }
  }

  double all_ops() const { return all_; }

  // The least of the three cases of equation (6) for one op.
  double around(std::int32_t index) {
    follow(index);
    const Work::Op& op = work_.ops[index];
    double before = 0, after = 0;
    for (std::int64_t k = 0; k < std::ssize(work_.ops); ++k) {
      if (before_[k]) before += work_.ops[k].seconds;
      if (after_[k]) after += work_.ops[k].seconds;
    }
    Freeing freeing;
    const Across live = across(index, freeing);
    const auto excess = static_cast<double>(own_bytes(op) + live.bytes - device_.memory);
    if (excess <= 0) return all_;
    freeing.sort();
    const double either = all_ - before - op.seconds - after;
    const auto with = [&](double a, double b, double out) {
      const double freed = freeing.least(excess, out, (1 - b) / device_.link_in, b);
      return a * before + (1 - a) * live.head + op.seconds + b * after + (1 - b) * live.tail + std::min(a, b) * either + freed;
    };
    const double made_again = all_ + freeing.least(excess, kNever, kNever, 1);
    const double copied_in = most_within_one([&](double b) { return with(1, b, kNever); });
    const double copied_out_and_in = most_within_one(
        [&](double a) { return most_within_one([&](double b) { return with(a, b, (1 - a) / device_.link_out); }); });
    return std::max(all_, std::min({made_again, copied_in, copied_out_and_in}));
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // Marks the ops that run before the first run of an op, and those that first run after it, in every schedule.
  void follow(std::int32_t index) {
    std::fill(before_.begin(), before_.end(), false);
    std::fill(after_.begin(), after_.end(), false);
    std::vector<std::int32_t> stack{index};
    const auto visit = [&](Table<bool>& marked, std::int32_t op) {
      if (marked[op]) return;
      marked[op] = true;
      stack.push_back(op);
    };
    while (!stack.empty()) {
      const Work::Op& op = work_.ops[stack.back()];
      stack.pop_back();
      for (const std::int32_t input : op.inputs)
        if (const std::int32_t producer = work_.values[input].producer; producer >= 0) visit(before_, producer);
    }
    stack.push_back(index);
    while (!stack.empty()) {
      const Work::Op& op = work_.ops[stack.back()];
      stack.pop_back();
      for (const std::int32_t output : op.outputs)
        for (const std::int32_t reader : work_.values[output].readers) visit(after_, reader);
    }
  }

  bool read_after(std::int32_t value) const {
    const std::vector<std::int32_t>& readers = work_.values[value].readers;
    return std::any_of(readers.begin(), readers.end(), [&](std::int32_t reader) { return after_[reader]; });
  }

  // m of equation (1). An output that takes the place of an input which is still read later counts: that input can then be freed.
  std::int64_t own_bytes(const Work::Op& op) const {
    std::int64_t bytes = op.workspace;
    for (const std::int32_t input : op.inputs) bytes += work_.values[input].bytes;
    for (const std::int32_t output : op.outputs) {
      const bool free = std::any_of(op.overwrites.begin(), op.overwrites.end(), [&](const Work::Op::Overwrite& pair) {
        return pair.output == output && !read_after(pair.input);
      });
      if (!free) bytes += work_.values[output].bytes;
    }
    return bytes;
  }

  // The values that are live across an op beside its own: their bytes, and the least time before one of them is made and after one
  // of them is there again (h and t of equation (2)).
  struct Across {
    std::int64_t bytes = 0;
    double head = kNever;
    double tail = kNever;
  };

  // Those that can be away go to `freeing`, by their producers.
  Across across(std::int32_t index, Freeing& freeing) const {
    const Work::Op& op = work_.ops[index];
    const auto held = [&](std::int32_t value) { return std::find(op.inputs.begin(), op.inputs.end(), value) != op.inputs.end(); };
    const auto overwritten = [&](std::int32_t value) {
      return std::any_of(op.overwrites.begin(), op.overwrites.end(),
                         [&](const Work::Op::Overwrite& pair) { return pair.input == value; });
    };
    Across live;
    const auto count = [&](std::int32_t index_of_value) -> std::int64_t {
      const Work::Value& value = work_.values[index_of_value];
      if (value.bytes == 0 || !read_after(index_of_value) || (held(index_of_value) && !overwritten(index_of_value))) return 0;
      if (!held(index_of_value)) live.bytes += value.bytes;
      if (value.producer >= 0) live.head = std::min(live.head, head_[value.producer]);
      double tail = 0;
      for (const std::int32_t reader : value.readers)
        if (after_[reader]) tail = std::max(tail, tail_[reader]);
      live.tail = std::min(live.tail, tail);
      return value.bytes;
    };
    for (std::int32_t v = 0; v < std::ssize(work_.values); ++v)
      if (work_.values[v].producer < 0) freeing.add_held_below(count(v));
    for (std::int64_t k = 0; k < std::ssize(work_.ops); ++k) {
      if (!before_[k]) continue;
      std::int64_t made = 0;
      for (const std::int32_t output : work_.ops[k].outputs) made += count(output);
      freeing.add_made(made, work_.ops[k].seconds, work_.ops[k].again);
    }
    // Where there is nothing to copy, nothing waits for it.
    if (live.head == kNever) live.head = 0;
    if (live.tail == kNever) live.tail = 0;
    return live;
  }

  const Work& work_;
  const BoundDevice& device_;
  double all_ = 0;
  Table<double> head_, tail_;   // by op: the longest path that ends, and that begins, with it
  Table<bool> before_, after_;  // by op: ancestors and descendants of the one looked at
};

// What is live during each op if they run in their order and nothing is moved.
Table<std::int64_t> bytes_in_order(const Work& work) {
  Table<std::int64_t> bytes(std::ssize(work.ops) + 1, 0);
  for (const Work::Value& value : work.values) {
    if (value.readers.empty()) continue;
    bytes[std::max(value.producer, 0)] += value.bytes;
    bytes[value.readers.back() + 1] -= value.bytes;
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  bytes.pop_back();
  for (std::int64_t k = 0; k < bytes.size(); ++k) bytes[k] += work.ops[k].workspace;
  return bytes;
}

std::vector<std::int32_t> ops_to_look_at(const Work& work, std::int64_t memory) {
  const Table<std::int64_t> bytes = bytes_in_order(work);
  Table<std::int32_t> fullest;
  for (std::int32_t k = 0; k < bytes.size(); ++k)
    if (bytes[k] > memory) fullest.push_back(k);
  std::vector<std::int32_t> chosen;
  for (std::int64_t k = 0; k < kSpread && k < fullest.size(); ++k)
    chosen.push_back(fullest[k * fullest.size() / std::min(kSpread, fullest.size())]);
  std::stable_sort(fullest.begin(), fullest.end(), [&](std::int32_t a, std::int32_t b) { return bytes[a] > bytes[b]; });
  fullest.resize(std::min(fullest.size(), kFullest));
  chosen.insert(chosen.end(), fullest.begin(), fullest.end());
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

// The ops that an output of the graph or an update needs, by op.
IdVector<OpId, bool> needed_ops(const Graph& graph) {
  IdVector<OpId, bool> needed(graph.op_count(), false);
  for (std::int64_t k = graph.op_count(); k-- > 0;) {
    const Op& op = graph.op(OpId(k));
    const auto wanted = [&](ValueId output) {
      const Value& value = graph.value(output);
      return graph.is_output(output) || value.version_of ||
             std::any_of(value.consumers.begin(), value.consumers.end(), [&](OpId reader) { return needed[reader]; });
    };
    needed[OpId(k)] = std::any_of(op.outputs.begin(), op.outputs.end(), wanted);
  }
  return needed;
}

}  // namespace

Work work_of(const PlanRequest& request) {
  const Graph& graph = request.graph;
  const OpCosts costs = costs_of(request);
  const IdVector<OpId, bool> needed = needed_ops(graph);
  const auto updates = [&](OpId id) { return graph.op(id).phase == Phase::update; };
  const bool one_processor = request.profile.device.is_host();
  Work work;
  IdVector<OpId, std::int32_t> op_index(graph.op_count(), -1);
  for (std::int64_t k = 0; k < graph.op_count(); ++k) {
    if (!needed[OpId(k)]) continue;
    op_index[OpId(k)] = static_cast<std::int32_t>(work.ops.size());
    Work::Op& op = work.ops.emplace_back();
    op.again = !updates(OpId(k));
    if (op.again || one_processor) op.seconds = costs.seconds[OpId(k)];
    if (op.again) op.workspace = costs.workspace[OpId(k)];
  }
  IdVector<ValueId, std::int32_t> value_index(graph.value_count(), -1);
  for (std::int64_t v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(ValueId(v));
    if (value.producer && (!needed[value.producer] || updates(value.producer))) continue;
    Work::Value made{.bytes = align_up(stored_bytes(request.storage, value.type, value.type.shape), kAlignment),
                     .producer = value.producer ? op_index[value.producer] : -1,
                     .readers = {},
                     .persistent = value.persistent()};
    if (made.persistent) work.persistent += made.bytes;
    const auto index = static_cast<std::int32_t>(work.values.size());
    value_index[ValueId(v)] = index;
    for (OpId reader : value.consumers) {
      if (!needed[reader] || updates(reader)) continue;
      made.readers.push_back(op_index[reader]);
      work.ops[made.readers.back()].inputs.push_back(index);
    }
    if (made.producer >= 0) work.ops[made.producer].outputs.push_back(index);
    work.values.push_back(std::move(made));
  }
  for (std::int64_t k = 0; k < graph.op_count(); ++k) {
    if (!needed[OpId(k)] || updates(OpId(k))) continue;
    const Op& op = graph.op(OpId(k));
    // All that any plan could do: which of them one does depends on what it holds.
    for (const InPlacePair& pair : op.def->in_place({graph, op})) {
      const std::int32_t output = value_index[op.outputs[pair.output]];
      const std::int32_t input = value_index[op.inputs[pair.input]];
      if (output >= 0 && input >= 0 && work.values[output].bytes == work.values[input].bytes)
        work.ops[op_index[OpId(k)]].overwrites.push_back({output, input});
    }
  }
  return work;
}

double lower_bound_seconds(const Work& work, const BoundDevice& device) {
  Bound bound(work, device);
  double best = bound.all_ops();
  if (device.memory == 0) return best;
  for (const std::int32_t op : ops_to_look_at(work, device.memory)) best = std::max(best, bound.around(op));
  return best;
}

}  // namespace outsize
