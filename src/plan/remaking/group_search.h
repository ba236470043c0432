#pragma once

#include <optional>

#include "plan/remaking/sequence_search.h"
#include "plan/remaking/tile_groups.h"

namespace outsize {

// The most bytes that an op of the problem takes by itself: what is there throughout, what it reads and makes, and workspace.
std::int64_t largest_op(const RemakeProblem& problem);

// The problem with tile groups for a limit: which values are in tiles is searched by random changes, at first until every op fits by
// itself, then until a sequence is found, then for a fast one. Nothing where no sequence is found.
std::optional<RemakeProblem> with_tile_groups(const PlanRequest& request, const OpCosts& costs, const std::vector<OpId>& order,
                                              std::int64_t limit);

}  // namespace outsize
