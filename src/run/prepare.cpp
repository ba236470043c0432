#include "run/prepare.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "backend/host_memory.h"
#include "plan/bounds.h"
#include "plan/lives.h"
#include "plan/order.h"
#include "program/lower.h"
#include "run/simulator.h"

namespace outsize {

namespace {

constexpr int kTightenings = 2;  // lowerings of the same decisions with more and more left to packing, …
constexpr int kAttempts = 6;     // … and, these included, of what a planner makes of less and less
// Where even that is too much, it is asked for what lies a thirty-second of an octave lower each time, …
constexpr int kPerOctave = 32;
constexpr int kSteps = 32;
constexpr int kRefusals = 4;  // … but not again and again when it refuses …
constexpr int kHalvings = 8;  // … and then for the least that it does not refuse.

// Where the run keeps its persistent values.
std::map<std::string, Tier> homes_of(const PersistentLayout* layout) {
  std::map<std::string, Tier> homes;
  if (layout)
    for (const auto& [name, place] : layout->places) homes.emplace(name, place.tier);
  return homes;
}

PlanRequest request_of(const Graph& graph, Backend& backend, const Profile& profile, const PrepareOptions& options) {
  return {.graph = graph,
          .profile = profile,
          .storage = backend.storage(),
          .device_budget = options.budgets.device,
          .host_budget = options.budgets.host,
          .disk_budget = options.budgets.disk,
          .homes = homes_of(options.layout),
          .spill = options.budgets.spill,
          .windows = options.windows,
          .workspace = [&backend](const Call& call) {  // one that is too large as a whole will run in tiles, or be refused
            return backend.takes(call) ? backend.kernel(call)->workspace_bytes() : 0;
          }};
}

std::int64_t repetitions(const Program& program, std::size_t instruction) {
  for (const Loop& loop : program.loops)
    if (static_cast<std::size_t>(loop.begin) <= instruction && instruction < static_cast<std::size_t>(loop.end)) return loop.count;
  return 1;
}

bool moves_between_tiers(Action action) {
  return action == Action::copy_out || action == Action::copy_in || action == Action::disk_out || action == Action::disk_in;
}

// Finds a plan whose program fits. A planner sums live bytes, and packing them leaves gaps: it may have to be asked for less.
class Planning {
 public:
  Planning(const Graph& graph, Backend& backend, const Profile& profile, const PrepareOptions& options)
      : graph_(graph), options_(options), request_(request_of(graph, backend, profile, options)) {
    if (!options.plan_text.empty()) return;
    const PlannerChoice choice = choose_planner(options.planner);
    planner_ = &choice.planner;
    request_.options = choice.options;
    costs_ = costs_of(request_);
    request_.costs = &*costs_;
  }

  Prepared run() {
    std::optional<BudgetError> refusal = refusal_of_search();
    // What waits on disk passes through host memory: a plan without disk may do where even that lacks.
    if (refusal && request_.spill && request_.host_budget > 0 && planner_) {
      request_.spill = false;
      refusal_.reset();
      lowered_ = false;
      if (!refusal_of_search()) refusal.reset();
    }
    if (!keep_is_better(refusal.has_value()) && refusal) throw *refusal;
    return std::move(found_);
  }

 private:
  std::optional<BudgetError> refusal_of_search() {
    try {
      search();
      return std::nullopt;
    } catch (const BudgetError& error) {
      return error;
    }
  }

  // Finds what the planner makes of the budget, or throws the refusal.
  void search() {
    const std::int64_t budget = options_.budgets.device;
    std::int64_t asked = budget, less = 0;
    request_.gaps = 0;
    request_.host_budget = options_.budgets.host;
    for (int attempt = 0; attempt < kAttempts && (attempt == 0 || asked > 0); ++attempt) {
      const std::optional<Plan> plan = ask(asked);
      if (plan && fits(*plan)) return;
      if (!plan && attempt == 0 && planner_->refuses_less) throw *refusal_;
      if (!plan) break;
      if (!options_.plan_text.empty()) throw *refusal_;
      // Planners sum what waits in host memory, not what passes through it on the way to a disk.
      if (request_.spill && missing_tier_ == name_of(Tier::host) && request_.host_budget > last_missing_) {
        request_.host_budget -= last_missing_;
        continue;
      }
      if (budget == 0) throw *refusal_;
      if (attempt < kTightenings) {
        request_.gaps += last_missing_;
        continue;
      }
      less = std::max({last_missing_, 2 * less, std::int64_t{1}});
      asked -= less;
    }
    request_.gaps = 0;
    request_.host_budget = options_.budgets.host;
    if (budget > 0 && less_fits(budget)) return;
    throw *refusal_;
  }

