#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "outsize/reports.h"
#include "outsize/requests.h"

namespace outsize::cli {

// Keys profile, measured_ops, disturbed_ops, distinct_ops, scaled_ops, scales.
nlohmann::ordered_json to_json(const Coverage& coverage);
// An object of the options that a planner was given.
nlohmann::ordered_json to_json(const std::vector<GivenOption>& options);
// The object that `plan` prints and `compare` has a row of: its keys are what other tools rely on.
nlohmann::ordered_json to_json(const Facts& facts, const Yardstick& yardstick, const PlanRow& row);
// The keys `smallest_budget_bytes`, `fitting_planners`, `untried_planners`, `fitting_batch` and `peak_at` of a refusal's object.
// What was not found is null; so are the planners that fit where none was found and not all were tried.
nlohmann::ordered_json to_json(const Advice& advice);

void print_json(const nlohmann::ordered_json& object);

// Tells on standard error of times that were measured while something else ran.
void warn_if_disturbed(const Coverage& coverage);
// Tells on standard error of which size a plan is, where --image own was given: without data there are no samples whose sizes it
// could be for.
void warn_of_own_sizes(const ModelRequest& model, const Facts& facts);
// --dump prints text, not JSON.
void expect_no_dump(bool json, const PlanningRequest& planning);

}  // namespace outsize::cli
