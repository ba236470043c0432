#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/alignment.h"
#include "base/bytes.h"
#include "graph/opdef.h"
#include "plan/analysis/order.h"
#include "plan/planners/planners.h"
#include "plan/reckon/estimate.h"
#include "plan/swap/idle_link.h"
#include "plan/swap/recompute.h"
#include "plan/swap/spill.h"
#include "plan/tiling/micro_ops.h"

namespace outsize {

namespace {

constexpr PlannerOption kTsplitSplit{.name = "split",
                                     .kind = PlannerOption::Kind::word,
                                     .initial = "true",
                                     .help = "values may be split; false is what --no-split asks for",
                                     .words = "true|false"};
constexpr PlannerOption kTsplitPieces{
    .name = "pieces", .initial = "64", .help = "a value is split into 2, 4, 8 … pieces, so many at most (p_num)", .least = 2};

}  // namespace

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// What is decided of a value, beside the gaps between its uses in which it is away.
struct Config {
  enum class Option : std::uint8_t { reside, recompute, split } option = Option::reside;
  Pieces pieces;
};

// What may be done.
struct Rules {
  Again again = Again::held;
  bool leave_again = false;  // values that are made again may also leave, where they wait for other readers
  bool split = true;
};

// What the decisions so far come to.
struct Realised {
  SpillChoice choice;
  Lives lives;
  Table<std::int64_t> load;                                     // bytes during each run
  IdVector<ValueId, std::vector<std::int32_t>> lives_of_value;  // by value
  IdVector<OpId, std::vector<std::int32_t>> runs_of_op;         // by op
};

class Tsplit {
 public:
  // `limit`: bytes; 0: none.
  Tsplit(const PlanRequest& request, const Rules& rules, std::int64_t limit)
      : request_(request),
        graph_(request.graph),
        costs_(costs_of(request)),
        order_(depth_first_order(request.graph)),
        rules_(rules),
        limit_(limit),
        config_(graph_.value_count()),
        leaves_forward_(graph_.value_count()),
        walked_(graph_.op_count(), 0),
        micro_(request) {}

  // Decides until everything fits. Returns whether it does.
  bool decide() {
    while (realise()) {
      if (*std::max_element(now_.load.begin(), now_.load.end()) <= limit_) return true;
      if (!walk()) return false;
    }
    return false;
  }

  // Runs in pieces that follow each other become one where that is faster, or saves copies: what one makes and the next reads is
  // then handed on within a piece, and what nothing else reads never leaves the device.
  void join_runs() {
    if (now_.choice.splits.all.empty()) return;
    Realised joined;
    joined.choice.splits.streamed = now_.choice.splits.streamed;
    std::vector<OpId> open;     // ops that are one run so far
    std::vector<OpId> waiting;  // updates that follow the first of them
    SplitRun run;
    const auto close = [&] {
      if (!open.empty()) {
        for (OpId op : open)
          for (ValueId output : graph_.op(op).outputs)
            if (std::ranges::find(run.makes, output) == run.makes.end()) joined.choice.splits.streamed[output] = false;
        joined.choice.runs.push_back(open.back());
        joined.choice.splits.of_run.push_back(static_cast<std::int32_t>(joined.choice.splits.all.size()));
        joined.choice.splits.all.push_back(std::move(run));
      }
      for (OpId update : waiting) {
        joined.choice.runs.push_back(update);
        joined.choice.splits.of_run.push_back(Splits::kWhole);
      }
      open.clear();
      waiting.clear();
    };
    for (std::int64_t p = 0; p < now_.choice.runs.size(); ++p) {
      const OpId op = now_.choice.runs[p];
      const SplitRun* split = now_.choice.splits.at(p);
      if (split && joins(open, op)) {
        std::vector<OpId> longer = open;
        longer.push_back(op);
        SplitRun tried = micro_.run(longer, pieces_of(op), [&](ValueId value) { return leaves(longer, value); });
        constexpr double kAbout = 1.001;
        const double apart = run.seconds + split->seconds;
        if (tried.seconds < apart ||
            (tried.seconds < apart * kAbout && tried.copy_seconds < run.copy_seconds + split->copy_seconds)) {
          open = std::move(longer);
          run = std::move(tried);
          continue;
        }
      }
      if (!split && graph_.op(op).phase == Phase::update && !open.empty()) {
        waiting.push_back(op);
        continue;
      }
      close();
      if (split) {
        open = {op};
        run = *split;
      } else {
        waiting = {op};
        close();
      }
    }
    close();
    settle(joined);
    if (*std::max_element(joined.load.begin(), joined.load.end()) <= limit_) now_ = std::move(joined);
  }

