#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "model/zoo.h"

namespace outsize {

// A number for each spatial dimension of a map: one for all, or one each ([h, w] or [d, h, w]).
class PerDim {
 public:
  PerDim(std::int64_t all) : values_{all} {}  // NOLINT: 3 is a kernel of 3 × 3
  PerDim(std::initializer_list<std::int64_t> values) : values_(values) {}

  // As many numbers as there are dimensions.
  std::vector<std::int64_t> list(int dims) const;

 private:
  std::vector<std::int64_t> values_;
};

// How a window layer moves over a map.
struct WindowShape {
  PerDim kernel = 3;
  PerDim stride = 1;
  PerDim padding = 0;  // on both sides
  std::int64_t groups = 1;
};

// How weight and bias of a convolution or linear layer are filled, by its fans.
struct LayerInit {
  enum class Kind : std::uint8_t {
    torch,          // PyTorch's own: both uniform within ±1/√(fan in)
    kaiming_out,    // normal, √(2/fan out); bias zeros
    kaiming_in,     // normal, √(2/fan in); bias zeros
    lecun,          // normal, √(1/fan in); bias zeros
    normal,         // normal of `scale`; bias zeros
    normal_weight,  // normal of `scale`; bias as `torch`
    xavier,         // uniform within ±√(6/(fan in + fan out)); bias normal of `scale`
  } kind = Kind::torch;
  double scale = 0;

  std::pair<Init, Init> of(std::int64_t fan_in, std::int64_t fan_out) const;
};

// Emits the layers of a network, unfused, into a graph. A layer's name is its module path in PyTorch ("layer1.0.conv1"), so that
// parameters and states bear exactly the names of its state_dict ("layer1.0.conv1.weight").
class ModelBuilder {
 public:
  ModelBuilder(std::string_view graph_name, const ModelOptions& options);

  // What convolutions and linear layers are filled with where the call does not say.
  LayerInit conv_init;
  LayerInit linear_init;
  double norm_eps = 1e-5;

  // The input "x": a map [N, channels, H, W], or [N, channels, D, H, W] where the model is of volumes.
  ValueId image(std::int64_t channels = 3);
  // The input "x": token ids [B, T].
  ValueId tokens();

  ValueId parameter(const std::string& name, Dims shape, Init init);
  ValueId state(const std::string& name, Dims shape, Init init);

  // Over maps.
  ValueId conv(const std::string& name, ValueId x, std::int64_t channels, WindowShape window, bool bias);
  ValueId conv(const std::string& name, ValueId x, std::int64_t channels, WindowShape window, bool bias, LayerInit init);
  ValueId conv_transpose(const std::string& name, ValueId x, std::int64_t channels, WindowShape window);
  // Train-mode batch norm with running statistics: weight ones, bias zeros.
  ValueId batch_norm(const std::string& name, ValueId x);
  ValueId max_pool(const std::string& name, ValueId x, WindowShape window);
  // `count_padding`: padding counts as zeros in the mean, else not at all.
  ValueId avg_pool(const std::string& name, ValueId x, WindowShape window, bool count_padding = true);
  // To one position.
  ValueId global_avg_pool(const std::string& name, ValueId x);
  ValueId adaptive_avg_pool(const std::string& name, ValueId x, PerDim output);
  // Layer norm over the channels of a map, as torchvision's LayerNorm2d.
  ValueId map_layer_norm(const std::string& name, ValueId x);
  // [N, C, H, W] → plain [N, H, W, C], and back.
  ValueId channels_last(const std::string& name, ValueId x);
  ValueId channels_first(const std::string& name, ValueId x);

