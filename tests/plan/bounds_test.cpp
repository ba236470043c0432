#include "plan/reckon/bounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "small_chain.h"

namespace outsize {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

std::int32_t add_value(Work& work, std::int64_t bytes, std::int32_t producer = -1) {
  const auto index = static_cast<std::int32_t>(work.values.size());
  work.values.push_back({bytes, producer, {}});
  if (producer >= 0) work.ops[at(producer)].outputs.push_back(index);
  return index;
}

std::int32_t add_op(Work& work, double seconds, const std::set<std::int32_t>& inputs, std::int64_t workspace = 0) {
  const auto index = static_cast<std::int32_t>(work.ops.size());
  work.ops.push_back({seconds, workspace, {inputs.begin(), inputs.end()}, {}});
  for (const std::int32_t input : inputs) work.values[at(input)].readers.push_back(index);
  return index;
}

// The two layers of chain_test.cpp: 10 bytes of x_0 are live across B_1, which needs 62 of its own and takes 4 s. Before it there
// are 3 s of ops and 1 s for what makes x_0, after it 3 s.
Work two_layers(bool x0_is_made) {
  Work work;
  const std::int32_t x0 = x0_is_made ? add_value(work, 10, add_op(work, 1, {})) : add_value(work, 10);
  const std::int32_t x1 = add_value(work, 20, add_op(work, 1, {x0}, 5));
  const std::int32_t x2 = add_value(work, 30, add_op(work, 2, {x1}));
  const std::int32_t y1 = add_value(work, 2, add_op(work, 4, {x1, x2}, 10));  // y_2 is in its workspace
  add_value(work, 1, add_op(work, 3, {x0, x1, y1}));
  return work;
}

TEST(Bounds, is_the_time_of_all_ops_where_they_fit) {
  EXPECT_DOUBLE_EQ(lower_bound_seconds(two_layers(false), {72, 1, 1}), 10);
  EXPECT_DOUBLE_EQ(lower_bound_seconds(two_layers(true), {0, 1, 1}), 11);
}

TEST(Bounds, looks_at_both_sides_of_an_op) {
  Work work = two_layers(true);
  for (Work::Op& op : work.ops) op.again = false;
  // x_0 is made after 1 s, and the 3 s of B_0 wait for it.
  EXPECT_DOUBLE_EQ(lower_bound_seconds(work, {62, 1, 1}), 28);    // 1, 10 out, 4, 10 in, 3: the best schedule
  EXPECT_DOUBLE_EQ(lower_bound_seconds(work, {62, 1, 2}), 23);    // 1, 10 out, 4, 5 in, 3
  EXPECT_DOUBLE_EQ(lower_bound_seconds(work, {62, 10, 2}), 16);   // 1 out behind 4 s of ops, 4, 5 in, 3
  EXPECT_DOUBLE_EQ(lower_bound_seconds(work, {67, 1, 1}), 18);    // 1, 5 out, 4, 5 in, 3
  EXPECT_DOUBLE_EQ(lower_bound_seconds(work, {62, 10, 10}), 12);  // 4 s of ops, 4, 1 in, 3
}

TEST(Bounds, what_has_a_copy_below_need_not_leave) {
  EXPECT_DOUBLE_EQ(lower_bound_seconds(two_layers(false), {62, 1, 1}), 20);  // 3 s of ops, 4, 10 in, 3
}

TEST(Bounds, takes_the_cheaper_of_copying_and_making_again) {
  // x_0 again takes 1 s: 12 s. A part r of it is made again and the rest copied: max(4, 1 + 10(1−r)) + 4 + 3 + max(r, 10(1−r)) is
  // least at r = 10/11.
  EXPECT_NEAR(lower_bound_seconds(two_layers(true), {62, 1, 1}), 11 + 10.0 / 11, 1e-3);
  // Copied, it takes 1000 s a byte.
  EXPECT_NEAR(lower_bound_seconds(two_layers(true), {62, 1e-3, 1e-3}), 12, 1e-3);
}

TEST(Bounds, an_output_may_take_the_place_of_an_input) {
  // 8 bytes in, 8 out, and 8 bytes of memory.
  for (const bool read_later : {false, true}) {
    Work work;
    const std::int32_t in = add_value(work, 8, add_op(work, 1, {}));
    const std::int32_t op = add_op(work, 1, {in});
    const std::int32_t out = add_value(work, 8, op);
    work.ops[at(op)].overwrites.push_back({out, in});
    const std::int32_t next = add_value(work, 0, add_op(work, 1, {out}));
    if (read_later) add_op(work, 1, {in, next});
    for (Work::Op& each : work.ops) each.again = false;
    // Read later, the input leaves before it is overwritten and comes back after: 16 s of copies on both sides of 1 s, after the 1
    // s that makes it and before the 1 s that reads it.
    EXPECT_DOUBLE_EQ(lower_bound_seconds(work, {8, 0.5, 0.5}), read_later ? 1 + 16 + 1 + 16 + 1 : 3);
  }
}

// The least time in units by search over all that may be done at each unit of time: ops run, again or for the first time, whole
// values are copied out and in, and dropped. Written from what a plan may do; shares nothing with what it tests.
class WorkSearch {
 public:
  WorkSearch(const Work& work, int memory, int units_a_byte, bool full_duplex)
      : work_(work), memory_(memory), units_a_byte_(units_a_byte), full_duplex_(full_duplex) {}