  Planned<Plan> plan() {
    Table<SplitRun>& runs = now_.choice.splits.all;
    for (std::int64_t k = 0; k < runs.size(); ++k) runs[k].pass.name = fmt::format("split.{}", k);
    return spill_plan(request_, "tsplit", now_.lives, now_.choice);
  }
  bool splits() const { return !now_.choice.splits.all.empty(); }
  double seconds(const Plan& plan) const { return estimated_seconds(request_, now_.lives, plan, now_.choice.splits); }
  // Of what could not be made to fit.
  std::int64_t needed() const { return *std::max_element(now_.load.begin(), now_.load.end()); }
  OpId at_peak() const { return now_.choice.runs[std::max_element(now_.load.begin(), now_.load.end()) - now_.load.begin()]; }

 private:
  using Option = Config::Option;

  // A way to gain bytes at a run.
  struct Candidate {
    double seconds = kNever;
    std::int64_t bytes = 0;
    ValueId value;
    bool leaves = false;  // in the gap; else the config is the value's
    Swap gap;
    Config config;
    double ratio() const { return bytes > 0 ? seconds / static_cast<double>(bytes) : kNever; }
  };

  Config& config(ValueId value) { return config_[value]; }
  const Config& config(ValueId value) const { return config_[value]; }
  bool droppable(ValueId id) const {
    const Value& value = graph_.value(id);
    return value.producer && graph_.op(value.producer).phase == Phase::forward && !graph_.is_output(id);
  }

  // How many pieces an op runs in: the most that a value of it is split into.
  Pieces pieces_of(OpId id) const {
    Pieces most;
    for (const std::vector<ValueId>* values : {&graph_.op(id).inputs, &graph_.op(id).outputs})
      for (ValueId value : *values)
        if (config(value).option == Option::split && config(value).pieces.count > most.count) most = config(value).pieces;
    return most;
  }

  // Whether an op can go on in the pieces of others before it: along samples, reading nothing that is complete only after them.
  bool joins(const std::vector<OpId>& ops, OpId next) const {
    constexpr std::size_t kMost = 32;  // each that joins is reckoned with all before it
    if (ops.empty() || ops.size() == kMost || pieces_of(ops[0]) != pieces_of(next) || pieces_of(next).dim != 0) return false;
    if (std::ranges::find(ops, next) != ops.end()) return false;
    // What is made again is not what they have read.
    const auto reads = [&](OpId op, ValueId value) {
      return std::ranges::find(graph_.op(op).inputs, value) != graph_.op(op).inputs.end();
    };
    for (ValueId output : graph_.op(next).outputs)
      if (std::ranges::any_of(ops, [&](OpId op) { return reads(op, output); })) return false;
    return std::ranges::all_of(graph_.op(next).inputs, [&](ValueId input) {
      const OpId producer = graph_.value(input).producer;
      return std::ranges::find(ops, producer) == ops.end() || graph_.op(producer).def->can_gather({graph_, graph_.op(producer)});
    });
  }
  // Whether anything but these ops, as they run here, reads a value.
  bool leaves(const std::vector<OpId>& ops, ValueId value) const {
    return graph_.is_output(value) || std::ranges::any_of(graph_.value(value).consumers, [&](OpId reader) {
             return now_.runs_of_op[reader].size() > 1 || std::ranges::find(ops, reader) == ops.end();
           });
  }

