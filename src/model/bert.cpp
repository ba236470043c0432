// BERT (Devlin et al. 2018) with its masked language model head; modules and initialisation as in the published PyTorch
// checkpoints (BertForMaskedLM), so that their weights can be read by name. All tokens are of the first segment, and none is
// padding.
#include "model/builder.h"

namespace outsize {

namespace {

constexpr std::int64_t kHeadChannels = 64;
constexpr std::int64_t kPositions = 512;
constexpr double kRate = 0.1;

struct Encoder {
  ModelBuilder& builder;
  std::int64_t heads = 12;
  std::int64_t features = heads * kHeadChannels;

  ValueId layer(const std::string& name, ValueId x) const {
    const std::string self = name + ".attention.self";
    const ValueId q = builder.linear(self + ".query", x, features);
    const ValueId k = builder.linear(self + ".key", x, features);
    const ValueId v = builder.linear(self + ".value", x, features);
    const ValueId seen = builder.attention(self, q, k, v, heads, false, kRate);
    x = closed(name + ".attention.output", seen, x);
    const ValueId inner = builder.linear(name + ".intermediate.dense", x, 4 * features);
    return closed(name + ".output", builder.gelu(name + ".intermediate.gelu", inner), x);
  }

 private:
  // A linear layer, dropout, the sum with what came in, and its norm.
  ValueId closed(const std::string& name, ValueId x, ValueId before) const {
    x = builder.dropout(name + ".dropout", builder.linear(name + ".dense", x, features), kRate);
    return builder.layer_norm(name + ".LayerNorm", builder.add(name + ".add", x, before));
  }
};

}  // namespace

Graph build_bert(std::string_view name, const ModelOptions& options) {
  const bool large = name == "bert-large";
  constexpr Init kNormal{Init::Kind::normal, 0.02};
  ModelBuilder builder(name, options);
  builder.linear_init = {LayerInit::Kind::normal, 0.02};
  builder.norm_eps = 1e-12;
  const Encoder encoder{builder, options.channels(large ? 16 : 12)};
  const std::int64_t sequence = options.sequence;

  const std::string embeddings = "bert.embeddings";
  const ValueId words = builder.parameter(embeddings + ".word_embeddings.weight", {options.classes, encoder.features}, kNormal);
  const ValueId positions =
      builder.parameter(embeddings + ".position_embeddings.weight", {std::max(kPositions, sequence), encoder.features}, kNormal);
  const ValueId segments = builder.parameter(embeddings + ".token_type_embeddings.weight", {2, encoder.features}, kNormal);
  ValueId x = builder.embedding(embeddings + ".word_embeddings", builder.tokens(), words);
  x = builder.add(embeddings + ".add_segment", x, builder.slice(embeddings + ".token_type_embeddings", segments, 0, 0, 1));
  x = builder.add(embeddings + ".add_position", x, builder.slice(embeddings + ".position_embeddings", positions, 0, 0, sequence));
  x = builder.dropout(embeddings + ".dropout", builder.layer_norm(embeddings + ".LayerNorm", x), kRate);
  for (int i = 0; i < (large ? 24 : 12); ++i) x = encoder.layer(fmt::format("bert.encoder.layer.{}", i), x);

  const std::string head = "cls.predictions";
  x = builder.gelu(head + ".transform.gelu", builder.linear(head + ".transform.dense", x, encoder.features));
  x = builder.layer_norm(head + ".transform.LayerNorm", x);
  // The weights of the head are those of the word embeddings.
  const ValueId bias = builder.parameter(head + ".bias", {options.classes}, {});
  return builder.predict_tokens(builder.linear_with(head + ".decoder", x, words, bias));
}

}  // namespace outsize
