#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "session.h"

namespace outsize::cli {

// What would have helped where a budget was refused: only what was tried and found to be true.
struct Advice {
  std::optional<std::int64_t> smallest_budget;  // bytes, the smallest found that the same planner fits in …
  std::string peak;                             // … and what is at the peak there: "op conv1"
  std::vector<std::string> fitting_planners;    // that fit in the budget given
  std::vector<std::string> untried_planners;    // for which there was no time
  std::optional<std::int64_t> fitting_batch;    // samples, the most found that the same planner fits
};

// A refused budget with its advice in the message, behind the first sentence of the refusal.
class AdvisedError : public BudgetError {
 public:
  AdvisedError(const Refusal& refusal, const PrepareOptions& options, Advice advice);
  const Advice& advice() const { return advice_; }

 private:
  Advice advice_;
};

// The same programs for samples x of another shape, that of the step first; empty where there is no other.
using Rebuild = std::function<std::vector<StepGraph>(const Dims& x_shape)>;
// Of the session's programs, where the model is of the zoo: a file has the sizes that are in it. Holds on to its arguments.
Rebuild rebuild_of(const Session& session, const ModelFlags& model, const TrainingOptions& training);

// Looks for what helps: a budget and planners for session.advice_seconds each, a batch for half of that, not counting the last plan
// that was begun in that time.
Advice advise(Session& session, const PrepareOptions& options, const Refusal& refusal, const Rebuild& rebuild);

// Plans the training step. Throws AdvisedError where the budget cannot be met.
Prepared prepare_or_advise(Session& session, const PrepareOptions& options, const Rebuild& rebuild);

// The keys `smallest_budget_bytes`, `fitting_planners`, `untried_planners`, `fitting_batch` and `peak_at` of a refusal's object.
// What was not found is null; so are the planners that fit where none was found and not all were tried.
nlohmann::ordered_json advice_json(const BudgetError& error);

}  // namespace outsize::cli