  // Follows what is decided. False where results are made again so often that no such step is wanted.
  bool realise() {
    constexpr std::int64_t kMostRuns = 32;  // of an op, on average
    IdVector<ValueId, bool> dropped;
    for (const Config& config : config_) dropped.push_back(config.option == Option::recompute);
    Runs runs = with_recomputation(graph_, dropped, rules_.again, {}, order_, kMostRuns * graph_.op_count());
    if (runs.empty()) return false;
    now_ = {};
    SpillChoice& choice = now_.choice;
    choice.runs = std::move(runs);
    for (const Config& config : config_) choice.splits.streamed.push_back(config.option == Option::split);
    for (OpId op : choice.runs) {
      const Pieces pieces = pieces_of(op);
      choice.splits.of_run.push_back(pieces.split() ? static_cast<std::int32_t>(choice.splits.all.size()) : Splits::kWhole);
      if (pieces.split()) choice.splits.all.push_back(micro_.run({op}, pieces, [](ValueId) { return true; }));
    }
    settle(now_);
    return true;
  }

  // Follows the runs.
  void settle(Realised& made) const {
    made.lives = lives_of(request_, costs_, made.choice.runs, {}, made.choice.splits);
    made.lives_of_value.resize(config_.size());
    for (std::int32_t k = 0; k < made.lives.all.size(); ++k) {
      made.lives_of_value[made.lives.all[k].value].push_back(k);
      add_swaps(made, k);
    }
    made.runs_of_op.resize(graph_.op_count());
    for (std::int32_t p = 0; p < made.choice.runs.size(); ++p) made.runs_of_op[made.choice.runs[p]].push_back(p);
    made.load = tightest_bytes(request_, made.lives, made.choice);
  }

  static bool crosses(const Realised& made, std::int32_t after, std::int32_t before) {
    return after < made.lives.backward && before >= made.lives.backward;
  }
  // Whether it was decided that the value is away between two runs: the gap from forward to backward is told by the value alone,
  // for the first to read it there may be an op that is run again; others by the op that ends them.
  bool away(const Realised& made, ValueId value, std::int32_t after, std::int32_t before) const {
    if (crosses(made, after, before)) return leaves_forward_[value];
    return gaps_.contains({value, made.choice.runs[before]});
  }

  // The gaps of a life in which it is away.
  void add_swaps(Realised& made, std::int32_t index) const {
    const Life& life = made.lives.all[index];
    if (life.made < 0) return;
    std::int32_t after = life.made;
    for (const std::int32_t use : life.uses) {
      if (use - after >= 2 && away(made, life.value, after, use)) made.choice.swaps.push_back({index, after, use, Tier::host});
      after = use;
    }
  }

  // One pass of Algorithm 2 over the runs. Returns whether anything was decided.
  bool walk() {
    IdleLink link(request_.profile.device, now_.lives.seconds);
    for (std::int32_t p = 0; p < now_.load.size(); ++p)
      if (const SplitRun* split = now_.choice.splits.at(p)) link.occupy(p, split->copy_seconds);
    for (const Swap& swap : now_.choice.swaps) occupy(link, swap);
    Table<std::vector<std::int32_t>> begins(now_.load.size() + 1);
    for (std::int32_t k = 0; k < now_.lives.all.size(); ++k) begins[now_.lives.all[k].begin].push_back(k);
    std::vector<std::int32_t> live;
    bool any = false;
    for (std::int32_t run = 0; run < now_.load.size(); ++run) {
      std::erase_if(live, [&](std::int32_t k) { return now_.lives.all[k].end < run; });
      live.insert(live.end(), begins[run].begin(), begins[run].end());
      while (now_.load[run] > limit_) {
        Candidate best;
        link.add_up();
        for (const std::int32_t k : live)
          if (best.ratio() > 0) consider_waiting(link, run, k, best);
        if (rules_.split && best.ratio() > 0) consider_splits(link, run, best);
        if (best.ratio() == kNever) break;
        apply(link, run, best);
        any = true;
      }
    }
    return any;
  }

  double copy_seconds(std::int64_t bytes, double rate) const {
    return request_.profile.device.launch_seconds + static_cast<double>(bytes) / rate;
  }

