#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "plan/tiles/pass_roles.h"

namespace outsize {

// What one tile has of one value along one dimension; see TileBoxes.
struct TileIntervals {
  Interval need, compute, carry, owned;
};

// What the tiles along one dimension of a pass's driver have of every value, and the part that drives every op.
class TileLine {
 public:
  TileLine(std::size_t values, std::size_t ops, std::size_t tiles) : tiles_(tiles), of_(values * tiles), driving_(ops * tiles) {}

  std::size_t tiles() const { return tiles_; }
  // By tile, of the value in that slot of the pass.
  std::span<TileIntervals> of(std::size_t slot) { return std::span(of_).subspan(slot * tiles_, tiles_); }
  std::span<const TileIntervals> of(std::size_t slot) const { return std::span(of_).subspan(slot * tiles_, tiles_); }
  // By tile, of the op of that rank in the pass: of its output 0 (gather, front) or of its driver input (push).
  std::span<Interval> driving(std::size_t op) { return std::span(driving_).subspan(op * tiles_, tiles_); }
  std::span<const Interval> driving(std::size_t op) const { return std::span(driving_).subspan(op * tiles_, tiles_); }

 private:
  std::size_t tiles_;
  std::vector<TileIntervals> of_;  // by slot, then tile
  std::vector<Interval> driving_;  // by op, then tile
};

// The line of the tiles that `cuts` makes along dimension `dim` of the driver; along `fast_dim` rows are carried from tile
// to tile. Throws UserError where it cannot be cut so.
TileLine tile_line(const PassRoles& roles, int dim, std::span<const std::int64_t> cuts, int fast_dim);

// The lines of one pass, each made once however many cuts of the other dimensions it is tried with.
class TileLines {
 public:
  explicit TileLines(std::shared_ptr<const PassRoles> roles) : roles_(std::move(roles)) {}

  const std::shared_ptr<const PassRoles>& roles() const { return roles_; }
  // tile_line() of these.
  std::shared_ptr<const TileLine> line(int dim, const std::vector<std::int64_t>& cuts, int fast_dim);

 private:
  std::shared_ptr<const PassRoles> roles_;
  std::map<std::tuple<int, bool, std::vector<std::int64_t>>, std::shared_ptr<const TileLine>> known_;
};

}  // namespace outsize
