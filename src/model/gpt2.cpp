// GPT-2 (Radford et al. 2019); modules and initialisation as in the published PyTorch checkpoints (GPT2LMHeadModel), so that their
// weights can be read by name: linear layers hold their weights as [inputs, outputs].
#include <cmath>

#include "model/builder.h"

namespace outsize {

namespace {

constexpr std::int64_t kHeadChannels = 64;
constexpr std::int64_t kPositions = 1024;
constexpr double kRate = 0.1;

struct Variant {
  std::string_view name;
  int layers = 12;
  std::int64_t heads = 12;
};

constexpr Variant kVariants[]{{"gpt2", 12, 12}, {"gpt2-medium", 24, 16}, {"gpt2-large", 36, 20}, {"gpt2-xl", 48, 25}};

const Variant& variant_of(std::string_view name) {
  for (const Variant& variant : kVariants)
    if (variant.name == name) return variant;
  internal_error("no variant for the model '{}'", name);
}

struct Decoder {
  ModelBuilder& builder;
  int layers = 12;
  std::int64_t heads = 12;
  std::int64_t features = heads * kHeadChannels;

  ValueId layer(const std::string& name, ValueId x) const {
    const ValueId together = project(name + ".attn.c_attn", builder.layer_norm(name + ".ln_1", x), 3 * features, 0.02);
    const std::vector<ValueId> parts = builder.split(name + ".attn.split", together, 2, {features, features, features});
    const ValueId seen = builder.attention(name + ".attn", parts[0], parts[1], parts[2], heads, true, kRate);
    x = closed(name + ".attn", seen, x);
    const ValueId inner = project(name + ".mlp.c_fc", builder.layer_norm(name + ".ln_2", x), 4 * features, 0.02);
    return closed(name + ".mlp", builder.gelu(name + ".mlp.act", inner, "tanh"), x);
  }

 private:
  ValueId project(const std::string& name, ValueId x, std::int64_t outputs, double deviation) const {
    const std::int64_t inputs = builder.shape(x)[2];
    const ValueId weight = builder.parameter(name + ".weight", {inputs, outputs}, {Init::Kind::normal, deviation});
    return builder.linear_with(name, x, weight, builder.parameter(name + ".bias", {outputs}, {}), true);
  }
  // The projection that ends a branch, filled with less the deeper the network is.
  ValueId closed(const std::string& name, ValueId x, ValueId before) const {
    x = project(name + ".c_proj", x, features, 0.02 / std::sqrt(2.0 * layers));
    return builder.add(name + ".add", builder.dropout(name + ".dropout", x, kRate), before);
  }
};

}  // namespace

Graph build_gpt2(std::string_view name, const ModelOptions& options) {
  const Variant& variant = variant_of(name);
  ModelBuilder builder(name, options);
  const Decoder decoder{builder, variant.layers, options.channels(variant.heads)};
  const ValueId words =
      builder.parameter("transformer.wte.weight", {options.classes, decoder.features}, {Init::Kind::normal, 0.02});
  const ValueId positions = builder.parameter("transformer.wpe.weight", {std::max(kPositions, options.sequence), decoder.features},
                                              {Init::Kind::normal, 0.02});
  ValueId x = builder.embedding("transformer.wte", builder.tokens(), words);
  x = builder.add("transformer.add", x, builder.slice("transformer.wpe", positions, 0, 0, options.sequence));
  x = builder.dropout("transformer.drop", x, kRate);
  for (int i = 0; i < variant.layers; ++i) x = decoder.layer(fmt::format("transformer.h.{}", i), x);
  x = builder.layer_norm("transformer.ln_f", x);
  // The weights of the head are those of the word embeddings.
  return builder.predict_tokens(builder.linear_with("lm_head", x, words, {}));
}

}  // namespace outsize