  // nullopt: nothing fits.
  std::optional<int> least() {
    unsigned given = 0;
    int all = 0;
    for (std::size_t v = 0; v < work_.values.size(); ++v)
      if (work_.values[v].producer < 0) given |= 1u << v;
    for (const Work::Op& op : work_.ops) all += static_cast<int>(op.seconds);
    for (unsigned here = given;; here = (here - 1) & given) {
      State state;
      state.here = here;
      state.below = given;
      reach(state, 0, all);
      if (here == 0) break;
    }
    // By time and what is left of the ops together, which never falls.
    for (int total = all; !open_.empty(); ++total) {
      auto& states = open_[total];
      for (std::size_t n = 0; n < states.size(); ++n) {
        const auto [state, left] = states[n];
        if (best_[state] < total - left) continue;
        if (left == 0) return total;
        visit(state, total - left, left);
      }
      open_.erase(total);
    }
    return std::nullopt;
  }

 private:
  static constexpr int kNone = -1;

  struct State {
    unsigned here = 0, below = 0, done = 0;  // values on the device; with a copy in a lower tier; ops that have run
    int op = kNone, op_left = 0;             // what runs, and for how long
    int out = kNone, out_left = 0, in = kNone, in_left = 0;
    auto operator<=>(const State&) const = default;
  };

  static bool has(unsigned set, int i) { return (set >> i & 1) != 0; }
  static unsigned bit(int i) { return 1u << i; }
  int bytes(int value) const { return static_cast<int>(work_.values[at(value)].bytes); }
  int values() const { return static_cast<int>(work_.values.size()); }

  int used(const State& state) const {
    int sum = state.in == kNone ? 0 : bytes(state.in);
    for (int v = 0; v < values(); ++v) sum += has(state.here, v) ? bytes(v) : 0;
    if (state.op != kNone) {
      sum += static_cast<int>(work_.ops[at(state.op)].workspace);
      for (const std::int32_t output : work_.ops[at(state.op)].outputs) sum += bytes(output);
    }
    return sum;
  }

  void reach(const State& state, int time, int left) {
    if (used(state) > memory_) return;
    const auto [found, is_new] = best_.emplace(state, time);
    if (!is_new && found->second <= time) return;
    found->second = time;
    open_[time + left].emplace_back(state, left);
  }

  void visit(const State& state, int time, int left) {
    const bool link_free = full_duplex_ || (state.out == kNone && state.in == kNone);
    for (int v = 0; v < values() && link_free; ++v) {
      State next = state;
      if (state.out == kNone && has(state.here, v) && !has(state.below, v)) {
        next.out = v;
        next.out_left = bytes(v) * units_a_byte_;
        reach(next, time, left);
      } else if (state.in == kNone && has(state.below, v) && !has(state.here, v)) {
        next.in = v;
        next.in_left = bytes(v) * units_a_byte_;
        reach_with_room(next, 0, time, left);
      }
    }
    if (state.op == kNone)
      for (int k = 0; k < static_cast<int>(work_.ops.size()); ++k) begin(state, k, time, left);
    if (state.op != kNone || state.out != kNone || state.in != kNone) pass(state, time, left);
  }

  // A unit of time.
  void pass(State state, int time, int left) {
    if (state.op != kNone) {
      if (!has(state.done, state.op)) --left;
      if (--state.op_left == 0) {
        for (const std::int32_t output : work_.ops[at(state.op)].outputs) state.here |= bit(output);
        state.done |= bit(state.op);
        state.op = kNone;
      }
    }
    if (state.out != kNone && --state.out_left <= 0) {
      state.below |= bit(state.out);
      state.out = kNone;
    }
    if (state.in != kNone && --state.in_left <= 0) {
      state.here |= bit(state.in);
      state.in = kNone;
    }
    reach(state, time + 1, left);
  }

  void begin(const State& state, int k, int time, int left) {
    const Work::Op& op = work_.ops[at(k)];
    if (has(state.done, k) && !op.again) return;
    for (const std::int32_t input : op.inputs)
      if (!has(state.here, input)) return;
    for (const std::int32_t output : op.outputs)
      if (has(state.here, output) || state.in == output) return;
    State next = state;
    next.op = k;
    next.op_left = static_cast<int>(op.seconds);
    reach_with_room(next, 0, time, left);
    for (const Work::Op::Overwrite& pair : op.overwrites) {
      if (state.out == pair.input) continue;
      State taken = next;
      taken.here &= ~bit(pair.input);
      reach_with_room(taken, 0, time, left);
    }
  }

