#include "search/prepare.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "base/alignment.h"
#include "plan/analysis/order.h"
#include "plan/reckon/bounds.h"
#include "plan/reckon/lives.h"
#include "program/lower.h"
#include "program/simulator.h"
#include "search/auto.h"

namespace outsize {

namespace {

// What is tried where a plan's packing exceeds the budget, in this order.
// The same decisions, with what is swapped there for less and less of the time that it could be, …
constexpr double kLingers[] = {1, 0.125, 0};
constexpr int kLeast = static_cast<int>(std::size(kLingers)) - 1;
constexpr int kRetimings = 8;    // … so many times with more left where pieces did not fit, …
constexpr int kTightenings = 2;  // … and with more left to packing
constexpr int kAttempts = 6;     // lowerings in all, with those of plans that the planner makes within less and less
// Where even that is too much, the planner is asked to leave so many parts of the budget, …
constexpr int kGapParts = 64;
constexpr int kGapSteps = 24;
// … then for budgets that fall by an octave / kPerOctave each.
constexpr int kSteps = 32;
constexpr int kPerOctave = 32;
constexpr int kRefusals = 4;  // refusals of the planner that end these
constexpr int kHalvings = 8;  // halvings in search of the least budget that the planner does not refuse

// Where the run keeps its persistent values.
std::map<std::string, Tier> homes_of(const PersistentLayout* layout) {
  std::map<std::string, Tier> homes;
  if (layout)
    for (const auto& [name, place] : layout->places) homes.emplace(name, place.tier);
  return homes;
}

PlanRequest request_of(const Graph& graph, Target& target, const Profile& profile, const PrepareOptions& options) {
  return {.graph = graph,
          .profile = profile,
          .storage = target.storage(),
          .budgets = options.budgets,
          .homes = homes_of(options.layout),
          .windows = options.windows,
          .workspace = [&target](const Call& call) { return target.workspace_bytes(call); },
          .most_seconds = options.most_seconds};
}

bool moves_between_tiers(Action action) {
  return action == Action::copy_out || action == Action::copy_in || action == Action::disk_out || action == Action::disk_in;
}

// By run, how far the highest piece that lives beside it lies above the budget; `ends` has, by run, the instructions before its
// end.
std::vector<std::int64_t> bytes_above(const Program& program, std::int64_t budget, const std::vector<std::size_t>& ends) {
  std::vector<std::vector<std::int64_t>> begin(ends.size() + 1), end(ends.size() + 1);
  for (const Piece& piece : program.pieces) {
    const std::int64_t bytes = piece.offset + piece.bytes - budget;
    if (piece.tier != Tier::device || piece.first < 0 || bytes <= 0) continue;
    const auto run_of = [&](std::int32_t instruction) {
      return static_cast<std::size_t>(std::ranges::upper_bound(ends, static_cast<std::size_t>(instruction)) - ends.begin());
    };
    begin[run_of(piece.first)].push_back(bytes);
    end[run_of(piece.last)].push_back(bytes);
  }
  std::vector<std::int64_t> above(ends.size());
  std::multiset<std::int64_t> live;
  for (std::size_t run = 0; run < ends.size(); ++run) {
    live.insert(begin[run].begin(), begin[run].end());
    if (!live.empty()) above[run] = *live.rbegin();
    for (const std::int64_t bytes : end[run]) live.erase(live.find(bytes));
  }
  return above;
}

bool runs_on_one_lane(const Program& program) {
  return std::ranges::all_of(program.instructions, [](const Instruction& one) { return one.lane == Lane::compute; });
}

// Finds a plan whose program fits. A planner sums live bytes, and packing them leaves gaps: it may have to be asked for less.
class Planning {
 public:
  Planning(const Graph& graph, Target& target, const Profile& profile, const PrepareOptions& options)
      : graph_(graph), target_(target), options_(options), request_(request_of(graph, target, profile, options)) {
    if (!options.plan_text.empty()) return;
    const PlannerChoice choice = choose_planner(options.planner);
    planner_ = &choice.planner;
    request_.options = choice.options;
    first_costs_ = costs_of(request_);
    costs_ = first_costs_;
    request_.costs = &*costs_;
    request_.kept = &kept_;
    request_.packed = [this](const Plan& plan) {
      Plan chosen = plan;
      take_chosen_kernels(chosen);
      const Planned<Program> program = lowered(chosen, Effort::patient);
      return program ? program->peak_bytes.device : program.refusal().needed;
    };
  }

