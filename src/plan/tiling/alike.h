#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/id_set.h"
#include "plan/tiling/pass_cost.h"

namespace outsize {

// By op, the number of its kind: ops of one kind cost the same in the same tiles, if their values wait in the same tiers. Networks
// are made of equal blocks, so that there are far fewer kinds than ops.
IdVector<OpId, std::int32_t> alike_ops(const PlanRequest& request);

// What was reckoned of passes, for those that are like them: the same kinds of ops on values that are connected alike and wait in
// the same tiers. Holds for one request, whatever its budgets.
class PassMemory {
 public:
  explicit PassMemory(const PlanRequest& request);

  // The number of the kind of pass. `read_later`: as PassRoles.
  std::int32_t kind_of(const Plan& plan, const Pass& pass, const IdSet<ValueId>& read_later);

  struct Known {
    std::optional<PassCost> cost;
    std::optional<std::int64_t> typical_bytes;
  };
  // What is known of passes of a kind in tiles of these extents of the driver. `learned`: those of the tiles whose workspace stands
  // for that of all; of rank 0 where it is not known.
  Known& at(std::int32_t kind, const Dims& learned, const Dims& extents);

 private:
  static constexpr std::int32_t kNone = -1;

  const Graph& graph_;
  const IdVector<OpId, std::int32_t> kinds_;
  IdVector<ValueId, std::int32_t> number_;  // by value: in the pass at hand; kNone between passes
  std::map<std::vector<std::int32_t>, std::int32_t> passes_;
  std::map<std::vector<std::int64_t>, Known> known_;
};

}  // namespace outsize
