#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "base/text.h"
#include "graph/opdef.h"
#include "plan/analysis/levels.h"
#include "plan/analysis/order.h"
#include "plan/planners/planners.h"
#include "plan/reckon/estimate.h"
#include "plan/swap/spill.h"

namespace outsize {

namespace {

using Kind = PlannerOption::Kind;

constexpr PlannerOption kStartingScope{
    .name = "starting_scope",
    .kind = Kind::names,
    .initial = "",
    .help = "values that can be reached from ops in these scopes leave [from those reading inputs]"};
constexpr PlannerOption kStartingOps{
    .name = "starting_op_names", .kind = Kind::names, .initial = "", .help = "values that can be reached from these ops leave"};
constexpr PlannerOption kExclScopes{
    .name = "excl_scopes", .kind = Kind::names, .initial = "", .help = "what ops in these scopes make stays"};
constexpr PlannerOption kInclScopes{.name = "incl_scopes",
                                    .kind = Kind::names,
                                    .initial = "",
                                    .help = "only what ops in these scopes (or of incl_types) make leaves"};
constexpr PlannerOption kExclTypes{
    .name = "excl_types", .kind = Kind::names, .initial = "", .help = "what ops of these kinds (`outsize ops`) make stays"};
constexpr PlannerOption kInclTypes{.name = "incl_types",
                                   .kind = Kind::names,
                                   .initial = "",
                                   .help = "only what ops of these kinds (or in incl_scopes) make leaves"};
constexpr PlannerOption kTensors{.name = "n_tensors",
                                 .initial = "",
                                 .help = "values that leave, counted from the start; -1: all [the fewest that fit]",
                                 .least = -1};
constexpr PlannerOption kLower{
    .name = "lb", .initial = "", .help = "levels that a value comes back early, at least [the fastest]", .least = 1};
constexpr PlannerOption kUpper{
    .name = "ub", .initial = "10000", .help = "levels that a value comes back early, at most", .least = 1};
constexpr PlannerOption kStrategy{.name = "ctrld_strategy",
                                  .kind = Kind::word,
                                  .initial = "chain_rule",
                                  .help = "how the op is found after which a value starts to come back",
                                  .words = "chain_rule|direct_order"};
constexpr PlannerOption kFuse{.name = "fuse_swapins",
                              .kind = Kind::word,
                              .initial = "false",
                              .help = "a value comes back once for reads in backward that are close",
                              .words = "true|false"};
constexpr PlannerOption kFuseDistance{
    .name = "fuse_distance", .initial = "10", .help = "close: so many levels at most from the first of them (ours)"};
constexpr PlannerOption kBranches{.name = "swap_branches",
                                  .kind = Kind::word,
                                  .initial = "false",
                                  .help = "values also leave between two ops of forward",
                                  .words = "true|false"};
constexpr PlannerOption kBranchThreshold{
    .name = "branch_threshold", .initial = "0", .help = "… that are more levels apart than this"};

// The values of lb that are tried.
constexpr std::int64_t kLowerTried[]{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

bool in_scope(std::string_view name, std::string_view scope) {
  return name.starts_with(scope) && (name.size() == scope.size() || name[scope.size()] == '.' || name[scope.size()] == '/');
}

// Sets of ops by name, scope and kind, as options give them.
class OpSets {
 public:
  OpSets(const Graph& graph, const PlannerOptions& options)
      : graph_(graph),
        options_(options),
        trains_(std::ranges::any_of(graph.ops(), [](const Op& op) { return op.phase == Phase::backward; })) {}

  Table<bool> in_scopes(const PlannerOption& option) const {
    return matching(option, "scope", [](const Op& op, const std::string& scope) { return in_scope(op.name, scope); });
  }
  Table<bool> of_types(const PlannerOption& option) const {
    return matching(option, "kind", [](const Op& op, const std::string& kind) { return op.def->kind() == kind; });
  }
  Table<bool> named(const PlannerOption& option) const {
    return matching(option, "name", [](const Op& op, const std::string& name) { return op.name == name; });
  }

 private:
  template <class Match>
  Table<bool> matching(const PlannerOption& option, std::string_view what, Match match) const {
    Table<bool> set(graph_.op_count(), false);
    for (const std::string& name : options_.names(option)) {
      bool found = false;
      for (std::int64_t i = 0; i < graph_.op_count(); ++i) {
        if (!match(graph_.op(OpId(i)), name)) continue;
        found = true;
        set[i] = true;
      }
      // Evaluation lacks some of the ops of training.
      if (!found && trains_) user_error("planner tflms: {}: {} has no op of {} '{}'", option.name, graph_.name, what, name);
    }
    return set;
  }

  const Graph& graph_;
  const PlannerOptions& options_;
  bool trains_;
};

// One swap-in: for one read, or with fuse_swapins for several.
struct Arrival {
  std::vector<std::int32_t> runs;  // ascending
  OpId target;                     // the op that reads first
  bool branch = false;             // inside forward
};

// A value that leaves.
struct Tensor {
  std::int32_t life = 0;
  OpId source;
  std::int32_t held = 0;  // the last run that reads it over an edge that stays, or the one that makes it
  std::vector<Arrival> arrivals;
};

class Rewriter {
 public:
  explicit Rewriter(const PlanRequest& request)
      : request_(request),
        graph_(request.graph),
        runs_(eager_order(request.graph)),
        lives_(lives_of(request, costs_of(request), runs_)),
        levels_(request.graph),
        run_of_(request.graph.op_count(), 0),
        starts_(runs_.size() + 1, 0.0) {
    for (std::int32_t p = 0; p < runs_.size(); ++p) run_of_[runs_[p]] = p;
    std::partial_sum(lives_.seconds.begin(), lives_.seconds.end(), starts_.begin() + 1);
    find_tensors();
  }

  Planned<Plan> plan() const {
    const PlannerOptions& options = request_.options;
    const auto all = tensors_.size();
    std::vector<std::int64_t> lower(std::begin(kLowerTried), std::end(kLowerTried));
    const std::int64_t upper = options.integer(kUpper);
    if (options.has(kLower)) lower = {options.integer(kLower)};
    if (lower.front() > upper)
      user_error("planner tflms: lb={} is more than ub={}; a value cannot come back both so early and so late", lower.front(),
                 upper);
    std::erase_if(lower, [upper](std::int64_t lb) { return lb > upper; });
    std::optional<std::int64_t> count;
    if (options.has(kTensors)) count = options.integer(kTensors) < 0 ? all : std::min(options.integer(kTensors), all);
    if (!count && fits({runs_})) count = 0;
    if (count == 0) return plan_of({runs_});
    if (count && lower.size() == 1) return plan_of(choice(*count, returns(lower.front())));

    SpillChoice best;
    double best_seconds = 0;
    std::int64_t best_bytes = 0;
    bool found = false;
    for (std::int64_t lb : lower) {
      const Table<std::vector<std::int32_t>> in = returns(lb);
      SpillChoice tried = choice(count ? *count : fewest(in), in);
      const std::int64_t bytes = peak(tried);
      const bool fit = bytes <= limit_of(request_);
      // Of those that fit the fastest; while none does, the smallest.
      const Planned<Plan> plan = plan_of(tried);
      if (fit && !plan) return plan;  // what must leave has nowhere to go
      const double seconds = fit ? estimated_seconds(request_, lives_, *plan) : 0;
      const bool better = fit ? !found || seconds < best_seconds : !found && (best_bytes == 0 || bytes < best_bytes);
      if (!better) continue;
      best = std::move(tried);
      best_seconds = seconds;
      best_bytes = bytes;
      found = found || fit;
    }
    return plan_of(std::move(best));
  }

 private:
  bool backward(OpId op) const { return graph_.op(op).phase == Phase::backward; }
  bool forward(OpId op) const { return graph_.op(op).phase == Phase::forward; }

  // Breadth first from the start, the first of the graph's order first.
  Table<OpId> reachable() const {
    const OpSets sets(graph_, request_.options);
    const Table<bool> scope = sets.in_scopes(kStartingScope), named = sets.named(kStartingOps);
    const bool given = request_.options.has(kStartingScope) || request_.options.has(kStartingOps);
    Table<OpId> order;
    IdVector<OpId, bool> visited(graph_.op_count(), false);
    const auto visit = [&](OpId id) {
      if (!forward(id) || visited[id]) return;
      visited[id] = true;
      order.push_back(id);
    };
    for (std::int64_t i = 0; i < graph_.op_count(); ++i) {
      const Op& op = graph_.op(OpId(i));
      // Labels are inputs too, but lead only to the loss.
      const bool first = levels_.level(OpId(i)) == 1 &&
                         std::ranges::any_of(op.inputs, [&](ValueId input) { return graph_.value(input).role == Role::input; });
      if (given ? scope[i] || named[i] : first) visit(OpId(i));
    }
    for (std::int64_t k = 0; k < order.size(); ++k)
      for (OpId reader : levels_.readers(order[k])) visit(reader);
    return order;
  }

  void find_tensors() {
    const PlannerOptions& options = request_.options;
    const OpSets sets(graph_, options);
    const Table<bool> excl_scopes = sets.in_scopes(kExclScopes), excl_types = sets.of_types(kExclTypes);
    const Table<bool> incl_scopes = sets.in_scopes(kInclScopes), incl_types = sets.of_types(kInclTypes);
    const bool chosen = options.has(kInclScopes) || options.has(kInclTypes);
    IdVector<ValueId, std::int32_t> life_of(graph_.value_count(), -1);
    for (std::int32_t k = 0; k < lives_.all.size(); ++k) life_of[lives_.all[k].value] = k;
    for (OpId op : reachable()) {
      const std::int64_t i = op.index;
      if (excl_scopes[i] || excl_types[i] || (chosen && !incl_scopes[i] && !incl_types[i])) continue;
      for (ValueId value : graph_.op(op).outputs) {
        if (life_of[value] < 0 || graph_.is_output(value)) continue;
        Tensor tensor = tensor_of(op, life_of[value]);
        if (!tensor.arrivals.empty()) tensors_.push_back(std::move(tensor));
      }
    }
  }

  Tensor tensor_of(OpId source, std::int32_t index) const {
    const PlannerOptions& options = request_.options;
    const bool fuse = options.flag(kFuse), branches = options.flag(kBranches);
    const std::int64_t distance = options.integer(kFuseDistance), threshold = options.integer(kBranchThreshold);
    const Life& life = lives_.all[index];
    Tensor tensor{index, source, life.made, {}};
    for (std::int32_t run : life.uses) {
      const OpId target = runs_[run];
      const std::int64_t length = levels_.level(target) - levels_.level(source);
      const bool branch = branches && forward(target) && length > threshold;
      if (length < 2 || !(backward(target) || branch)) {
        tensor.held = std::max(tensor.held, run);
        continue;
      }
      const bool close = fuse && !branch && !tensor.arrivals.empty() && !tensor.arrivals.back().branch &&
                         std::abs(levels_.level(target) - levels_.level(tensor.arrivals.back().target)) <= distance;
      if (close)
        tensor.arrivals.back().runs.push_back(run);
      else
        tensor.arrivals.push_back({{run}, target, branch});
    }
    return tensor;
  }

  // The run before which each arrival of each value starts, for one lb.
  Table<std::vector<std::int32_t>> returns(std::int64_t lower) const {
    const std::int64_t upper = request_.options.integer(kUpper);
    const bool direct = request_.options.word(kStrategy) == "direct_order";
    Table<std::vector<std::int32_t>> in;
    for (const Tensor& tensor : tensors_) {
      in.emplace_back();
      for (const Arrival& arrival : tensor.arrivals) {
        const OpId control = direct || arrival.branch ? levels_.direct_order(tensor.source, arrival.target, lower, upper)
                                                      : levels_.chain_rule(tensor.source, arrival.target, lower, upper);
        in.back().push_back(control ? run_of_[control] + 1 : arrival.runs.front());
      }
    }
    return in;
  }

  // What the first `count` values do: they leave over the link one after the other, in the order they are made.
  SpillChoice choice(std::int64_t count, const Table<std::vector<std::int32_t>>& in) const {
    SpillChoice made{runs_};
    made.timed = true;
    Table<std::int64_t> order(count);
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return tensors_[a].life < tensors_[b].life; });
    const Device& device = request_.profile.device;
    double link = 0;
    for (std::int64_t k : order) {
      const Tensor& tensor = tensors_[k];
      const Life& life = lives_.all[tensor.life];
      const double left =
          std::max(link, starts_[life.made + 1]) + device.launch_seconds + static_cast<double>(life.bytes) / device.link_out;
      const auto next = std::lower_bound(starts_.begin() + life.made + 1, starts_.end(), left) - starts_.begin();
      const std::size_t swaps = made.swaps.size();
      add_gaps(tensor, in[k], std::max(tensor.held, static_cast<std::int32_t>(next) - 1), made.swaps);
      if (made.swaps.size() > swaps) link = left;
    }
    return made;
  }

