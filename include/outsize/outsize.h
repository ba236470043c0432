#pragma once

#include "outsize/budget.h"
#include "outsize/error.h"
#include "outsize/listings.h"
#include "outsize/reports.h"
#include "outsize/requests.h"
#include "outsize/selfcheck.h"
#include "outsize/text.h"

// Outsize trains deep networks that do not fit the device: the same mathematics inside a budget in bytes, or a refusal before the
// first step that says what lacks how many bytes. All functions throw UserError where a request makes no sense or a file cannot be
// read or written; a budget that cannot be met is part of their answer.
namespace outsize {

// What the task comes to: its model, the device, the budgets in bytes.
Facts describe(const Task& task, const Observer& observer = {});

// Whether the task's planner fits the budget, and what its plan costs. `explain`: also what the plan does with the value of that
// name.
PlanReport plan(const Task& task, const Observer& observer = {}, const std::string& explain = {});

// What each planner, given as PlanningRequest::planner is, makes of the budget; all planners where none is named.
Comparison compare(const Task& task, const std::vector<std::string>& planners = {}, const Observer& observer = {});

// The largest batch (image, width, depth) that each planner reaches within the budget.
FitReport fit(const Task& task, const FitRequest& request = {}, const Observer& observer = {});

// Plans, checks and trains.
TrainingReport train(const TrainingRequest& request, const Observer& observer = {});

// The loss, and where there are labels the accuracy, of a model with `weights` on `data`, within the budget and without training.
EvaluationReport evaluate(const Task& task, const std::string& weights, const std::string& data, const Observer& observer = {});

}  // namespace outsize
