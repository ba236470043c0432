#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/opdef.h"
#include "ops/kernel.h"
#include "plan/tiles/tile_lines.h"

namespace outsize {

// The boxes of one value in one tile. `present` is the hull of the others and what the tile's piece holds.
struct TileBoxes {
  Box present;
  Box compute;  // computed in this tile; for pushed gradients: complete here, and what the ops downstream consume
  Box carry;    // taken over from the neighbouring tile
  Box owned;    // disjoint over tiles, covering the value
};

// The window algebra of a pass: which boxes every op reads and writes in every tile. Boxes are separable, so one line of tiles a
// dimension is computed and a tile's boxes are put together from the lines.
class PassTiles {
 public:
  // `read_later`, and what is thrown: as PassRoles.
  PassTiles(const Graph& graph, const Pass& pass, const IdSet<ValueId>& read_later)
      : PassTiles(TileLines(std::make_shared<const PassRoles>(graph, pass, read_later)), pass) {}
  // `pass` is the one of the lines but for its cuts.
  PassTiles(TileLines& lines, const Pass& pass);

  const Graph& graph() const { return graph_; }
  const Pass& pass() const { return pass_; }
  // As those of PassRoles.
  static constexpr int kNoDim = PassRoles::kNoDim;
  int dim_of(ValueId value, int dim) const { return roles_->dim_of(value, dim); }
  // Tiles a dimension of the driver.
  const Dims& grid() const { return grid_; }
  std::int64_t tiles() const { return grid_.product(); }
  // The dimension whose tiles follow each other: the shared one, else the last with more than one tile.
  int fast_dim() const { return fast_dim_; }
  // The tile before (`by` = −1) or after (+1) in processing order along the fast dimension; rank 0 when there is none.
  Dims neighbour(const Dims& tile, int by) const;
  // The tile of rank `ordinal` in processing order.
  Dims tile_at(std::int64_t ordinal) const;

  OpMode mode(int op_of_pass) const { return roles_->mode(static_cast<std::size_t>(op_of_pass)); }
  ValueClass value_class(ValueId value) const { return roles_->value_class(value); }
  bool shared(ValueId value) const { return roles_->shared(value); }
  bool leaves(ValueId value) const { return roles_->leaves(value); }
  // All values the pass touches, ascending, and where one of them stands there.
  const std::vector<ValueId>& values() const { return roles_->values(); }
  std::size_t slot(ValueId value) const { return roles_->slot(value); }

  TileBoxes boxes(ValueId value, const Dims& tile) const;
  // The box of output 0 (gather, front) or of the driver input (push) that drives the op's call in the tile; may be empty.
  Box driving_box(int op_of_pass, const Dims& tile) const;
  // The boxes of the op's call in the tile: gather() or push() from driving_box().
  CallBoxes call(int op_of_pass, const Dims& tile) const;
  // That call, with the box in which it applies what must be applied once (OpDef::has_owned_terms).
  Call call_at(int op_of_pass, const Dims& tile) const;
  // Whether a value is what runs down from the driver: itself, or a gradient pushed or fronted.
  bool flows(ValueId value) const { return roles_->flows(value); }
  // The part of such a value that the ops downstream take in the tile; the rest of what is present is another tile's to take.
  Box flowing(ValueId value, const Dims& tile) const;
  // Whether the tiles together compute all of `box`.
  bool computes(ValueId value, const Box& box) const;
  // Whether tiles add to what earlier tiles have stored of a value that is made here and leaves the pass.
  bool adds_up(ValueId value) const;
  // Whether such a value must be zero before the first tile: tiles add to it, or some of it is stored by none.
  bool begins_at_zero(ValueId value) const;
  // The box of such a value that a tile stores, or adds to what is stored. Not for values that are combined over tiles.
  Box stored(ValueId value, const Dims& tile) const;

  // How many tiles from `tile` on, along the fast dimension, have the same boxes up to a shift by a fixed step a value.
  std::int64_t repeats(const Dims& tile) const;
  // That shift along the fast dimension from `tile` to the next one.
  std::int64_t step(ValueId value, const Dims& tile) const;

 private:
  PassTiles(TileLines&& lines, const Pass& pass) : PassTiles(lines, pass) {}
  void check_reductions() const;
  bool computed_twice(ValueId value) const;
  bool stored_disjoint(ValueId value) const;
  void check_updates() const;
  OpSite site(int op_of_pass) const { return {graph_, graph_.op(pass_.ops[static_cast<std::size_t>(op_of_pass)])}; }
  bool same_up_to_step(const Dims& a, const Dims& b) const;
  const TileLine& line(int dim) const { return *lines_[static_cast<std::size_t>(dim)]; }
  bool calls_move_alike(const Dims& a, const Dims& b) const;

  std::shared_ptr<const PassRoles> roles_;
  const Graph& graph_;
  const Pass& pass_;
  Dims grid_;
  int fast_dim_ = 0;
  std::vector<std::shared_ptr<const TileLine>> lines_;  // by dimension of the driver
};

// For each pass of the plan, those of the values it touches that a later step reads (or the graph puts out) before they are made
// again.
std::vector<IdSet<ValueId>> values_read_later(const Graph& graph, const Plan& plan);

}  // namespace outsize