  // The gaps between the stays of a value that is first there until after run `end`.
  void add_gaps(const Tensor& tensor, const std::vector<std::int32_t>& in, std::int32_t end, std::vector<Swap>& swaps) const {
    std::vector<std::pair<std::int32_t, std::int32_t>> stays;
    for (std::size_t k = 0; k < in.size(); ++k) stays.emplace_back(in[k], tensor.arrivals[k].runs.back());
    std::sort(stays.begin(), stays.end());
    for (const auto& [first, last] : stays) {
      if (first > end + 1) swaps.push_back({tensor.life, end, first, Tier::host});
      end = std::max(end, last);
    }
  }

  std::int64_t peak(const SpillChoice& tried) const {
    const Table<std::int64_t> bytes = tightest_bytes(request_, lives_, tried);
    return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
  }
  bool fits(const SpillChoice& tried) const { return peak(tried) <= limit_of(request_); }

  std::int64_t fewest(const Table<std::vector<std::int32_t>>& in) const {
    std::int64_t low = 0, high = tensors_.size();
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (fits(choice(middle, in)))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }

  Planned<Plan> plan_of(SpillChoice chosen) const { return spill_plan(request_, "tflms", lives_, std::move(chosen)); }

  const PlanRequest& request_;
  const Graph& graph_;
  Runs runs_;
  Lives lives_;
  LeveledGraph levels_;
  IdVector<OpId, std::int32_t> run_of_;  // by op
  Table<double> starts_;                 // of each run, if none ever waited
  Table<Tensor> tensors_;                // breadth first
};

}  // namespace

std::vector<PlannerOption> tflms_options() {
  return {kStartingScope, kStartingOps, kExclScopes, kInclScopes, kExclTypes,    kInclTypes, kTensors,
          kLower,         kUpper,       kStrategy,   kFuse,       kFuseDistance, kBranches,  kBranchThreshold};
}

Planned<Plan> plan_tflms(const PlanRequest& request) { return Rewriter(request).plan(); }

}  // namespace outsize