  void occupy(IdleLink& link, const Swap& swap) const {
    const Life& life = now_.lives.all[swap.life];
    link.take_out(copy_seconds(life.bytes, request_.profile.device.link_out), life.made + 1, swap.before);
    link.take_in(copy_seconds(life.bytes, request_.profile.device.link_in), swap.after + 1, swap.before);
  }

  // Step 1: a value that is neither read nor made by the run, and waits through it.
  void consider_waiting(const IdleLink& link, std::int32_t run, std::int32_t index, Candidate& best) const {
    const Life& life = now_.lives.all[index];
    const Config& now = config(life.value);
    if (life.made < 0 || now.option == Option::split || (now.option == Option::recompute && !rules_.leave_again)) return;
    const auto next = std::upper_bound(life.uses.begin(), life.uses.end(), run);
    if (next == life.uses.end()) return;
    const std::int32_t after = next == life.uses.begin() ? life.made : *(next - 1), before = *next;
    if (after >= run || away(now_, life.value, after, before)) return;
    Candidate found{.bytes = life.bytes, .value = life.value, .gap = {index, after, before, Tier::host}};
    // Equation 3. It may come back as early as it finds room.
    const auto fits = [&](std::int32_t u) { return now_.load[u] + life.bytes <= limit_; };
    const double out = link.left_out(copy_seconds(life.bytes, request_.profile.device.link_out), life.made + 1, run);
    const double in = copy_seconds(life.bytes, request_.profile.device.link_in);
    found.seconds = out + link.least_left_in(in, run + 1, before);
    if (found.ratio() < best.ratio()) found.seconds = out + link.left_in(in, run + 1, before, fits);
    found.leaves = true;
    if (request_.has_lower_tier() && found.ratio() < best.ratio()) best = found;
    // Equation 4.
    if (now.option != Option::reside || leaves_forward_[life.value] || !crosses(now_, after, before) || !droppable(life.value))
      return;
    const double most = best.ratio() * static_cast<double>(life.bytes);
    found.seconds = made_again(life.value, before, most, nullptr);
    found.leaves = false;
    found.config.option = Option::recompute;
    if (found.ratio() < best.ratio()) best = found;
  }

  // The seconds that it takes to make the value again before a run: its own op's, and those of what that reads and is not there.
  // `also`: those values, put in. More than `most` need not be told exactly.
  double made_again(ValueId wanted, std::int32_t before, double most, std::vector<ValueId>* also) const {
    const auto there = [&](ValueId id) {
      const Value& value = graph_.value(id);
      if (!value.producer || value.version_of) return true;
      if (config(id).option != Option::reside || leaves_forward_[id]) return config(id).option != Option::recompute;
      return std::ranges::any_of(now_.lives_of_value[id], [&](std::int32_t k) {
        return now_.lives.all[k].made < before && now_.lives.all[k].end >= before;
      });
    };
    std::vector<ValueId> chain{wanted};
    ++walk_;
    double seconds = 0;
    for (std::int64_t k = 0; k < std::ssize(chain) && seconds <= most; ++k) {
      if (!droppable(chain[k])) return kNever;
      const OpId producer = graph_.value(chain[k]).producer;
      if (std::exchange(walked_[producer], walk_) == walk_) continue;
      const std::vector<std::int32_t>& runs = now_.runs_of_op[producer];
      seconds += now_.lives.seconds[runs.front()];
      for (ValueId input : graph_.op(producer).inputs)
        if (!there(input)) chain.push_back(input);
    }
    if (also) also->assign(chain.begin() + 1, chain.end());
    return seconds;
  }

  // Step 2: a value that the run reads or makes.
  void consider_splits(const IdleLink& link, std::int32_t run, Candidate& best) {
    const Op& op = graph_.op(now_.choice.runs[run]);
    const std::int64_t most = request_.options.integer(kTsplitPieces);
    constexpr std::array kDims{0, 1, 2};
    for (const std::vector<ValueId>* values : {&op.inputs, &op.outputs})
      for (ValueId value : *values)
        for (const int dim : kDims) {
          if (!can_split(value, dim)) continue;
          const std::int64_t extent = graph_.value(value).type.shape[dim];
          for (std::int64_t count = 2; count <= std::min(most, extent); count *= 2)
            consider_split(link, run, value, {dim, count}, best);
        }
  }

