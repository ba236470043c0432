#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "plan/remaking/problem.h"
#include "plan/tiling/micro_ops.h"

namespace outsize {

// What is read tile by tile, and is not whole for those that read it so.
struct InTiles {
  std::set<std::pair<ValueId, OpId>> within;  // the value is made within the unit of this reader: once more for each such unit
  std::set<ValueId> with;                     // gradients that are made once, in one unit with all that read them

  auto operator<=>(const InTiles&) const = default;
};

// The units of a step in which some values are read in tiles. A value is whole as well where any op reads it whole. The gradient of
// a weight is made with the weight's update, by rows of the weight.
class TileGroups {
 public:
  // `order`: of all ops of the graph. `limit`: bytes within which they are to run.
  TileGroups(const PlanRequest& request, const OpCosts& costs, std::vector<OpId> order, std::int64_t limit);

  // Nothing where that cannot be: an op cannot run tile by tile, or a unit would have to stand in two places.
  std::optional<Table<RunUnit>> units(const InTiles& in_tiles);
  // Whether a value is of a kind that may be made within the units that read it, or with all that read it.
  bool may_be_within(ValueId value) const;
  bool may_be_with(ValueId value) const;
  // How many units have been cut into tiles so far: the work is almost all in that.
  std::int64_t reckoned() const { return std::ssize(known_); }

 private:
  // The ops of a unit, in their order, and what it makes for those after it.
  struct Members {
    std::vector<OpId> ops;
    std::vector<ValueId> makes;
    std::vector<ValueId> inner;  // what it makes for itself alone, though it is whole elsewhere
    auto operator<=>(const Members&) const = default;
  };

  bool is_cut_by_rows(ValueId value) const;
  OpId row_update(ValueId gradient) const;
  void add_makers(OpId op, const InTiles& in_tiles, std::set<OpId>& ops) const;
  bool is_whole(ValueId value, const InTiles& in_tiles) const;
  const std::optional<SplitRun>& tiles_of(const Members& members);
  std::vector<std::pair<Pieces, PieceForm>> ways_to_cut(const Members& members);
  std::vector<OpId> runs_before(const RunUnit& unit, const Table<RunUnit>& units) const;
  bool put_in_order(Table<RunUnit>& units) const;
  bool is_in_order(const Table<RunUnit>& units) const;

  const Graph& graph_;
  const std::int64_t channel_block_;
  double seconds_a_byte_ = 0;
  const std::vector<OpId> order_;
  MicroOps micro_;
  std::map<Members, std::optional<SplitRun>> known_;
};

}  // namespace outsize
