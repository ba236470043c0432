// The encoder–decoder transformer (Vaswani et al. 2017, base), as torch.nn.Transformer has it, with one embedding for source,
// target and the head, and fixed sinusoidal positions. "x" are the tokens of the source, "labels" those of the target; the decoder
// sees the labels one position later, behind a first token 0.
#include <cmath>

#include "model/multi_head.h"

namespace outsize {

namespace {

constexpr std::int64_t kHeadChannels = 64;
constexpr int kLayers = 6;
constexpr double kRate = 0.1;

struct Network {
  ModelBuilder& builder;
  std::int64_t heads = 8;
  std::int64_t features = heads * kHeadChannels;

  ValueId embed(const std::string& name, ValueId ids, ValueId words, ValueId positions) const {
    ValueId x = builder.embedding(name + ".embedding", ids, words);
    x = builder.emit(name + ".scale", "affine", {x}, {{"scale", std::sqrt(static_cast<double>(features))}});
    return builder.dropout(name + ".dropout", builder.add(name + ".add", x, positions), kRate);
  }

  ValueId encoder_layer(const std::string& name, ValueId x) const {
    x = close(name, 1, multi_head_attention(builder, name + ".self_attn", x, x, heads, false, kRate), x);
    return close(name, 2, feed_forward(name, x), x);
  }

  ValueId decoder_layer(const std::string& name, ValueId x, ValueId memory) const {
    x = close(name, 1, multi_head_attention(builder, name + ".self_attn", x, x, heads, true, kRate), x);
    x = close(name, 2, multi_head_attention(builder, name + ".multihead_attn", x, memory, heads, false, kRate), x);
    return close(name, 3, feed_forward(name, x), x);
  }

 private:
  ValueId feed_forward(const std::string& name, ValueId x) const {
    x = builder.relu(name + ".relu", builder.linear(name + ".linear1", x, 4 * features));
    return builder.linear(name + ".linear2", builder.dropout(name + ".dropout", x, kRate), features);
  }
  ValueId close(const std::string& name, int index, ValueId branch, ValueId before) const {
    branch = builder.dropout(fmt::format("{}.dropout{}", name, index), branch, kRate);
    return builder.layer_norm(fmt::format("{}.norm{}", name, index),
                              builder.add(fmt::format("{}.add{}", name, index), branch, before));
  }
};

}  // namespace

Graph build_transformer(std::string_view name, const ModelOptions& options) {
  ModelBuilder builder(name, options);
  builder.linear_init = {LayerInit::Kind::xavier};
  const Network net{builder, options.channels(8)};
  const ValueId source = builder.tokens();
  const ValueId labels = builder.token_labels();
  const double deviation = 1 / std::sqrt(static_cast<double>(net.features));
  const ValueId words = builder.parameter("embedding.weight", {options.classes, net.features}, {Init::Kind::normal, deviation});
  const ValueId positions = builder.state("positions", {options.sequence, net.features}, {Init::Kind::sinusoid, 0});

  ValueId memory = net.embed("source", source, words, positions);
  for (int i = 0; i < kLayers; ++i) memory = net.encoder_layer(fmt::format("encoder.layers.{}", i), memory);
  memory = builder.layer_norm("encoder.norm", memory);

  ValueId shifted = builder.slice("target.slice", labels, 1, 0, options.sequence - 1);
  shifted = builder.emit("target.shift", "pad", {shifted},
                         {{"before", std::vector<std::int64_t>{0, 1}}, {"after", std::vector<std::int64_t>{0, 0}}});
  ValueId x = net.embed("target", shifted, words, positions);
  for (int i = 0; i < kLayers; ++i) x = net.decoder_layer(fmt::format("decoder.layers.{}", i), x, memory);
  x = builder.layer_norm("decoder.norm", x);
  return builder.predict_tokens(builder.linear_with("head", x, words, {}), labels);
}

}  // namespace outsize