  Planned<Prepared> run() {
    std::optional<Refusal> refusal = search();
    // What waits on disk passes through host memory: a plan without disk may do where even that lacks.
    if (refusal && request_.budgets.disk > 0 && options_.budgets.host > 0 && planner_) {
      request_.budgets.disk = 0;
      refusal_.reset();
      lowered_ = false;
      if (!search()) refusal.reset();
    }
    if (refusal && less_workspace_fits(*refusal)) refusal.reset();
    if (!keep_is_better(refusal) && refusal) return *std::move(refusal);
    // While plans are sought, the first packing that the budget holds will do. That of the plan which is taken is the lowest, so
    // that what it takes depends on the plan alone; but where copies run beside ops, room between pieces saves them waits.
    if (Program& program = found_.program; program.peak_bytes.device > program.live_bytes && runs_on_one_lane(program))
      if (Planned<Program> lowest = program_of(found_.plan, true)) program = *std::move(lowest);
    return std::move(found_);
  }

 private:
  // Finds what the planner makes of the budget; the refusal where that is nothing.
  std::optional<Refusal> search() {
    const std::int64_t budget = options_.budgets.device;
    std::int64_t asked = budget, less = 0;
    request_.gaps = 0;
    request_.budgets.host = options_.budgets.host;
    if (retimed_fits(budget)) return std::nullopt;
    for (int attempt = 0; attempt < kAttempts && (attempt == 0 || asked > 0); ++attempt) {
      const std::optional<Plan> plan = ask(asked);
      // One that is given may be one that took a longer search when it was found.
      if (plan && fits(*plan, planner_ ? Effort::quick : Effort::patient)) return std::nullopt;
      if (!plan && attempt == 0 && planner_->refuses_less) return refusal_;
      if (!plan) break;
      if (!options_.plan_text.empty()) return refusal_;
      // Planners sum what waits in host memory, not what passes through it on the way to a disk.
      if (request_.budgets.disk > 0 && last_.tier == Tier::host && request_.budgets.host > last_.missing()) {
        request_.budgets.host -= last_.missing();
        continue;
      }
      if (budget == kNoLimit) return refusal_;
      if (attempt < kTightenings) {
        request_.gaps += last_.missing();
        continue;
      }
      less = std::max({last_.missing(), 2 * less, std::int64_t{1}});
      asked -= less;
    }
    request_.gaps = 0;
    request_.budgets.host = options_.budgets.host;
    if (budget < kNoLimit && (gaps_fit(budget) || less_fits(budget))) return std::nullopt;
    return refusal_;
  }

  // Lowers the planner's plan for the budget. Where some pieces do not fit, asks for the same decisions with other times: first
  // with what is swapped leaving earlier and coming back later, as far as no run waits for that, where the planner soon answers;
  // then with that much less room beside the runs of these pieces' lives.
  bool retimed_fits(std::int64_t budget) {
    if (!planner_ || budget == kNoLimit) return false;
    const int least = planner_->retimes ? kLeast : 0;
    // What is asked for once is looked at longer. Of the lingers the second mostly fits, if it is.
    const auto effort = [&](int k) {
      if (!planner_->retimes) return Effort::steady;
      return k == 1 ? Effort::patient : Effort::quick;
    };
    std::optional<Refusal> missed;
    bool found = false;
    for (int k = 0; k <= least + kRetimings; ++k) {
      request_.linger = kLingers[std::min(k, least)];
      const std::optional<Plan> plan = ask(budget);
      if (!plan) break;
      const bool tried = was_tried(*plan);
      if (tried && k > least) break;
      if (!tried || k == 1) found = fits(*plan, effort(k), tried);
      if (found) break;
      if (k <= least) missed = last_;
      if (last_.tier != Tier::device || live_ > budget) break;
      if (k < least) continue;
      request_.gaps_at.resize(std::max(request_.gaps_at.size(), above_.size()));
      for (std::size_t run = 0; run < above_.size(); ++run) request_.gaps_at[run] += above_[run];
    }
    request_.gaps_at.clear();
    request_.linger = kLingers[least];
    if (missed) last_ = *missed;
    return found;
  }

  // Where a plan misses the device's budget by less than its largest workspace, kernels with less may do: asks the planner again
  // with those that take as much less as is missing, then with the least of each op. A plan that was given has its kernels.
  bool less_workspace_fits(const Refusal& refusal) {
    if (!planner_ || refusal.tier != Tier::device) return false;
    std::int64_t largest = 0;
    for (const std::int64_t bytes : first_costs_->workspace) largest = std::max(largest, bytes);
    if (refusal.missing() >= largest) return false;
    request_.budgets.disk = options_.budgets.disk;
    for (const std::int64_t most : {largest - refusal.missing(), std::int64_t{0}}) {
      if (!choose_kernels(most)) continue;
      kept_.reset();
      refusal_.reset();
      lowered_ = false;
      tried_.clear();
      if (!search()) return true;
    }
    costs_ = first_costs_;
    less_.clear();
    kept_.reset();
    return false;
  }