  // Whether all that touch the value can run in pieces of it.
  bool can_split(ValueId id, int dim) {
    const Value& value = graph_.value(id);
    if (value.persistent() || value.version_of || value.role == Role::statistic || graph_.is_output(id)) return false;
    if (value.type.shape.rank() <= dim || value.type.shape[dim] < 2) return false;
    if (value.producer && !micro_.can_cut(value.producer, dim)) return false;
    return std::ranges::all_of(value.consumers, [&](OpId reader) { return micro_.can_cut(reader, dim); });
  }

  // The more of the pieces that the op runs in now and these.
  Pieces with(OpId op, const Pieces& pieces) const {
    const Pieces now = pieces_of(op);
    return now.count >= pieces.count ? now : pieces;
  }
  // What the op costs as it runs now.
  PassCost cost_now(OpId op) {
    const Pieces now = pieces_of(op);
    if (now.split()) return micro_.cost(op, now);
    return {align_up(costs_.workspace[op], kAlignment), costs_.seconds[op], 0};
  }
  // What it costs when the value is split so.
  PassCost cost_with(OpId op, ValueId value, const Pieces& pieces) {
    const bool fresh = !micro_.streams(value);
    if (fresh) micro_.stream(value);
    const PassCost cost = micro_.cost(op, with(op, pieces));
    if (fresh) micro_.forget(value);
    return cost;
  }
  std::vector<OpId> touching(ValueId id) const {
    const Value& value = graph_.value(id);
    std::vector<OpId> ops = value.consumers;
    if (value.producer) ops.push_back(value.producer);
    return ops;
  }

  void consider_split(const IdleLink& link, std::int32_t run, ValueId value, const Pieces& pieces, Candidate& best) {
    const Config& now = config(value);
    if (now.option == Option::split && now.pieces.count >= pieces.count) return;
    const OpId op = now_.choice.runs[run];
    Candidate found{.value = value, .config = {Option::split, pieces}};
    found.bytes =
        (now.option == Option::split ? 0 : whole_bytes(run, value)) - (cost_with(op, value, pieces).bytes - cost_now(op).bytes);
    if (found.bytes <= 0) return;
    found.seconds = 0;
    for (OpId other : touching(value)) {
      const PassCost before = cost_now(other), after = cost_with(other, value, pieces);
      for (const std::int32_t p : now_.runs_of_op[other])  // its copies wait for those that others have there
        found.seconds += std::max(after.compute_seconds, after.copy_seconds() - before.copy_seconds() + link.busy(p)) -
                         std::max(before.compute_seconds, before.copy_seconds());
    }
    found.seconds = std::max(found.seconds, 0.0);
    if (found.ratio() < best.ratio()) best = found;
  }

  // What a run that touches the value has of it: nothing where it takes over the bytes of another, or another takes over its own.
  std::int64_t whole_bytes(std::int32_t run, ValueId value) const {
    for (const ValueId output : graph_.op(now_.choice.runs[run]).outputs)
      for (const std::int32_t k : now_.lives_of_value[output]) {
        const Life& life = now_.lives.all[k];
        if (life.made != run || life.takes_over < 0) continue;
        if (output == value || now_.lives.all[life.takes_over].value == value) return 0;
      }
    return packed_bytes(request_, value);
  }

