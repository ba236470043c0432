#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "plan/remaking/problem.h"
#include "plan/tiling/micro_ops.h"

namespace outsize {

// The units of a step in which some values are never whole on the device: each exists in tiles alone. What makes such a result of
// forward runs within every unit that reads it; what makes such a gradient and all that read it are one unit. The gradient of a
// weight is made with the weight's update, by rows of the weight.
class TileGroups {
 public:
  // `order`: of all ops of the graph.
  TileGroups(const PlanRequest& request, std::vector<OpId> order);

  // Nothing where that cannot be: an op cannot run tile by tile, or a unit would have to stand in two places.
  std::optional<Table<RunUnit>> units(const std::set<ValueId>& in_tiles);
  // Whether a value is of a kind that may be in tiles alone.
  bool may_be(ValueId value) const;

 private:
  using Members = std::pair<std::vector<OpId>, std::vector<ValueId>>;  // the ops of a unit, and what outlives it

  bool by_forward(ValueId value) const;
  OpId row_update(ValueId gradient) const;
  void add_makers(OpId op, const std::set<ValueId>& in_tiles, std::set<OpId>& ops) const;
  const std::optional<SplitRun>& tiles_of(const Members& members);
  std::vector<std::pair<Pieces, PieceForm>> ways_to_cut(const Members& members);
  std::vector<OpId> runs_before(const RunUnit& unit, const Table<RunUnit>& units) const;
  bool put_in_order(Table<RunUnit>& units) const;
  bool is_in_order(const Table<RunUnit>& units) const;

  const Graph& graph_;
  const std::int64_t channel_block_;
  const std::vector<OpId> order_;
  MicroOps micro_;
  std::map<Members, std::optional<SplitRun>> known_;
};

}  // namespace outsize