  // Nothing need be dropped before its room is wanted: all ways to drop just enough of the values from `first` on.
  void reach_with_room(const State& state, int first, int time, int left) {
    if (used(state) <= memory_) {
      reach(state, time, left);
      return;
    }
    for (int v = first; v < values(); ++v) {
      if (!has(state.here, v) || state.out == v || reads(state.op, v)) continue;
      State next = state;
      next.here &= ~bit(v);
      reach_with_room(next, v + 1, time, left);
    }
  }

  bool reads(int op, int value) const {
    if (op == kNone) return false;
    const std::vector<std::int32_t>& inputs = work_.ops[at(op)].inputs;
    return std::find(inputs.begin(), inputs.end(), value) != inputs.end();
  }

  const Work& work_;
  int memory_, units_a_byte_;
  bool full_duplex_;
  std::map<State, int> best_;
  std::map<int, std::vector<std::pair<State, int>>> open_;
};

// Forward ops, some of which read an earlier result too, and a backward op for each, in reverse.
Work random_training(Random& random, int layers, int most_bytes) {
  Work work;
  const bool again = random.between(0, 1) == 1;
  const auto seconds = [&] { return static_cast<double>(random.between(1, 3)); };
  const auto workspace = [&] { return random.between(0, 1) * random.between(0, 2); };
  std::vector<std::int32_t> x{add_value(work, random.between(0, most_bytes))};
  std::vector<std::set<std::int32_t>> read;
  for (int i = 0; i < layers; ++i) {
    std::set<std::int32_t> inputs{x.back()};
    if (random.between(0, 3) == 0) inputs.insert(x[at(random.between(0, i))]);
    if (random.between(0, 2) == 0) inputs.insert(add_value(work, random.between(1, most_bytes)));  // a weight
    read.push_back(inputs);
    const std::int32_t op = add_op(work, seconds(), inputs, workspace());
    x.push_back(add_value(work, random.between(1, most_bytes), op));
  }
  std::int32_t gradient = -1;
  for (int i = layers; i-- > 0;) {
    std::set<std::int32_t> inputs = read[at(i)];
    if (random.between(0, 1) == 0 || gradient < 0) inputs.insert(x[at(i + 1)]);
    if (gradient >= 0) inputs.insert(gradient);
    const std::int32_t op = add_op(work, seconds(), inputs, workspace());
    const std::int32_t before = gradient;
    gradient = add_value(work, random.between(1, most_bytes), op);
    if (before >= 0 && work.values[at(before)].bytes == work.values[at(gradient)].bytes && random.between(0, 1) == 0)
      work.ops[at(op)].overwrites.push_back({gradient, before});
  }
  // In place in forward.
  for (int i = 0; i < layers; ++i)
    if (work.values[at(x[at(i)])].bytes == work.values[at(x[at(i + 1)])].bytes && random.between(0, 2) == 0)
      work.ops[at(i)].overwrites.push_back({x[at(i + 1)], x[at(i)]});
  for (Work::Op& op : work.ops) op.again = again;
  return work;
}

TEST(Bounds, are_never_above_the_best_schedule) {
  Random random(41);
  int fitting = 0, longer = 0, above_the_ops = 0, met = 0;
  for (int n = 0; n < 800; ++n) {
    const Work work = random_training(random, n % 200 == 0 ? 4 : 2 + n % 2, 1 + n / 2 % 3);
    int all = 0, whole = 0, least = 1;
    for (const Work::Op& op : work.ops) {
      all += static_cast<int>(op.seconds);
      std::int64_t own = op.workspace;
      for (const std::int32_t input : op.inputs) own += work.values[at(input)].bytes;
      for (const std::int32_t output : op.outputs) own += work.values[at(output)].bytes;
      least = std::max(least, static_cast<int>(own));
    }
    for (const Work::Value& value : work.values) whole += static_cast<int>(value.bytes);
    const int memory = random.between(least, std::max(least, least + (whole - least) / 2));
    const int units_a_byte = random.between(1, 3);
    const bool full_duplex = random.between(0, 1) == 1;
    SCOPED_TRACE(testing::Message() << "work " << n << ", memory " << memory << " of " << whole);
    const std::optional<int> best = WorkSearch(work, memory, units_a_byte, full_duplex).least();
    if (!best) continue;
    ++fitting;
    const double bound = lower_bound_seconds(work, {memory, 1.0 / units_a_byte, 1.0 / units_a_byte});
    ASSERT_LE(bound, *best + 1e-9);
    above_the_ops += bound > all + 1e-9;
    longer += *best > all;
    met += *best > all && std::ceil(bound - 1e-9) == *best;
  }
  EXPECT_GT(fitting, 500);
  EXPECT_GT(above_the_ops, 250);
  EXPECT_GT(met, 150);
  RecordProperty("above_the_ops", above_the_ops);
  RecordProperty("fitting", fitting);
  RecordProperty("longer", longer);
  RecordProperty("met", met);
}

}  // namespace
}  // namespace outsize