  // Has each op whose kernel takes more workspace than that computed by the fastest that does not, or by that with the least, where
  // ops run on whole values. Kernels of which nobody knows how long they take are left alone: one with less workspace may take a
  // hundred times as long. Whether that makes any difference to what was chosen before.
  bool choose_kernels(std::int64_t most) {
    const std::map<OpId, KernelChoice> before = std::exchange(less_, {});
    costs_ = first_costs_;
    for (std::int64_t k = 0; k < graph_.op_count(); ++k) {
      const OpId op(k);
      if (first_costs_->workspace[op] <= most) continue;
      std::vector<Alternative> all = target_.alternatives(whole_call(graph_, graph_.op(op)));
      if (all.empty() || all.front().seconds < 0) continue;
      std::erase_if(all, [](const Alternative& one) { return one.seconds < 0; });
      const auto better = [&](const Alternative& a, const Alternative& b) {
        const bool a_fits = a.workspace_bytes <= most, b_fits = b.workspace_bytes <= most;
        if (a_fits != b_fits) return a_fits;
        if (!a_fits) return a.workspace_bytes < b.workspace_bytes;
        return a.seconds < b.seconds;
      };
      const auto best = std::ranges::min_element(all, better);
      if (best == all.begin() || best->workspace_bytes >= all.front().workspace_bytes) continue;
      less_[op] = {best->name, true};
      costs_->workspace[op] = best->workspace_bytes;
      if (all.front().seconds > 0) costs_->seconds[op] *= best->seconds / all.front().seconds;
    }
    return !less_.empty() && less_ != before;
  }

  // Of ops that are in tiles the workspace is another, so that they keep their kernels.
  void take_chosen_kernels(Plan& plan) const {
    if (less_.empty()) return;
    IdVector<OpId, bool> runs(graph_.op_count(), false);
    for (const Step& step : plan.steps)
      if (const auto* run = std::get_if<RunStep>(&step); run && run->where == Tier::device) runs[run->op] = true;
    for (const Pass& pass : plan.passes)
      for (const OpId op : pass.ops) runs[op] = false;
    for (const auto& [op, choice] : less_)
      if (runs[op]) plan.kernels[op] = choice;
  }

  // Says of the kernels of a plan that was given which of them are not those that would be taken anyhow.
  void settle_rounding(Plan& plan) const {
    for (auto& [op, choice] : plan.kernels) {
      const std::vector<Alternative> all = target_.alternatives(whole_call(graph_, graph_.op(op)));
      choice.rounding = all.empty() || all.front().name != choice.name;
    }
  }

  // Whether `keep` fits and needs less than what was found, or nothing was; then its plan is found. A plan that was given, options
  // that were, and the later programs of a run stay as they are; so does a refusal for what another tier lacks.
  bool keep_is_better(const std::optional<Refusal>& refusal) {
    if (!planner_ || planner_->name == "keep" || !request_.options.given().empty() || options_.layout) return false;
    // Where there is no lower tier, what would wait in one can only be kept.
    if (refusal && refusal->tier != Tier::device && request_.has_lower_tier()) return false;
    // The sum of what is live, to which packing adds, tells most of the time.
    const std::vector<std::int64_t> live = lives_of(request_, *costs_, eager_order(graph_)).bytes();
    const std::int64_t most = refusal ? options_.budgets.device : found_.program.peak_bytes.device;
    if (live.empty() || *std::max_element(live.begin(), live.end()) - kAlignment >= most) return false;
    request_.budgets.device = options_.budgets.device;
    Planned<Plan> plan = find_planner("keep").make(request_);
    if (!plan) return false;
    Planned<Program> program = program_of(*plan);
    if (!program || (!refusal && program->peak_bytes.device >= found_.program.peak_bytes.device)) return false;
    found_.program = *std::move(program);
    found_.plan = *std::move(plan);
    return true;
  }

  // The planner's plan for so many bytes, or nothing where it refuses.
  std::optional<Plan> ask(std::int64_t bytes) {
    if (!options_.plan_text.empty()) {
      Plan plan = parse_plan(graph_, options_.plan_text, options_.plan_file);
      settle_rounding(plan);
      return plan;
    }
    request_.budgets.device = bytes;
    Planned<Plan> plan = planner_->make(request_);
    if (plan) {
      take_chosen_kernels(*plan);
      return *std::move(plan);
    }
    if (!refusal_) refusal_ = plan.refusal();  // a refusal of less than the user's budget would state the wrong bytes
    return std::nullopt;
  }

