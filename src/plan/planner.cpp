#include "plan/planner.h"

#include <algorithm>

#include "base/text.h"

namespace outsize {

const Planner& auto_planner() {
  static const Planner planner{"auto", "the fastest plan of all planners; the default", kOurs, nullptr, {kAutoEffort}};
  return planner;
}

const Planner& find_planner(std::string_view name) {
  if (name == auto_planner().name) return auto_planner();
  std::vector<std::string_view> names{auto_planner().name};
  for (const Planner& planner : planners()) {
    if (planner.name == name) return planner;
    names.push_back(planner.name);
  }
  const std::string near = did_you_mean(name, names);
  user_error("there is no planner '{}'{}", name, near.empty() ? "; `outsize planners` lists those there are" : near);
}

PlannerChoice choose_planner(std::string_view text) {
  const std::size_t colon = text.find(':');
  const Planner& planner = find_planner(text.substr(0, colon));
  if (colon == std::string_view::npos) return {planner, {}};
  const std::string_view options = text.substr(colon + 1);
  if (options.empty()) user_error("planner {}: expected OPTION=VALUE after the colon, found nothing", planner.name);
  return {planner, PlannerOptions(planner.name, planner.options, options)};
}

}  // namespace outsize
