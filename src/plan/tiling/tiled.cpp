#include "plan/tiling/tiled.h"

#include <algorithm>
#include <numeric>

#include "graph/opdef.h"
#include "ops/window.h"
#include "plan/reckon/lives.h"
#include "plan/tiling/weights.h"

namespace outsize {

namespace {

constexpr double kNever = 1e300;

// An input that would take much host memory is better read again wherever it is needed.
bool comes_from_data(const PlanRequest& request, ValueId id) {
  constexpr std::int64_t kMuch = 64 << 20, kParts = 8;  // of the budget
  const Value& value = request.graph.value(id);
  const std::int64_t much = request.budgets.host == kNoLimit ? kMuch : request.budgets.host / kParts;
  return request.windows && value.role == Role::input && stored_bytes(request.storage, value.type, value.type.shape) > much;
}

// Tries the tiles of one pass.
class PassFitter {
 public:
  explicit PassFitter(PassTrial& trial) : trial_(trial), shape_(trial.driver().shape) {}

  bool fit() {
    Dims extents = shape_;
    if (trial_.fits(extents)) return true;
    unit_ = Dims::filled(shape_.rank(), 1);
    if (const int dim = trial_.weight_dim(); dim >= 0) {
      unit_[dim] = trial_.weight_unit();
      return fit_along(extents, dim);
    }
    extents[0] = 1;
    if (trial_.fits(extents)) {
      grow(extents, 0);
      return true;
    }
    if (cut_of(trial_.graph()) == Cut::samples) {
      const std::vector<OpId>& ops = trial_.pass().ops;
      return std::all_of(ops.begin(), ops.end(), [&](OpId op) { return can_tile(trial_.graph(), op, Cut::tokens); }) &&
             fit_along(extents, 1);
    }
    unit_ = units();
    split(extents);
    if (best_ == kNever) return false;
    return trial_.fits(best_extents_);
  }

 private:
  // As much as fits along one dimension, if one unit does.
  bool fit_along(Dims& extents, int dim) {
    extents[dim] = std::min(shape_[dim], unit_[dim]);
    if (!trial_.fits(extents)) return false;
    grow(extents, dim);
    return true;
  }

  // What tiles should be a multiple of: the rows of the driver that stand for one row of the pass's narrowest map, so that every
  // tile has as many rows of each value as the next.
  Dims units() const {
    const Graph& graph = trial_.graph();
    Dims unit = Dims::filled(shape_.rank(), 1);
    for (OpId id : trial_.pass().ops)
      for (const std::vector<ValueId>* list : {&graph.op(id).inputs, &graph.op(id).outputs})
        for (ValueId value : *list) {
          const ValueType& type = graph.value(value).type;
          if (!is_map(type.format) || type.shape.rank() != shape_.rank() || graph.value(value).persistent()) continue;
          for (int dim = 2; dim < shape_.rank(); ++dim)
            if (type.shape[dim] > 1) unit[dim] = std::max(unit[dim], (shape_[dim] + type.shape[dim] - 1) / type.shape[dim]);
        }
    return unit;
  }

  // The largest extent along `dim` that fits, at least one unit, evened out over the tiles.
  void grow(Dims& extents, int dim) {
    const std::int64_t extent = shape_[dim], unit = unit_[dim];
    const std::int64_t units = (extent + unit - 1) / unit;
    const auto most = [&](std::int64_t below, auto fits) {
      std::int64_t found = 1;
      while (found + 1 < below) {
        const std::int64_t middle = found + (below - found) / 2;
        extents[dim] = std::min(extent, middle * unit);
        (fits(extents) ? found : below) = middle;
      }
      return found;
    };
    const auto take = [&](std::int64_t found) {
      const std::int64_t tiles = (units + found - 1) / found;
      for (const std::int64_t even : {(units + tiles - 1) / tiles, found}) {
        extents[dim] = std::min(extent, even * unit);
        if (trial_.fits(extents)) return true;
      }
      return false;
    };
    const std::int64_t inside = most(units + 1, [&](const Dims& tried) { return trial_.may_fit(tried); });
    if (!take(inside)) take(most(inside, [&](const Dims& tried) { return trial_.fits(tried); }));
  }

