#pragma once

#include <random>

#include "model/builder.h"

namespace outsize {

// Draws small training graphs over tokens, the same for the same numbers drawn: what transformers are made of.
class RandomTokens {
 public:
  explicit RandomTokens(std::mt19937_64& random) : random_(random), builder_("random", options(random)) { builder_.norm_eps = 1; }

  // A forward graph with the inputs x and labels and the output loss.
  Graph make() {
    heads_ = below(3) + 1;
    features_ = heads_ * (below(3) + 1);
    const ValueId words = parameter("words", {builder_.options().classes, features_});
    ValueId x = builder_.embedding("embed", builder_.tokens(), words);
    if (one_in(2))
      x = builder_.add("place", x, builder_.slice("rows", parameter("places", {10, features_}), 0, 0, builder_.options().sequence));
    for (std::int64_t blocks = below(4) + 1; blocks > 0; --blocks) x = block(x);
    // A head of its own, or that of the words.
    if (one_in(2)) return builder_.predict_tokens(builder_.linear_with("head", x, words, {}));
    return builder_.predict_tokens(linear(x, builder_.options().classes));
  }

 private:
  static ModelOptions options(std::mt19937_64& random) {
    const auto draw = [&](std::uint64_t count) { return static_cast<std::int64_t>(random() % count); };
    ModelOptions made{.batch = draw(3) + 1, .sequence = draw(8) + 1, .classes = 4 + draw(4), .dtype = DType::f64};
    made.label_smoothing = draw(4) == 0 ? 0.1 : 0;
    return made;
  }

  std::int64_t below(std::int64_t count) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count)); }
  bool one_in(std::int64_t count) { return below(count) == 0; }
  std::string name(std::string_view kind) { return fmt::format("{}{}", kind, ++layers_); }
  ValueId parameter(const std::string& of, Dims shape) { return builder_.parameter(of, shape, {Init::Kind::normal, 0.5}); }

  ValueId linear(ValueId x, std::int64_t outputs) {
    const std::string layer = name("linear");
    const std::int64_t inputs = builder_.shape(x)[2];
    const bool transposed = one_in(2);
    const ValueId weight = parameter(layer + ".weight", transposed ? Dims{inputs, outputs} : Dims{outputs, inputs});
    return builder_.linear_with(layer, x, weight, one_in(2) ? parameter(layer + ".bias", {outputs}) : ValueId(), transposed);
  }
  ValueId activation(ValueId x) {
    switch (below(4)) {
      case 0: return builder_.gelu(name("gelu"), x, one_in(2) ? "none" : "tanh");
      case 1: return builder_.emit(name("silu"), "silu", {x});
      case 2: return builder_.emit(name("tanh"), "tanh", {x});
      default: return builder_.relu(name("relu"), x);
    }
  }
  ValueId dropout(ValueId x) {
    return one_in(3) ? builder_.stochastic_depth(name("depth"), x, 0.3) : builder_.dropout(name("dropout"), x, 0.3);
  }
  ValueId norm(ValueId x) { return builder_.layer_norm(name("norm"), x); }

  // Queries, keys and values of one projection or of one each.
  ValueId attention(ValueId x) {
    std::vector<ValueId> parts;
    if (one_in(2))
      parts = builder_.split(name("parts"), linear(x, 3 * features_), 2, {features_, features_, features_});
    else
      for (int i = 0; i < 3; ++i) parts.push_back(linear(x, features_));
    return builder_.attention(name("attention"), parts[0], parts[1], parts[2], heads_, one_in(2), one_in(2) ? 0.25 : 0);
  }
  ValueId feed_forward(ValueId x) { return linear(activation(linear(x, features_ * (below(2) + 1))), features_); }

  ValueId block(ValueId x) {
    switch (below(8)) {
      case 0: return norm(x);
      case 1: return activation(x);
      case 2: return dropout(x);
      case 3: return builder_.mul(name("gate"), x, builder_.emit(name("sigmoid"), "sigmoid", {linear(x, features_)}));
      default: {
        const ValueId inner = one_in(2) ? norm(x) : x;
        const ValueId made = one_in(2) ? attention(inner) : feed_forward(inner);
        return builder_.add(name("add"), one_in(3) ? dropout(made) : made, x);
      }
    }
  }

  std::mt19937_64& random_;
  ModelBuilder builder_;
  std::int64_t heads_ = 1, features_ = 1, layers_ = 0;
};

}  // namespace outsize
