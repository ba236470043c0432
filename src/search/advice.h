#pragma once

#include <functional>
#include <span>
#include <vector>

#include "graph/step_graph.h"
#include "outsize/reports.h"
#include "search/prepare.h"

namespace outsize {

// A run whose budget was refused, and the time there is to find what would help.
struct AdviceRequest {
  const StepGraph& step;
  std::span<const StepGraph> others;  // further programs of the run, which a budget must do for as well
  Target& target;
  const Profile& profile;
  const PrepareOptions& options;
  double seconds = 0;  // for a budget and for planners each, and half of it for a batch, not counting the last plan that was begun
  // The same programs for samples x of another shape, that of the step first; empty where there is no other.
  std::function<std::vector<StepGraph>(const Dims& x_shape)> rebuild = nullptr;
};

// Looks for what helps: a budget, planners, a batch; and puts it into words behind the refusal.
Refused advised(const AdviceRequest& request, const Refusal& refusal);

}  // namespace outsize