  // Parts of a sample: extents of units times powers of two, and of the last dimension the largest that fits.
  void split(const Dims& sample) {
    const int last = sample.rank() - 1;
    std::vector<Dims> leading{sample};
    for (int dim = 2; dim < last; ++dim) {
      std::vector<Dims> longer;
      for (Dims extents : leading)
        for (std::int64_t size = unit_[dim];; size *= 2) {
          extents[dim] = std::min(size, sample[dim]);
          longer.push_back(extents);
          if (size >= sample[dim]) break;
        }
      leading = std::move(longer);
    }
    for (Dims extents : leading) {
      extents[last] = sample[last];
      if (!trial_.fits(extents)) {
        extents[last] = std::min(sample[last], unit_[last]);
        if (!trial_.fits(extents)) {
          if (last == 3) break;  // longer ones fit no better
          continue;
        }
        grow(extents, last);
      }
      // Where the time is about the same, larger tiles are better: kernels have more to do at once.
      constexpr double kAbout = 1.02;
      const double seconds = trial_.seconds();
      if (seconds * kAbout < best_ || (seconds < best_ * kAbout && extents.product() > best_extents_.product())) {
        best_ = std::min(best_, seconds);
        best_extents_ = extents;
      }
    }
  }

  PassTrial& trial_;
  const Dims& shape_;  // of the driver
  Dims unit_;
  double best_ = kNever;
  Dims best_extents_;
};

// The cut with the workspace that the backend says its tiles need: that of the tiles found last stands for smaller ones too. Where
// none are found with what is reckoned at first, in proportion to the whole, or with what larger tiles need, the last that were
// tried say what it is, and may do themselves.
bool cut_exactly(const PlanRequest& request, const CutPass& cut, PassTrial& trial) {
  constexpr int kTries = 4;
  for (int k = 0; k < kTries; ++k) {
    const bool found = cut(trial);
    if (!request.limited() || !request.workspace) return found;
    if (!found && trial.fitted()) return false;  // they are refused for something else than their bytes
    trial.learn_workspace();
    const bool fits = trial.fits(Dims(trial.extents()));
    if (fits ? found || k > 0 : !found) return fits;
  }
  return false;
}

// Whether a streamed value may be on disk: what is summed over tiles is added to in memory. Weights are read in every step, so that
// they go there only where there is nothing else.
bool may_spill(const PlanRequest& request, ValueId id) {
  const Graph& graph = request.graph;
  const Value& value = graph.value(id);
  if (value.persistent()) return request.budgets.host == 0;
  if (value.role == Role::activation) return true;
  return value.role == Role::gradient && value.producer &&
         graph.op(value.producer).def->can_gather({graph, graph.op(value.producer)});
}

// Moves values between passes from host memory to disk, the longest-lived first, until the host's budget is kept. Returns whether
// it is. With passes that are not cut yet, results are taken to take over bytes wherever they may.
bool fit_host(const PlanRequest& request, Plan& plan, std::int64_t& bytes) {
  const std::int64_t limit = host_limit(request);
  const std::vector<Takeover> takeovers = takeovers_of(request.graph, plan);
  const auto most = [&] {
    const std::vector<std::int64_t> by_step = resident_bytes(request, plan, Tier::host, takeovers);
    return by_step.empty() ? 0 : *std::max_element(by_step.begin(), by_step.end());
  };
  bytes = most();
  for (auto& [value, home] : plan.home) {  // ascending: what forward makes first is read last
    if (bytes <= limit) return true;
    if (request.budgets.disk == 0 || home != Tier::host || !may_spill(request, value)) continue;
    home = Tier::disk;
    bytes = most();
  }
  return bytes <= limit;
}

}  // namespace

std::vector<ValueId> weights_from(const PlanRequest& request, const Plan& plan, std::int64_t bytes) {
  if (bytes == TiledChoice::kNoWeights && request.homes.empty()) return {};
  std::vector<ValueId> weights = splittable_weights(request.graph, plan);
  std::erase_if(weights, [&](ValueId weight) {
    const auto home = request.homes.find(request.graph.value(weight).name);
    return home != request.homes.end() ? home->second == Tier::device : bytes_with_states(request.graph, weight) < bytes;
  });
  return weights;
}

double hardly_wanted_seconds(const PlanRequest& request) {
  constexpr double kTimes = 4;
  constexpr std::int64_t kLarge = 4096;  // ops: of smaller graphs no tiling takes long
  if (request.graph.op_count() < kLarge) return std::numeric_limits<double>::infinity();
  const IdVector<OpId, double> seconds = costs_of(request).seconds;
  return kTimes * std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

std::int64_t host_limit(const PlanRequest& request) {
  if (request.budgets.host < kNoLimit) return request.budgets.host;
  const std::int64_t own = request.profile.device.host_bytes;
  return own > 0 ? own : kNoLimit;
}

bool PassTrial::fits(const Dims& extents) {
  extents_ = extents;
  std::optional<PassCost>& known = memory_.at(kind_, learned_, extents).cost;
  if (!known) known = cost_of_pass(request_, plan_, lines(), extents, workspace());
  cost_ = *known;
  least_ = std::min(least_, cost_.bytes);
  fitted_ = are_enough(extents) && cost_.bytes <= limit_;
  return fitted_;
}

// With fewer, what the first loads and the last stores, beside nothing, is too much of all.
bool PassTrial::are_enough(const Dims& extents) const {
  constexpr std::int64_t kEnough = 4;
  std::int64_t tiles = 1;
  for (int dim = 0; dim < extents.rank(); ++dim) tiles *= ceil_div(driver().shape[dim], extents[dim]);
  return !pass().ahead || tiles >= kEnough;
}

bool PassTrial::may_fit(const Dims& extents) {
  if (!are_enough(extents)) return false;
  std::optional<std::int64_t>& known = memory_.at(kind_, learned_, extents).typical_bytes;
  if (!known) known = typical_bytes(request_, plan_, lines(), extents, workspace());
  return *known <= limit_;
}

TileLines& PassTrial::lines() {
  if (!lines_) lines_.emplace(std::make_shared<const PassRoles>(graph(), pass_, read_later_));
  return *lines_;
}

const std::vector<std::int64_t>* PassTrial::workspace() {
  if (learned_.rank() == 0) return nullptr;
  if (workspace_.empty()) workspace_ = workspace_of_pass(request_, lines(), learned_);
  return &workspace_;
}

int PassTrial::weight_dim() const { return outsize::weight_dim(graph(), plan_, pass()); }

std::int64_t PassTrial::weight_unit() const {
  const auto is_map = [&](ValueId value) { return graph().value(value).type.format == Format::map; };
  for (const OpId op : pass_.ops)
    for (const std::vector<ValueId>* list : {&graph().op(op).inputs, &graph().op(op).outputs})
      if (std::ranges::any_of(*list, is_map)) return request_.storage.channel_block;
  return 1;
}

bool cut_to_fastest(PassTrial& trial) { return PassFitter(trial).fit(); }

namespace {

// Whether each token of `value`, which the op makes or reduces, stands by itself: nothing is read of other tokens.
bool takes_tokens_apart(const OpSite& site, ValueId value, bool gathers) {
  constexpr int kTokens = 1;
  const ValueType& type = site.graph.value(value).type;
  const auto has_tokens = [](const ValueType& other) { return other.format == Format::plain && other.shape.rank() == 3; };
  if (!has_tokens(type) || type.shape[kTokens] == 1 || site.graph.value(value).role == Role::statistic) return false;
  Box box = Box::whole(type.shape);
  box.set(kTokens, {0, 1});
  const CallBoxes boxes = gathers ? site.op.def->gather(site, box) : site.op.def->push(site, box);
  const auto is_apart = [&](const ValueType& other, const Box& part) {
    return !has_tokens(other) || other.shape[0] != type.shape[0] || other.shape[kTokens] != type.shape[kTokens] ||
           part[kTokens] == box[kTokens];
  };
  for (int i = 0; i < site.inputs(); ++i)
    if (!is_apart(site.in(i), boxes.in[i])) return false;
  for (int i = 0; i < (gathers ? site.outputs() : 0); ++i)
    if (!is_apart(site.out(i), boxes.out[i])) return false;
  return true;
}

}  // namespace

bool can_tile(const Graph& graph, OpId id, Cut cut) {
  const Op& op = graph.op(id);
  const OpSite site{graph, op};
  if (op.inputs.empty() || !op.updates.empty()) return false;
  const bool gathers = op.def->can_gather(site);
  const ValueId value = gathers ? op.outputs[0] : op.inputs[op.def->push_driver(site)];
  const ValueType& type = graph.value(value).type;
  const ValueId of = graph.value(value).gradient_of;
  if (graph.value(value).persistent() || (of && graph.value(of).persistent())) return false;
  if (cut == Cut::space && !is_map(type.format)) return false;
  // Parts of a split along rows are cut differently by one tile.
  for (int o = 1; gathers && cut == Cut::space && o < site.outputs(); ++o)
    for (int dim = 0; dim < type.shape.rank(); ++dim)
      if (dim != 1 && site.out(o).shape.rank() == type.shape.rank() && site.out(o).shape[dim] != type.shape[dim]) return false;
  if (cut == Cut::samples && (type.shape.rank() < 2 || graph.value(value).role == Role::statistic)) return false;
  if (cut == Cut::tokens) return takes_tokens_apart(site, value, gathers);
  bool any = false;
  for (int dim = 0; dim < (cut == Cut::samples ? 1 : type.shape.rank()); ++dim) {
    if ((dim == 1 && is_map(type.format)) || type.shape[dim] == 1) continue;
    Box box = Box::whole(type.shape);
    box.set(dim, {0, 1});
    const CallBoxes boxes = gathers ? op.def->gather(site, box) : op.def->push(site, box);
    const Box& same = gathers ? boxes.out[0] : boxes.in[op.def->push_driver(site)];
    if (same != box) return false;
    any = any || dim >= 2 || cut == Cut::samples;
  }
  return any;
}

Cut cut_of(const Graph& graph) {
  double maps = 0, others = 0;
  for (const Value& value : graph.values())
    if (value.role == Role::activation)
      (value.type.format == Format::map ? maps : others) += static_cast<double>(value.type.elements());
  return maps >= others ? Cut::space : Cut::samples;
}

Tiling tiling_of(const PlanRequest& request, IdVector<OpId, bool> tiled, IdVector<ValueId, bool> cuts, Remake remake) {
  const Graph& graph = request.graph;
  Tiling tiling{std::move(tiled), std::move(cuts), {}};
  for (std::int64_t v = 0; v < graph.value_count(); ++v)
    if (const Value& value = graph.value(ValueId(v)); value.gradient_of && !value.partial)
      tiling.cuts[ValueId(v)] = tiling.cuts[value.gradient_of];
  tiling.stored = stored_by(request, tiling, remake);
  return tiling;
}

void Lacking::add(const PlanRequest& request, const TiledAttempt& attempt) {
  if (!attempt.worst) return;
  const bool has_room = attempt.host_needed <= host_limit(request);
  // What has room in both is refused for its tiles, which would be too small: more of the device would make them larger.
  const std::int64_t needed = has_room ? std::max(attempt.needed, limit_of(request) + 1) : attempt.needed;
  if (needed <= limit_of(request)) {
    least_host_ = std::min(least_host_, attempt.host_needed);
  } else if (needed < least_) {
    least_ = needed;
    worst_ = attempt.worst;
  }
}

Refusal Lacking::refusal(const PlanRequest& request, std::string_view planner, OpId last) const {
  if (!host()) return refusal_of(request, planner, worst_ ? least_ : limit_of(request) + 1, worst_ ? worst_ : last);
  Refusal refusal = refusal_of(request, planner, least_host_, last);
  refusal.tier = Tier::host;
  refusal.budget = host_limit(request);
  return refusal;
}

TiledAttempt tiled_plan(const PlanRequest& request, std::string_view planner, const TiledChoice& choice, PassMemory& memory) {
  const Graph& graph = request.graph;
  const OpCosts costs = costs_of(request);
  TiledAttempt attempt;
  std::optional<Plan> within = plan_within(graph, choice.tiling, std::string(planner), costs.seconds, choice.most_seconds);
  attempt.too_long = attempt.slow = !within;
  if (!within) return attempt;
  TiledPlan result;
  result.plan = *std::move(within);
  Plan& plan = result.plan;
  split_weights(graph, plan, weights_from(request, plan, choice.split_from));
  for (auto& [value, home] : plan.home)
    if (const auto known = request.homes.find(graph.value(value).name); known != request.homes.end()) home = known->second;
  // A run's weights stay where they are: what would hold one elsewhere is no plan for it.
  for (const auto& [name, home] : request.homes)
    if (const ValueId value = graph.find_value(name); value && home != plan.home_of(value)) return attempt;
  const std::vector<IdSet<ValueId>> later = values_read_later(graph, plan);
  if (choice.stream != TiledChoice::Stream::none)
    for (ValueId value : streamable(graph, plan, later))
      if (choice.stream == TiledChoice::Stream::all || !graph.value(value).producer)
        plan.home[value] = comes_from_data(request, value) ? Tier::source : Tier::host;
  const bool host_fits = fit_host(request, plan, result.host_bytes);
  attempt.host_needed = result.host_bytes;

  const std::vector<std::int64_t> resident = resident_bytes(request, plan, Tier::device);
  const std::int64_t budget = request.limited() ? limit_of(request) - request.gaps : kNoLimit;
  const auto lacks = [&](std::int64_t bytes, OpId op) {
    if (bytes > attempt.needed) {
      attempt.needed = bytes;
      attempt.worst = op;
    }
  };
  bool fits = true;
  double in_passes = 0;  // if their ops ran on whole values: in tiles they take about as long, or longer
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const auto* run = std::get_if<RunStep>(&plan.steps[s]);
    const std::int64_t bytes = resident[s] + (run ? costs.workspace[run->op] : 0);
    if (run) result.seconds += costs.seconds[run->op];
    if (const auto* step = std::get_if<PassStep>(&plan.steps[s]))
      for (OpId op : plan.passes[step->pass].ops) in_passes += costs.seconds[op];
    result.bytes = std::max(result.bytes, bytes);
    lacks(bytes, run ? run->op : plan.passes[std::get<PassStep>(plan.steps[s]).pass].ops.back());
  }
  if (!host_fits || result.bytes > budget) return attempt;
  attempt.slow = result.seconds + in_passes > choice.most_seconds;
  if (attempt.slow) return attempt;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const auto* step = std::get_if<PassStep>(&plan.steps[s]);
    if (!step) continue;
    Pass& pass = plan.passes[step->pass];
    double best = kNever;
    Pass chosen = pass;
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), bytes = 0;
    std::vector<Pass> forms;
    if (weight_dim(graph, plan, pass) >= 0) {
      forms.push_back(pass);
    } else if (choice.halo == TiledChoice::Halo::share) {
      forms.push_back(with_shared_rows(graph, pass));
    } else {
      forms.push_back(pass);
      if (std::optional<Pass> pushed = with_pushed_gradients(graph, pass)) forms.push_back(std::move(*pushed));
    }
    const std::int64_t limit = request.limited() ? std::max<std::int64_t>(1, budget - resident[s]) : kNoLimit;
    double at_least = 0;  // of the fastest: what its ops take
    constexpr double kMuch = 0.95;
    const auto consider = [&](const Pass& tried) {
      PassTrial trial(request, plan, tried, later[step->pass], limit, memory);
      const bool fitted = cut_exactly(request, choice.cut, trial);
      least = std::min(least, trial.least());
      if (!fitted || trial.seconds() >= best * (tried.ahead ? kMuch : 1)) return;
      best = trial.seconds();
      at_least = trial.cost().compute_seconds;
      bytes = trial.cost().bytes;
      chosen = tried;
      chosen.cuts = cuts_of(graph.value(chosen.driver).type.shape, trial.extents());
    };
    for (const Pass& form : forms) consider(form);
    // Twice the room for copies is worth it where it saves much, but not on a device that copies by its own processors.
    if (best != kNever && !request.profile.device.is_host() && at_least < best * kMuch)
      for (Pass& form : forms) {
        form.ahead = true;
        consider(form);
      }
    lacks(resident[s] + (best == kNever ? least : bytes), pass.ops.back());
    if (best == kNever) {
      fits = false;
      if (attempt.needed >= choice.most_needed) return attempt;
      continue;
    }
    result.seconds += best;
    attempt.slow = result.seconds > choice.most_seconds;
    if (attempt.slow) return attempt;
    result.bytes = std::max(result.bytes, resident[s] + bytes);
    pass = std::move(chosen);
  }
  if (!fits || !fit_host(request, plan, result.host_bytes)) {
    attempt.host_needed = result.host_bytes;
    return attempt;
  }
  attempt.plan = std::move(result);
  return attempt;
}

}  // namespace outsize
