#include "plan/planner.h"

#include "base/text.h"
#include "plan/keep.h"
#include "plan/recompute_cheap.h"

namespace outsize {

const std::vector<Planner>& planners() {
  static const std::vector<Planner> all{
      {"keep", "everything stays on the device from its production to its last use", plan_keep},
      {"recompute-cheap", "as keep, but bandwidth-bound results are made again in backward", plan_recompute_cheap},
  };
  return all;
}

const Planner& find_planner(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Planner& planner : planners()) {
    if (planner.name == name) return planner;
    names.push_back(planner.name);
  }
  const std::string near = did_you_mean(name, names);
  user_error("there is no planner '{}'{}", name, near.empty() ? "; `outsize planners` lists those there are" : near);
}

}  // namespace outsize