  bool was_tried(const Plan& plan) const {
    return std::ranges::any_of(tried_, [&](const Plan& tried) {
      return plan.steps == tried.steps && plan.passes == tried.passes && plan.home == tried.home && plan.kernels == tried.kernels;
    });
  }

  // Whether a plan lowers into the budget, not asked twice of the same unless `again`; then it is found.
  bool fits(const Plan& plan, Effort effort = Effort::quick, bool again = false) {
    if (!again && was_tried(plan)) return false;
    Planned<Program> program = lowered(plan, effort);
    if (program) {
      found_.program = *std::move(program);
      found_.plan = plan;
      return true;
    }
    last_ = program.refusal();
    if (!lowered_ || last_.missing() < refusal_->missing()) refusal_ = last_;
    lowered_ = true;
    tried_.push_back(plan);
    return false;
  }

  // program_of() a plan; where that does not check, says whose mistake it is.
  Planned<Program> lowered(const Plan& plan, Effort effort) {
    try {
      return program_of(plan, false, effort);
    } catch (const UserError& error) {
      if (options_.plan_text.empty())
        internal_error("planner {} made a plan that does not check: {}", options_.planner, error.what());
      if (dynamic_cast<const PlacedError*>(&error)) throw;
      user_error("{}: {}", options_.plan_file, error.what());
    }
  }

  // Asks for more and more room to be left to packing. How well pieces can be packed changes with every copy that runs a little
  // earlier or later: of several plans that their planner reckons to fit, one mostly does.
  bool gaps_fit(std::int64_t budget) {
    if (!lowered_ || last_.tier != Tier::device) return false;
    const auto plan_with = [&](int step) {
      request_.gaps = budget / kGapParts * step;
      return ask(budget);
    };
    // Some planners do not go by it.
    const std::optional<Plan> most = plan_with(kGapSteps);
    bool found = false;
    for (int step = 1; !found && most && !was_tried(*most) && step <= kGapSteps; ++step) {
      const std::optional<Plan> plan = step == kGapSteps ? most : plan_with(step);
      found = plan && fits(*plan);
    }
    request_.gaps = 0;
    return found;
  }

  // Asks for less, until that fits or is refused, and last for the least that is not. The budgets asked for are the same whatever
  // the user's is: what fits in one of them fits in every larger one.
  bool less_fits(std::int64_t budget) {
    std::int64_t accepted = 0, refused = 0;
    int refusals = 0;
    auto step = static_cast<int>(std::floor(kPerOctave * std::log2(static_cast<double>(budget))));
    for (int k = 0; k < kSteps; ++k, --step) {
      const auto bytes = static_cast<std::int64_t>(std::exp2(static_cast<double>(step) / kPerOctave));
      if (bytes >= budget || bytes <= 0) continue;
      const std::optional<Plan> plan = ask(bytes);
      if (plan && fits(*plan)) return true;
      // With less on the device, more is elsewhere.
      if (!plan || last_.tier != Tier::device) {
        refused = bytes;
        if (accepted > 0 || planner_->refuses_less || ++refusals == kRefusals) break;
        continue;
      }
      accepted = bytes;
    }
    for (int k = 0; accepted > 0 && k < kHalvings; ++k) {
      const std::int64_t middle = refused + (accepted - refused) / 2;
      const std::optional<Plan> plan = ask(middle);
      if (plan && fits(*plan)) return true;
      (plan ? accepted : refused) = middle;
    }
    return false;
  }

