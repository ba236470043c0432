#pragma once

#include <memory>
#include <optional>

#include "plan/remaking/sequence_search.h"
#include "plan/remaking/tile_groups.h"

namespace outsize {

// The most bytes that an op of the problem takes by itself: what is there throughout, what it reads and makes, and workspace.
std::int64_t largest_op(const RemakeProblem& problem);

// Looks for tile groups. Which values are read in tiles is searched by random changes: until every op fits by itself, until a
// sequence is found, then for a fast one. The effort is counted in ops that eviction walks over: so many for each of `moves`.
class GroupSearch {
 public:
  // `order`: of all ops of the graph. `limit`: about what the units are to run in. The search holds on to request and costs.
  GroupSearch(const PlanRequest& request, const OpCosts& costs, const std::vector<OpId>& order, std::int64_t limit,
              std::int64_t moves);
  ~GroupSearch();

  // The problem with the best tile groups that were found for a limit; nothing where no sequence was. A search for another limit
  // goes on from what the one before it found.
  std::optional<RemakeProblem> run(std::int64_t limit);

 private:
  class Search;
  std::unique_ptr<Search> search_;
};

}  // namespace outsize
