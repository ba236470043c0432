#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/planner.h"
#include "plan/tiles/tile_walk.h"

namespace outsize {

// What tiles of a pass cost, found by doing what a tile does with pieces that are nothing but sizes.
class TileCosts : private TileActions {
 public:
  // `workspace`: of a tile's calls, by op of the pass; where it is not known (nullptr) it is taken in proportion to that of whole
  // values, which the request may have.
  TileCosts(const PlanRequest& request, const Plan& plan, const PassTiles& tiles, const std::vector<std::int64_t>* workspace);

  // Of one tile.
  struct Cost {
    std::int64_t bytes = 0;   // the most that its pieces and a call's workspace are at once
    std::int64_t stored = 0;  // besides, with copies ahead: pieces that stay while the next tile runs
    double compute_seconds = 0;
    double in_seconds = 0;  // as those of PassCost
    double out_seconds = 0;
    double disk_seconds = 0;
  };
  Cost of(const Dims& tile);

  // The bytes that are held from the first of these tiles to the last: rows that are carried, and windows that are loaded ahead.
  std::int64_t held(std::span<const Dims> tiles) const;

 private:
  struct Piece {
    ValueId value;
    Box box;
    std::int64_t bytes = 0;
    std::int32_t first = -1, last = -1;  // actions that touch it
    std::int32_t in_place_of = -1;
  };
  // A call, with what it reads and makes where that is all of a piece; −1: it is not.
  struct Made {
    std::int32_t action;
    int op_of_pass;
    std::size_t reads, writes;  // where they begin in `operands_`
  };

  bool on_device(ValueId value) override;
  std::int32_t loaded(ValueId value) override;
  std::int32_t piece(ValueId value, const Box& box, const char* part) override;
  void load(const TileOperand& from, const TileOperand& to) override;
  void store(const TileOperand& from, const TileOperand& to) override;
  void copy(const TileOperand& from, const TileOperand& to) override;
  void combine(Combine how, const TileOperand& from, const TileOperand& to) override;
  void zero(const TileOperand& to) override;
  void call(int op_of_pass, const Call& call, std::span<const TileOperand> reads, std::span<const TileOperand> writes) override;
  void take_saved(const TileOperand& to) override;
  void save(const TileOperand&) override {}  // right after the action that makes it
  void keep_stored(const TileOperand& from) override;

  void touch(const TileOperand& operand);
  void count_load(ValueId value, const Box& box);
  void choose_in_place();
  std::int64_t most_at_once();
  std::int64_t bytes_of(ValueId value, const Box& box) const;
  std::int64_t workspace_in_proportion(OpId op, const Call& call) const;

  const PlanRequest& request_;
  const Plan& plan_;
  const PassTiles& tiles_;
  const std::vector<std::int64_t>* workspace_;
  const bool ahead_;
  std::vector<int> order_;
  TileWalk walk_;

  // Of the tile at hand.
  Dims at_;
  Cost cost_;
  std::int32_t action_ = 0;  // how many there were
  std::vector<Piece> pieces_;
  std::vector<Made> calls_;
  std::vector<std::int32_t> operands_;
  std::vector<std::int64_t> change_;  // by action: bytes that begin with it, or have ended before it
};

}  // namespace outsize
