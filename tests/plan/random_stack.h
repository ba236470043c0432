#pragma once

#include <fmt/format.h>

#include <random>

#include "../graph/graph_test_support.h"
#include "graph/opdef.h"

namespace outsize {

// A convolution or pooling, along its rows.
struct StackLayer {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  bool pools = false;
};

// Layers one upon the other. heights[l] is that of what layer l reads; the last is the result's.
struct Stack {
  std::vector<StackLayer> layers;
  std::vector<std::int64_t> heights;
  Graph graph;
  std::vector<OpId> ops;

  std::size_t size() const { return layers.size(); }
  // What layer l reads to make a range of its result's rows, by the op itself.
  Interval window(std::size_t l, Interval rows) const {
    const OpSite site{graph, graph.op(ops[l])};
    Box box = Box::whole(site.out(0).shape);
    box.set(2, rows);
    return site.op.def->gather(site, box).in[0][2];
  }
};

// Kernels of up to 5 and strides of up to 3 at every stride not above its kernel, so that every row is read.
inline Stack random_stack(std::mt19937& random, std::int64_t height) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  Stack stack;
  stack.heights.push_back(height);
  std::string text = fmt::format("graph stack\ninput v0 f32[1, 1, {}, 8]\n", height);
  for (const std::int64_t count = pick(1, 6); static_cast<std::int64_t>(stack.size()) < count;) {
    StackLayer layer;
    layer.pools = pick(0, 2) == 0;
    layer.kernel = pick(1, layer.pools ? 3 : 5);
    layer.stride = pick(1, std::min<std::int64_t>(layer.kernel, 3));
    layer.padding = pick(0, layer.pools ? layer.kernel / 2 : layer.kernel - 1);
    const std::int64_t from = stack.heights.back();
    if (from + 2 * layer.padding < layer.kernel) break;
    const std::int64_t to = (from + 2 * layer.padding - layer.kernel) / layer.stride + 1;
    const std::size_t l = stack.size();
    const std::string sliding = fmt::format("stride=[{}, 1] padding=[{}, 0, {}, 0]", layer.stride, layer.padding, layer.padding);
    if (layer.pools)
      text += fmt::format("l{}: v{} = max_pool(v{}) kernel=[{}, 1] {}\n", l, l + 1, l, layer.kernel, sliding);
    else
      text += fmt::format("param w{} f32[1, 1, {}, 1]\nl{}: v{} = conv2d(v{}, w{}) {}\n", l, layer.kernel, l, l + 1, l, l, sliding);
    stack.layers.push_back(layer);
    stack.heights.push_back(to);
  }
  stack.graph = graph_of(text + fmt::format("output v{}\n", stack.size()));
  for (std::size_t l = 0; l < stack.size(); ++l) stack.ops.push_back(stack.graph.find_op(fmt::format("l{}", l)));
  return stack;
}

}  // namespace outsize