  void apply(IdleLink& link, std::int32_t run, const Candidate& chosen) {
    const ValueId value = chosen.value;
    const auto add = [&](std::int32_t first, std::int32_t end, std::int64_t bytes) {
      for (std::int32_t p = first; p < end; ++p) now_.load[p] += bytes;
    };
    if (chosen.config.option == Option::split) {
      for (OpId op : touching(value)) {
        const PassCost before = cost_now(op), after = cost_with(op, value, chosen.config.pieces);
        for (const std::int32_t p : now_.runs_of_op[op]) {
          now_.load[p] += after.bytes - before.bytes;
          link.occupy(p, after.copy_seconds() - before.copy_seconds());
        }
      }
      if (config(value).option != Option::split) {
        for (const std::int32_t k : now_.lives_of_value[value]) {
          const Life& life = now_.lives.all[k];
          add(life.begin, life.end + 1, -life.bytes);
        }
        for (const Swap& swap : now_.choice.swaps)
          if (now_.lives.all[swap.life].value == value) add(swap.after + 1, swap.before, now_.lives.all[swap.life].bytes);
      }
      micro_.stream(value);
      config(value) = chosen.config;
      return;
    }
    if (!chosen.leaves) {
      std::vector<ValueId> also;
      made_again(value, chosen.gap.before, kNever, &also);
      // What is not there then would be held for it; it is made again instead.
      for (ValueId id : also) config(id).option = Option::recompute;
      config(value) = chosen.config;
    } else {
      if (crosses(now_, chosen.gap.after, chosen.gap.before))
        leaves_forward_[value] = true;
      else
        gaps_.insert({value, now_.choice.runs[chosen.gap.before]});
      occupy(link, chosen.gap);
      now_.choice.swaps.push_back(chosen.gap);
    }
    add(chosen.gap.after + 1, chosen.gap.before, -chosen.bytes);
    OUTSIZE_CHECK(chosen.gap.after < run && run < chosen.gap.before);
  }

  const PlanRequest& request_;
  const Graph& graph_;
  const OpCosts costs_;
  const std::vector<OpId> order_;
  const Rules rules_;
  const std::int64_t limit_;
  IdVector<ValueId, Config> config_;             // by value
  IdVector<ValueId, bool> leaves_forward_;       // by value: it is away between forward and backward
  std::set<std::pair<ValueId, OpId>> gaps_;      // and those that are before an op, where it is another
  mutable IdVector<OpId, std::int64_t> walked_;  // by op: the last walk of made_again() that met it
  mutable std::int64_t walk_ = 0;
  MicroOps micro_;
  Realised now_;
};

}  // namespace

Planned<Plan> plan_tsplit(const PlanRequest& request) {
  const std::int64_t limit = request.limited() ? limit_of(request) : kNoLimit;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  OpId peak;
  std::optional<Plan> best;
  std::optional<Refusal> no_tier;  // of plans that fit the device, where what must leave has nowhere to go
  double best_seconds = kNever;
  constexpr double kGood = 1.02;  // of what the ops take: no other rules could do much better
  const IdVector<OpId, double> seconds_of_ops = costs_of(request).seconds;
  const double whole = std::accumulate(seconds_of_ops.begin(), seconds_of_ops.end(), 0.0);
  // Takes the best of what it may do with results made again. Returns whether a search that may split has split anything.
  const auto consider = [&](bool split, std::int64_t gaps) {
    bool splits = false;
    for (const Again again : {Again::held, Again::remade})
      for (const bool leave : {false, true}) {
        Tsplit search(request, {again, leave, split}, std::max<std::int64_t>(1, limit - gaps));
        if (!search.decide()) {
          if (search.needed() < least) least = search.needed(), peak = search.at_peak();
          splits = split;
          continue;
        }
        splits = splits || search.splits();
        search.join_runs();
        Planned<Plan> plan = search.plan();
        if (!plan) {
          no_tier = plan.refusal();
        } else if (const double seconds = search.seconds(*plan); seconds < best_seconds) {
          best_seconds = seconds;
          best = *std::move(plan);
        }
        if (best_seconds < kGood * whole) return false;
      }
    return splits;
  };
  // Whole values may do as well: each decision is the best at its place alone. What packing asks for is left to it where it can be.
  for (const std::int64_t gaps : {request.gaps, std::int64_t{0}}) {
    // What is split waits outside the device, piece by piece.
    if (consider(request.options.flag(kTsplitSplit) && request.has_lower_tier(), gaps)) consider(false, gaps);
    if (best) return std::move(*best);
    if (request.gaps == 0) break;
  }
  if (no_tier) return *no_tier;
  return refusal_of(request, "tsplit", least, peak);
}

std::vector<PlannerOption> tsplit_options() { return {kTsplitSplit, kTsplitPieces}; }

}  // namespace outsize
