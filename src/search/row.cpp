#include "search/row.h"

#include <algorithm>
#include <chrono>

#include "program/simulator.h"

namespace outsize {
namespace {

void set_options(PlanRow& row, const PlannerOptions& options) {
  using Kind = PlannerOption::Kind;
  row.options.clear();
  row.options_text = options.to_string();
  for (const auto& [option, text] : options.given()) {
    GivenOption& given = row.options.emplace_back();
    given.name = option.name;
    switch (option.kind) {
      case Kind::integer: given.value = options.integer(option); break;
      case Kind::number: given.value = options.number(option); break;
      case Kind::word: given.value = text; break;
      case Kind::names: given.value = options.names(option); break;
    }
  }
}

void set_planner(PlanRow& row, std::string_view name) {
  row.planner = name;
  const auto planner = std::ranges::find(planners(), name, &Planner::name);
  row.source = planner != planners().end() ? planner->source : name == auto_planner().name ? auto_planner().source : "";
}

// What the kernels of a program take that run no op again; those of the host only where it is the device's processor.
double seconds_of_ops(const Graph& graph, const Program& program, const Profile& profile) {
  double seconds = 0;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.action != Action::kernel || instruction.recompute) continue;
    if (instruction.lane == Lane::host && !profile.device.is_host()) continue;
    seconds += static_cast<double>(repetitions(program, i)) * profile.seconds_of(call_of(graph, program, instruction));
  }
  return seconds;
}

}  // namespace

void Yardstick::hold_for(const PlanRow& row) {
  if (row.fits() && row.figures.tiles > 0) tiled_bound_seconds = std::min(tiled_bound_seconds, row.ops_seconds);
}

std::optional<std::int64_t> PlanRow::missing_bytes() const {
  if (!refusal) return 0;
  if (!refusal->of_bytes()) return std::nullopt;
  return refusal->missing();
}

PlannerOptions given_options(const PrepareOptions& options) {
  return options.plan_text.empty() ? choose_planner(options.planner).options : PlannerOptions();
}

Yardstick yardstick_of(const Graph& graph, Target& target, const Profile& profile, const PrepareOptions& options,
                       const Prepared& keep) {
  const LowerBounds bounds = lower_bounds(graph, target, profile, options);
  return {.keep_peak_bytes = keep.program.peak_bytes.device,
          .keep_seconds = simulate(graph, keep.program, profile).seconds,
          .bound_seconds = bounds.seconds,
          .tiled_bound_seconds = bounds.tiled_seconds};
}

PlanRow row_of(const Graph& graph, const Profile& profile, const PrepareOptions& options, const Prepared& prepared) {
  PlanRow row;
  set_planner(row, prepared.plan.planner);
  if (options.plan_text.empty() && &choose_planner(options.planner).planner == &auto_planner()) {
    row.made_by = row.planner;
    set_planner(row, auto_planner().name);
  }
  set_options(row, given_options(options));
  row.peak_bytes = prepared.program.peak_bytes;
  row.step_seconds = prepared.predicted.seconds;
  row.ops_seconds = seconds_of_ops(graph, prepared.program, profile);
  row.plan_seconds = prepared.plan_seconds;
  row.figures = figures_of(graph, prepared);
  return row;
}

PlanRow row_of(const PrepareOptions& options, const Refusal& refusal) {
  PlanRow row;
  set_planner(row, choose_planner(options.planner).planner.name);
  set_options(row, given_options(options));
  if (refusal.of_bytes() && refusal.tier == Tier::device) row.peak_bytes.device = refusal.needed;
  row.refusal = refusal;
  return row;
}

PlanRow plan_row(const Graph& graph, Target& target, const Profile& profile, const PrepareOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const Planned<Prepared> prepared = prepare(graph, target, profile, options);
  PlanRow row = prepared ? row_of(graph, profile, options, *prepared) : row_of(options, prepared.refusal());
  const PlannerChoice choice = choose_planner(options.planner);
  set_planner(row, choice.planner.name);  // one that returns another's plan is still itself
  set_options(row, choice.options);
  row.plan_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return row;
}

PlanRow auto_row(const std::vector<PlanRow>& rows) {
  // Where everything can be held, it is.
  const auto keep = std::ranges::find_if(rows, [](const PlanRow& one) { return one.name() == "keep" && one.fits(); });
  PlanRow row = keep != rows.end() ? *keep : *std::ranges::min_element(rows, comes_before);
  row.made_by = row.fits() ? row.name() : "";
  set_planner(row, auto_planner().name);
  row.options.clear();
  row.options_text.clear();
  row.plan_seconds = 0;
  for (const PlanRow& other : rows) *row.plan_seconds += other.plan_seconds.value_or(0);
  return row;
}

std::vector<std::string> planners_or_all(const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const std::string& text : names) {
    const PlannerChoice choice = choose_planner(text);
    const std::string options = choice.options.to_string();
    const std::string name = std::string(choice.planner.name) + (options.empty() ? "" : ":" + options);
    if (std::ranges::find(found, name) == found.end()) found.push_back(name);
  }
  if (found.empty())
    for (const Planner& planner : planners()) found.emplace_back(planner.name);
  return found;
}

namespace {

// Whether more bytes of what there is would not do.
bool lacks_a_tier(const PlanRow& row) {
  return !row.refusal->of_bytes() || (row.refusal->tier != Tier::device && row.refusal->budget == 0);
}

}  // namespace

bool comes_before(const PlanRow& a, const PlanRow& b) {
  if (a.fits() != b.fits()) return a.fits();
  if (a.fits()) return a.step_seconds < b.step_seconds;
  if (lacks_a_tier(a) != lacks_a_tier(b)) return lacks_a_tier(b);
  const std::optional<std::int64_t> of_a = a.missing_bytes(), of_b = b.missing_bytes();
  if (of_a && of_b) return *of_a < *of_b;
  return of_a.has_value() && !of_b.has_value();
}

}  // namespace outsize
