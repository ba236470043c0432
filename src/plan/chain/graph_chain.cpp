#include "plan/chain/graph_chain.h"

#include <algorithm>
#include <numeric>

#include "plan/analysis/groups.h"
#include "plan/analysis/order.h"

namespace outsize {

GraphChain chain_of(const PlanRequest& request) {
  const Graph& graph = request.graph;
  const std::vector<Group> groups = groups_of(graph);
  const std::size_t layers = groups.size();
  GraphChain made;
  const Runs runs = eager_order(graph);
  made.lives = lives_of(request, costs_of(request), runs);

  // The layer whose backward (or, for the others, forward) a run belongs to; updates belong to the run before them.
  IdVector<OpId, std::size_t> layer_of(graph.op_count(), 0);
  for (std::size_t g = 0; g < layers; ++g) {
    for (OpId id : groups[g].forward) layer_of[id] = g;
    for (OpId id : groups[g].backward) layer_of[id] = g;
  }
  IdVector<ValueId, std::size_t> x_of(graph.value_count(), layers + 2);  // by value: the i of its x_i
  if (layers > 0 && groups[0].input) x_of[groups[0].input] = 0;
  for (std::size_t g = 0; g < layers; ++g) {
    for (ValueId saved : groups[g].saved) x_of[saved] = g + 1;
    if (groups[g].output) x_of[groups[g].output] = g + 1;
  }

  Chain& chain = made.chain;
  chain.forward.assign(layers, 0);
  chain.backward.assign(layers, 0);
  chain.forward_extra.assign(layers, 0);
  chain.backward_extra.assign(layers, 0);
  chain.x.assign(layers + 1, 0);
  chain.y.assign(layers + 1, 0);
  for (const Life& life : made.lives.all) {
    const std::size_t i = x_of[life.value];
    if (i <= layers) chain.x[i] += life.bytes;
  }
  // y_i is the gradient of what leads into layer i, as large as that.
  IdVector<ValueId, std::int64_t> bytes_of(graph.value_count(), 0);
  for (const Life& life : made.lives.all) bytes_of[life.value] = life.bytes;
  for (std::size_t g = 0; g < layers; ++g)
    if (groups[g].output) chain.y[g + 1] = bytes_of[groups[g].output];

  made.fixed = made.lives.persistent;
  std::vector<std::int64_t> sums(layers + 1);  // of x_0 … x_i
  std::partial_sum(chain.x.begin(), chain.x.end(), sums.begin());
  const std::vector<std::int64_t> bytes = made.lives.bytes();
  made.forward_bytes.assign(layers, 0);
  made.backward_bytes.assign(layers, 0);
  std::size_t layer = 0;
  bool backward = false;
  for (std::int64_t p = 0; p < runs.size(); ++p) {
    const Op& op = graph.op(runs[p]);
    if (op.phase != Phase::update) {
      layer = layer_of[runs[p]];
      backward = op.phase == Phase::backward;
    }
    (backward ? chain.backward : chain.forward)[layer] += made.lives.seconds[p];
    const std::int64_t counted = sums[layer + 1] + (backward ? chain.y[layer] + chain.y[layer + 1] : 0);
    std::int64_t& extra = (backward ? chain.backward_extra : chain.forward_extra)[layer];
    extra = std::max(extra, bytes[p] - made.fixed - counted);
    std::int64_t& most = (backward ? made.backward_bytes : made.forward_bytes)[layer];
    most = std::max(most, bytes[p] - made.fixed);
  }
  return made;
}

}  // namespace outsize
