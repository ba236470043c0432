#pragma once

#include "model/builder.h"

namespace outsize {

// Multi-head attention as torch.nn.MultiheadAttention has it: the projections of query, key and value are one parameter
// "<name>.in_proj_weight" [3E, E] with "<name>.in_proj_bias", drawn as by xavier; then "<name>.out_proj". `x` asks, `memory`
// answers.
inline ValueId multi_head_attention(ModelBuilder& builder, const std::string& name, ValueId x, ValueId memory, std::int64_t heads,
                                    bool causal, double rate) {
  const std::int64_t features = builder.shape(x)[2];
  const auto [weights, biases] = LayerInit{LayerInit::Kind::xavier}.of(features, 3 * features);
  const ValueId weight = builder.parameter(name + ".in_proj_weight", {3 * features, features}, weights);
  const ValueId bias = builder.parameter(name + ".in_proj_bias", {3 * features}, biases);
  std::vector<ValueId> parts;
  if (x == memory) {
    parts =
        builder.split(name + ".split", builder.linear_with(name + ".in_proj", x, weight, bias), 2, {features, features, features});
  } else {
    // The query is of x, key and value are of the memory: the parameter is cut, not its result.
    const std::vector<ValueId> w = builder.split(name + ".split_weight", weight, 0, {features, 2 * features});
    const std::vector<ValueId> b = builder.split(name + ".split_bias", bias, 0, {features, 2 * features});
    parts =
        builder.split(name + ".split", builder.linear_with(name + ".in_proj_memory", memory, w[1], b[1]), 2, {features, features});
    parts.insert(parts.begin(), builder.linear_with(name + ".in_proj_query", x, w[0], b[0]));
  }
  const ValueId seen = builder.attention(name, parts[0], parts[1], parts[2], heads, causal, rate);
  // PyTorch: the weight as its own linear layers, the bias zeros.
  const ValueId out_weight =
      builder.parameter(name + ".out_proj.weight", {features, features}, LayerInit{}.of(features, features).first);
  return builder.linear_with(name + ".out_proj", seen, out_weight, builder.parameter(name + ".out_proj.bias", {features}, {}));
}

}  // namespace outsize