  Planned<Program> program_of(const Plan& plan, bool lowest = false, Effort effort = Effort::quick) {
    LowerOptions options;
    options.storage = request_.storage;
    options.canary_bytes = kCanaryBytes;
    options.workspace = request_.workspace;
    options.whole_workspace = first_costs_ ? &first_costs_->workspace : nullptr;
    options.chosen_workspace = [this](const Call& call, std::string_view name) { return target_.workspace_bytes(call, name); };
    options.budgets = options_.budgets;
    options.lowest = lowest;
    options.effort = effort;
    options.direct_sources = request_.profile.device.is_host();
    options.direct_disk = options.direct_sources && options.budgets.host == 0;
    options.layout = options_.layout;
    // What is above the budget, by run.
    std::vector<std::size_t> ends;  // of the instructions of each run
    std::size_t step = 0;
    options.observe = [&](std::string_view phase, const Program& program) {
      if (phase == "step") {
        const Step& one = plan.steps[step++];
        if (std::holds_alternative<RunStep>(one) || std::holds_alternative<PassStep>(one))
          ends.push_back(program.instructions.size());
      }
      if (phase != "offsets") return;
      above_ = bytes_above(program, options_.budgets.device, ends);
      live_ = program.live_bytes;
    };
    if (plan.kernels.empty()) return lower(graph_, plan, options);
    // A kernel that is named, but would be taken anyhow, is no other one: of calls on whole values, which are known here.
    Plan chosen = plan;
    IdVector<OpId, bool> in_tiles(graph_.op_count(), false);
    for (const Pass& pass : plan.passes)
      for (const OpId op : pass.ops) in_tiles[op] = true;
    std::erase_if(chosen.kernels, [&](const auto& entry) { return !entry.second.rounding && !in_tiles[entry.first]; });
    return lower(graph_, chosen, options);
  }

  const Graph& graph_;
  Target& target_;
  const PrepareOptions& options_;
  PlanRequest request_;
  const Planner* planner_ = nullptr;    // none where a plan is given
  std::optional<OpCosts> first_costs_;  // of the target's first kernels
  std::optional<OpCosts> costs_;        // of those that are chosen
  std::any kept_;                       // by the planner
  std::map<OpId, KernelChoice> less_;   // those with less workspace, of ops that run on whole values
  std::optional<Refusal> refusal_;      // the nearest miss so far: of a program if there is one, else the planner's own
  bool lowered_ = false;
  Refusal last_;                     // of a program
  std::vector<std::int64_t> above_;  // of the last program, by run: bytes_above()
  std::int64_t live_ = 0;            // of the last program: its live bytes
  std::vector<Plan> tried_;          // whose programs do not fit
  Prepared found_;
};

}  // namespace

Planned<Prepared> prepare(const Graph& graph, Target& target, const Profile& profile, const PrepareOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const bool asks_all = options.plan_text.empty() && choose_planner(options.planner).planner.make == nullptr;
  Planned<Prepared> prepared =
      asks_all ? prepare_auto(graph, target, profile, options) : Planning(graph, target, profile, options).run();
  if (!prepared) return prepared;
  if (!asks_all) prepared->predicted = simulate(graph, prepared->program, profile);
  prepared->plan_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return prepared;
}

std::int64_t repetitions(const Program& program, std::size_t instruction) {
  for (const Loop& loop : program.loops)
    if (static_cast<std::size_t>(loop.begin) <= instruction && instruction < static_cast<std::size_t>(loop.end)) return loop.count;
  return 1;
}

PlanFigures figures_of(const Graph& graph, const Prepared& prepared) {
  PlanFigures figures;
  const Program& program = prepared.program;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.action == Action::kernel && instruction.recompute) figures.recomputed_ops += repetitions(program, i);
    if (!moves_between_tiers(instruction.action)) continue;
    const Operand& moved = instruction.reads[0];
    figures.swapped_bytes += repetitions(program, i) * stored_bytes(program.storage, type_of(graph, program.piece(moved.piece)),
                                                                    program.boxes[moved.box].start.shape());
  }
  for (const Pass& pass : prepared.plan.passes) {
    std::int64_t tiles = 1;
    for (const auto& cuts : pass.cuts) tiles *= static_cast<std::int64_t>(cuts.size()) + 1;
    figures.tiles += tiles;
  }
  return figures;
}

LowerBounds lower_bounds(const Graph& graph, Target& target, const Profile& profile, const PrepareOptions& options) {
  const PlanRequest request = request_of(graph, target, profile, options);
  const Work work = work_of(request);
  // What tiles take is mostly estimated, and that may be less than the whole op takes as measured.
  const Profile estimates{profile.device, {}, profile.scale, {}};
  Work in_tiles = work_of(request_of(graph, target, estimates, options));
  for (std::size_t k = 0; k < work.ops.size(); ++k)
    in_tiles.ops[k].seconds = std::min(in_tiles.ops[k].seconds, work.ops[k].seconds);
  const Device& device = profile.device;
  double seconds = lower_bound_seconds(work, {limit_of(request), device.link_out, device.link_in});
  if (!request.has_lower_tier() && request.limited()) seconds = std::max(seconds, remaking_bound_seconds(work, limit_of(request)));
  return {.seconds = seconds, .tiled_seconds = lower_bound_seconds(in_tiles, {})};
}

}  // namespace outsize
