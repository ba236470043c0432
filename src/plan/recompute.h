#pragma once

#include "plan/lives.h"

namespace outsize {

// What happens to a result that was made again for one reader of backward and has others.
enum class Again : std::uint8_t {
  held,    // it stays until its last reader ("speed-centric")
  remade,  // it is made again for each ("memory-centric")
};

// The runs of a graph in which the values of `dropped` (by value id) do not outlive forward: backward makes them again from the
// nearest ancestors that are there. Only what ops of forward make can be dropped; outputs of the graph stay. Updates run as early
// as their inputs and the last reader of what they replace allow.
Runs with_recomputation(const Graph& graph, const std::vector<bool>& dropped, Again again);

}  // namespace outsize
