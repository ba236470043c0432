#pragma once

#include <limits>

#include "plan/chain/chain_checkpoint.h"
#include "plan/reckon/lives.h"

namespace outsize {

// What happens to a result that was made again for one reader of backward and has others, or was made on the way to another result.
enum class Again : std::uint8_t {
  held,    // it stays until its last reader ("speed-centric")
  cached,  // it stays while there is room: the least recently used go first (TSPLIT's LRU)
  remade,  // it goes at once and is made again for each ("memory-centric")
};

// What Again::cached holds.
struct RecomputeCache {
  IdVector<ValueId, std::int64_t> bytes;  // of each value, by id
  std::int64_t capacity = 0;              // of results that were made again, beside what the run at hand needs
};

// The runs of a graph in which the values of `dropped` (by value id) do not outlive forward: backward makes them again from the
// nearest ancestors that are there. Only what ops of forward make can be dropped; outputs of the graph stay. Updates run as early
// as their inputs and the last reader of what they replace allow. `cache` is for Again::cached alone. `order`: of the ops that are
// no updates, those of forward first; empty: the usual. No runs at all where these would be more than `most`: made again for every
// reader, results may be twice as many with every block whose branches part and join.
Runs with_recomputation(const Graph& graph, const IdVector<ValueId, bool>& dropped, Again again, const RecomputeCache& cache = {},
                        const std::vector<OpId>& order = {}, std::int64_t most = std::numeric_limits<std::int64_t>::max());

// A layer of a chain that stands for a graph: what x_{i+1} is, and what runs as B_i.
struct RecomputeLayer {
  std::vector<ValueId> values;
  std::vector<OpId> backward;
};

// The runs of a graph that follow `steps` of the chain of `layers`. Backward keeps the order that it has without recomputation;
// before the first op of a layer's backward come the steps before it. What is in no layer lives for the op that reads it next.
// `order`: of all ops, as eager_order() gives it; empty: found here.
Runs with_chain_steps(const Graph& graph, const std::vector<RecomputeLayer>& layers, const std::vector<ChainStep>& steps,
                      const std::vector<OpId>& order = {});

}  // namespace outsize
