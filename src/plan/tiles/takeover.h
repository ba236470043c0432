#pragma once

#include <vector>

#include "plan/tiles/tiles.h"

namespace outsize {

// A result of a pass that is stored, tile by tile, in the bytes of a value that the pass reads for the last time: both live in the
// same lower tier and are of the same type, and no tile reads of the one what an earlier tile, or itself, has stored of the other.
struct Takeover {
  ValueId from;  // is read
  ValueId to;    // is stored
};

// Those of a pass, each value in one at most: a gradient takes over its activation, or else another value that ends there.
// `read_later`: as PassRoles. Each tile of each dimension is looked at once for a pair.
std::vector<Takeover> takeovers_of(const PassTiles& tiles, const Plan& plan, const IdSet<ValueId>& read_later);

// Those of all passes of a plan as they are cut.
std::vector<Takeover> takeovers_of(const Graph& graph, const Plan& plan);

// The ops of a pass, as indices into it, in the order in which its tiles run them: what takes over is made after the reductions
// that read what it overwrites (a convolution's gradient of the weight before that of its input).
std::vector<int> order_of_calls(const PassTiles& tiles, const std::vector<Takeover>& takeovers);

}  // namespace outsize