  // Whether `keep` fits and needs less than what was found, or nothing was; then its plan is found. A plan that was given, options
  // that were, and the later programs of a run stay as they are.
  bool keep_is_better(bool refused) {
    if (!planner_ || planner_->name == "keep" || !request_.options.given().empty() || options_.layout) return false;
    const Budgets& budgets = options_.budgets;
    if (refused && (budgets.host > 0 || budgets.disk > 0)) return false;  // these may be what is too small
    // The sum of what is live, to which packing adds, tells most of the time.
    const std::vector<std::int64_t> live = lives_of(request_, *costs_, eager_order(graph_)).bytes();
    const std::int64_t most = refused ? budgets.device : found_.program.peak_bytes[0];
    if (live.empty() || *std::max_element(live.begin(), live.end()) - kPieceAlignment >= most) return false;
    request_.device_budget = budgets.device;
    Plan plan = find_planner("keep").make(request_);
    try {
      Program program = program_of(plan);
      if (!refused && program.peak_bytes[0] >= found_.program.peak_bytes[0]) return false;
      found_.program = std::move(program);
      found_.plan = std::move(plan);
      return true;
    } catch (const BudgetError&) {
      return false;
    }
  }

  // The planner's plan for so many bytes, or nothing where it refuses.
  std::optional<Plan> ask(std::int64_t bytes) {
    try {
      if (!options_.plan_text.empty()) return parse_plan(graph_, options_.plan_text, options_.plan_file);
      request_.device_budget = bytes;
      return planner_->make(request_);
    } catch (const BudgetError& error) {
      if (!refusal_) refusal_ = error;  // a refusal of less than the user's budget would state the wrong bytes
      return std::nullopt;
    }
  }

  // Whether a plan lowers into the budget, not asked twice of the same; then it is found.
  bool fits(const Plan& plan) {
    if (plan.steps == tried_.steps && plan.passes == tried_.passes && plan.home == tried_.home && !tried_.steps.empty())
      return false;
    try {
      found_.program = program_of(plan);
      found_.plan = plan;
      return true;
    } catch (const UserError& error) {
      if (options_.plan_text.empty())
        internal_error("planner {} made a plan that does not check: {}", options_.planner, error.what());
      if (std::string_view(error.what()).starts_with(options_.plan_file + ":")) throw;  // with its line
      user_error("{}: {}", options_.plan_file, error.what());
    } catch (const BudgetError& error) {
      if (!lowered_ || error.missing_bytes() < refusal_->missing_bytes()) refusal_ = error;
      lowered_ = true;
      last_missing_ = error.missing_bytes();
      missing_tier_ = error.tier();
      tried_ = plan;
      return false;
    }
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
      if (!plan) {
        refused = bytes;
        if (accepted > 0 || planner_->refuses_less || ++refusals == kRefusals) break;
        continue;
      }
      accepted = bytes;
      if (fits(*plan)) return true;
    }
    for (int k = 0; accepted > 0 && k < kHalvings; ++k) {
      const std::int64_t middle = refused + (accepted - refused) / 2;
      const std::optional<Plan> plan = ask(middle);
      if (plan && fits(*plan)) return true;
      (plan ? accepted : refused) = middle;
    }
    return false;
  }

  Program program_of(const Plan& plan) const {
    const Budgets& budgets = options_.budgets;
    LowerOptions options;
    options.storage = request_.storage;
    options.canary_bytes = kCanaryBytes;
    options.workspace = request_.workspace;
    options.whole_workspace = costs_ ? &costs_->workspace : nullptr;
    options.device_budget = budgets.device;
    options.host_budget = budgets.host;
    options.disk_budget = budgets.disk;
    options.direct_sources = request_.profile.device.is_host();
    options.layout = options_.layout;
    return lower(graph_, plan, options);
  }

  const Graph& graph_;
  const PrepareOptions& options_;
  PlanRequest request_;
  const Planner* planner_ = nullptr;  // none where a plan is given
  std::optional<OpCosts> costs_;
  std::optional<BudgetError> refusal_;  // the nearest miss so far: of a program if there is one, else the planner's own
  bool lowered_ = false;
  std::int64_t last_missing_ = 0;
  std::string missing_tier_;  // what lacked them
  Plan tried_;
  Prepared found_;
};

}  // namespace

Prepared prepare(const Graph& graph, Backend& backend, const Profile& profile, const PrepareOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  Prepared prepared = Planning(graph, backend, profile, options).run();
  prepared.predicted = simulate(graph, prepared.program, profile);
  prepared.plan_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return prepared;
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

LowerBounds lower_bounds(const Graph& graph, Backend& backend, const Profile& profile, const PrepareOptions& options) {
  const PlanRequest request = request_of(graph, backend, profile, options);
  const Work work = work_of(request);
  const Device& device = profile.device;
  return {.seconds = lower_bound_seconds(work, {limit_of(request), device.link_out, device.link_in}),
          .tiled_seconds = lower_bound_seconds(work, {})};
}

std::int64_t free_device_bytes() { return available_bytes(); }

std::string default_planner() {
  const std::vector<Planner>& all = planners();
  const bool has_auto = std::any_of(all.begin(), all.end(), [](const Planner& planner) { return planner.name == "auto"; });
  return has_auto ? "auto" : std::string(all.front().name);
}

}  // namespace outsize
