#include "search/advice.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "base/alignment.h"
#include "base/bytes.h"
#include "program/offsets.h"
#include "search/explain.h"
#include "search/largest.h"

namespace outsize {
namespace {

class Deadline {
 public:
  explicit Deadline(double seconds)
      : end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}
  bool passed() const { return Clock::now() >= end_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_;
};

// The plan, or nothing where there is none, or none for the other programs beside it.
std::optional<Prepared> try_plan(const AdviceRequest& request, const StepGraph& step, std::span<const StepGraph> others,
                                 PrepareOptions options) {
  Planned<Prepared> prepared = prepare(step.graph, request.target, request.profile, options);
  if (!prepared) return std::nullopt;
  if (others.empty() || !options.plan_text.empty()) return *std::move(prepared);  // a plan that was given is for the step
  const PersistentLayout layout = layout_of(step.graph, prepared->program);
  options.layout = &layout;
  for (const StepGraph& other : others)
    if (!prepare(other.graph, request.target, request.profile, options)) return std::nullopt;
  return *std::move(prepared);
}

// Doubles what was refused until it will do, then halves in between. A plan's peak is tried first: it is enough for planners that
// would make the same plan for less.
void find_budget(const AdviceRequest& request, PrepareOptions options, const Refusal& refusal, Advice& advice) {
  if (!refusal.of_bytes()) return;
  constexpr int kDoublings = 6;
  const Deadline deadline(request.seconds);
  std::int64_t refused = options.budgets.device, wanted = refused + std::max(refusal.missing(), kAlignment);
  for (int attempt = 0; !deadline.passed(); ++attempt) {
    options.budgets.device = wanted;
    std::int64_t peak = 0;
    if (const std::optional<Prepared> found = try_plan(request, request.step, request.others, options)) {
      peak = found->program.peak_bytes.device;
      advice.smallest_budget = wanted;
      advice.peak = name_of_instruction(request.step.graph, found->program, peak_of(found->program).instruction);
    } else {
      refused = wanted;
      if (!advice.smallest_budget && attempt == kDoublings) return;
    }
    if (!advice.smallest_budget) {
      wanted *= 2;
      continue;
    }
    const std::int64_t enough = *advice.smallest_budget;
    if (enough - refused <= kAlignment) return;
    wanted = refused < peak && peak < enough ? peak : refused + (enough - refused) / 2;
  }
}

void find_planners(const AdviceRequest& request, PrepareOptions options, Advice& advice) {
  const Deadline deadline(request.seconds);
  const std::string refused = options.plan_text.empty() ? options.planner : "";
  if (choose_planner(options.planner).planner.make == nullptr && options.plan_text.empty()) return;  // who has asked them all
  options.plan_text.clear();
  for (const Planner& planner : planners()) {
    if (planner.name == refused) continue;
    options.planner = planner.name;
    if (deadline.passed())
      advice.untried_planners.emplace_back(planner.name);
    else if (try_plan(request, request.step, request.others, options))
      advice.fitting_planners.emplace_back(planner.name);
  }
}

void find_batch(const AdviceRequest& request, const PrepareOptions& options, Advice& advice) {
  using Outcome = LargestSearch::Outcome;
  if (!request.rebuild || !options.plan_text.empty()) return;  // a plan of a file is for one graph
  const Deadline deadline(request.seconds / 2);
  Dims shape = request.step.graph.value(request.step.x).type.shape;
  LargestSearch search(shape[0]);
  search.record(shape[0], Outcome::refused);
  for (std::int64_t batch = search.next(); batch > 0 && !deadline.passed(); batch = search.next()) {
    shape[0] = batch;
    try {
      const std::vector<StepGraph> programs = request.rebuild(shape);
      const std::optional<Prepared> found = try_plan(request, programs.front(), std::span(programs).subspan(1), options);
      search.record(batch, found ? Outcome::fits : Outcome::refused);
    } catch (const UserError&) {
      search.record(batch, Outcome::untaken);
    }
  }
  if (search.largest() > 0) advice.fitting_batch = search.largest();
}

// "a", "a and b", "a, b and c"
std::string listed(const std::vector<std::string>& names) {
  if (names.size() < 2) return fmt::format("{}", fmt::join(names, ""));
  return fmt::format("{} and {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

std::string with_advice(const Refusal& refusal, const PrepareOptions& options, const Advice& advice) {
  const bool none = !advice.smallest_budget && advice.fitting_planners.empty() && !advice.fitting_batch;
  if (none && advice.untried_planners.empty()) return message_of(refusal);
  // Where nothing was found, the general advice is better than none; where the device is not what lacks, only that tells of it.
  std::string text = (none || refusal.tier != Tier::device ? message_of(refusal) : sentence_of(refusal)) + ".";
  const std::string who = options.plan_text.empty() ? "planner " + options.planner : "the plan";
  if (advice.smallest_budget) {
    // A planner's needs depend on what it may have.
    const bool other_plan = refusal.tier != Tier::device || *advice.smallest_budget != refusal.needed;
    text += fmt::format(" --memory {} ({}) would do with {}{}.", *advice.smallest_budget, format_bytes(*advice.smallest_budget),
                        who, other_plan ? ", which plans otherwise for that" : "");
  }
  if (!advice.fitting_planners.empty())
    text += fmt::format(" In the same budget planner{} {} fit{}.", advice.fitting_planners.size() == 1 ? "" : "s",
                        listed(advice.fitting_planners), advice.fitting_planners.size() == 1 ? "s" : "");
  if (!advice.untried_planners.empty())
    text += fmt::format(" Planner{} {} {} not tried.", advice.untried_planners.size() == 1 ? "" : "s",
                        listed(advice.untried_planners), advice.untried_planners.size() == 1 ? "was" : "were");
  if (advice.fitting_batch)
    text += fmt::format(" --batch {} fits with {} and --memory {}.", *advice.fitting_batch, who, options.budgets.device);
  text.pop_back();  // messages end without a full stop
  return text;
}

}  // namespace

Refused advised(const AdviceRequest& request, const Refusal& refusal) {
  Refused refused{refusal, {}, {}};
  PrepareOptions quick = request.options;
  quick.progress = nullptr;
  // Whether there is a plan is all that counts here.
  if (quick.plan_text.empty() && quick.planner == auto_planner().name) quick.planner = "auto:effort=first";
  find_budget(request, quick, refusal, refused.advice);
  find_planners(request, quick, refused.advice);
  find_batch(request, quick, refused.advice);
  refused.message = with_advice(refusal, request.options, refused.advice);
  return refused;
}

}  // namespace outsize
