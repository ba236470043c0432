#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/box.h"
#include "base/table.h"
#include "graph/graph.h"
#include "plan/analysis/dominators.h"

namespace outsize {

// SFT's view of ops (its Listings 1 to 4, as corrected): each runs over an iteration space, and every dimension of what it reads or
// makes belongs to one dimension of that space.

// A range of the iteration space needs the range [⌊(lo · numerator + low) / denominator⌋, ⌈(hi · numerator + high) / denominator⌉)
// of a dimension read: σ is numerator / denominator, δ is (high − low) / denominator.
struct TileWindow {
  std::int32_t iteration = 0;  // dimension of the iteration space
  std::int64_t numerator = 1;
  std::int64_t denominator = 1;
  std::int64_t low = 0;
  std::int64_t high = 0;

  Interval range(Interval of) const;
  // From the size alone, as Listing 4 has it: σ · size + δ, cut to a whole number.
  std::int64_t size(std::int64_t of) const { return (of * numerator + high - low) / denominator; }
};

struct TileInput {
  static constexpr std::int32_t kOutside = -1;
  std::int32_t source = kOutside;  // the node that makes it
  Table<std::int64_t> extent;      // whole, by dimension
  Table<TileWindow> windows;       // by dimension
};

struct TileNode {
  static constexpr std::int32_t kReduced = -1;
  Table<std::int64_t> iterations;  // the whole iteration space
  Table<std::int32_t> to_output;   // by dimension of it: that of the output, or kReduced
  bool combines = false;           // what disjoint tiles give adds up to the output, which is complete after all of them
  Table<TileInput> inputs;
};

// Nodes in an order in which they can run.
using TileGraph = Table<TileNode>;

// The nodes of these ops, with what they read but parameters and states. σ and δ are found from OpDef::gather of single elements in
// the middle; a dimension whose window is no such function is read whole.
TileGraph tile_graph(const Graph& graph, std::span<const OpId> ops);

// FTdimsIntersect: the dimensions of the last node's output (of its driver, where it combines) that tiles can be cut along, so that
// every node from the first on that reads of a tile is cut likewise.
std::vector<std::int32_t> ft_dims(const TileGraph& graph);

// The part of each iteration space that one tile takes, and of everything read.
template <class Extent>
struct TileSpaces {
  Table<Table<Extent>> iterations;     // by node, dimension
  Table<Table<Table<Extent>>> inputs;  // by node, input, dimension
};

// computeTileSize: nodes that no other reads take one of `tiles` parts, rounded up, of each dimension that `divided` (by node,
// dimension of the iteration space) names; the others as much as their readers need.
TileSpaces<std::int64_t> tile_sizes(const TileGraph& graph, const Table<Table<bool>>& divided, std::int64_t tiles);

// The same from ranges, of the tile of number `index` along every dimension. Sizes alone do not see that a window over halved rows
// may begin and end within a pair.
TileSpaces<Interval> tile_ranges(const TileGraph& graph, const Table<Table<bool>>& divided, std::int64_t tiles, std::int64_t index);

// Nodes from the first to the last, which is the first after them that fits.
struct TileSegment {
  std::int32_t first = 0;
  std::int32_t last = 0;
  bool operator==(const TileSegment&) const = default;
};

// findSegments: what must run tile by tile, from where until where it can be stored. Nothing where a segment would have no end, or
// reads what another does not store.
std::optional<std::vector<TileSegment>> find_segments(const Followers& followers, const Table<bool>& must_tile);

}  // namespace outsize