  // Over anything.
  ValueId relu(const std::string& name, ValueId x) { return emit(name, "relu", {x}); }
  ValueId leaky_relu(const std::string& name, ValueId x, double slope) { return emit(name, "leaky_relu", {x}, {{"slope", slope}}); }
  ValueId gelu(const std::string& name, ValueId x, const std::string& approximate = "none");
  ValueId add(const std::string& name, ValueId a, ValueId b) { return emit(name, "add", {a, b}); }
  ValueId mul(const std::string& name, ValueId a, ValueId b) { return emit(name, "mul", {a, b}); }
  ValueId concat(const std::string& name, std::vector<ValueId> parts, std::int64_t axis = 1);
  std::vector<ValueId> split(const std::string& name, ValueId x, std::int64_t axis, std::vector<std::int64_t> sizes);
  // The range [from, to) of one dimension.
  ValueId slice(const std::string& name, ValueId x, int axis, std::int64_t from, std::int64_t to);
  ValueId reshape(const std::string& name, ValueId x, std::vector<std::int64_t> shape);
  // [N, …] → [N, the rest].
  ValueId flatten(const std::string& name, ValueId x) { return reshape(name, x, {shape(x)[0], -1}); }
  // The published rate, unless the options give another; nothing is emitted for a rate of 0.
  ValueId dropout(const std::string& name, ValueId x, double rate);
  // The same for whole samples (torchvision's StochasticDepth in mode "row").
  ValueId stochastic_depth(const std::string& name, ValueId x, double rate);

  // Over plain values [..., features].
  ValueId linear(const std::string& name, ValueId x, std::int64_t features) { return linear(name, x, features, linear_init); }
  ValueId linear(const std::string& name, ValueId x, std::int64_t features, LayerInit init);
  // With parameters that are already there: `weight` is [out, in], or [in, out] where `transposed`; no bias if it is not valid.
  ValueId linear_with(const std::string& name, ValueId x, ValueId weight, ValueId bias, bool transposed = false);
  ValueId layer_norm(const std::string& name, ValueId x);
  ValueId embedding(const std::string& name, ValueId ids, ValueId table) { return emit(name, "embedding", {ids, table}); }
  // q [B, Tq, E], k and v [B, Tk, E] → [B, Tq, E], with dropout of the weights.
  ValueId attention(const std::string& name, ValueId q, ValueId k, ValueId v, std::int64_t heads, bool causal, double rate);

  // The graph with the output "loss": the mean cross entropy of logits [N, K] (or a map: of every position) against the input
  // "labels".
  Graph classify(ValueId logits);
  // As classify, with the loss of a second head, times `weight`, added.
  Graph classify(ValueId logits, ValueId auxiliary, double weight);
  // The graph with the output "loss": the mean cross entropy of logits [B, T, K] against "labels" [B, T]; labels of −100 do not
  // count.
  Graph predict_tokens(ValueId logits);
  // The same, against labels that are already an input of the graph.
  Graph predict_tokens(ValueId logits, ValueId labels);
  // The graph with the output "loss": the mean squared error of `x` against the input "target".
  Graph regress(ValueId x);

  // The graph with that output.
  Graph minimise(ValueId loss);

  // The input "labels", one a row of [N, K] or a position of a map.
  ValueId labels_of(ValueId logits);
  // The input "labels" [B, T] of a token model.
  ValueId token_labels();

  ValueId emit(const std::string& name, std::string_view kind, std::vector<ValueId> inputs, Attributes attributes = {});
  const Dims& shape(ValueId value) const { return graph_.value(value).type.shape; }
  const ModelOptions& options() const { return options_; }
  std::int64_t channels(std::int64_t published) const { return options_.channels(published); }

 private:
  ValueId drop(const std::string& name, ValueId x, double rate, const std::string& unit);
  // The input "random_key", made when the first op needs it.
  ValueId random_key();
  double rate_of(double published) const { return options_.dropout >= 0 ? options_.dropout : published; }
  Attributes cross_entropy_attributes() const;

  Graph graph_;
  ModelOptions options_;
  ValueId random_key_;
  std::int64_t random_streams_ = 0;
};

}  // namespace outsize
