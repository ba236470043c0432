#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "outsize/reports.h"
#include "outsize/requests.h"

namespace outsize::cli {

// Keys profile, measured_ops, disturbed_ops, distinct_ops, scaled_ops, scales.
nlohmann::ordered_json to_json(const Coverage& coverage);
// An object of the options that a planner was given.
nlohmann::ordered_json to_json(const std::vector<GivenOption>& options);
// The planner whose plan it is, where another has asked it; else null.
nlohmann::ordered_json made_by_of(const PlanRow& row);
// The object that `plan` prints and `compare` has a row of: its keys are what other tools rely on.
nlohmann::ordered_json to_json(const Facts& facts, const Yardstick& yardstick, const PlanRow& row);
// The keys `smallest_budget_bytes`, `fitting_planners`, `untried_planners`, `fitting_batch`, `peak_at` and `fitting_command` of a
// refusal's object.
// What was not found is null; so are the planners that fit where none was found and not all were tried.
nlohmann::ordered_json to_json(const Advice& advice);

// Keeps the words of the command line, of which the commands below are made.
void keep_words(int argc, char** argv);
// The command line changed as was found to fit: another planner in the same budget, else a budget that there is, else a smaller
// batch; nothing where none was found.
std::optional<std::string> fitting_command(const Advice& advice);
// The command line with the first of some budgets, from `needed` bytes up, that `task` fits and the machine has.
std::optional<std::string> command_with_memory(Task task, std::int64_t needed);
// Says why a budget is refused, and last the command that fits.
void say_refused(const std::string& message, const std::optional<std::string>& command);

void print_json(const nlohmann::ordered_json& object);

// Tells on standard error of times that were measured while something else ran.
void warn_if_disturbed(const Coverage& coverage);
// Tells on standard error of which size a plan is, where --image own was given: without data there are no samples whose sizes it
// could be for.
void warn_of_own_sizes(const ModelRequest& model, const Facts& facts);
// --dump prints text, not JSON.
void expect_no_dump(bool json, const PlanningRequest& planning);

}  // namespace outsize::cli
