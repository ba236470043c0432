#pragma once

#include <array>
#include <string>

#include "graph/graph.h"

namespace outsize {

// How a window layer moves over a map; the same in both directions.
struct WindowShape {
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};

// Emits the layers of a network, unfused, into a graph. A layer's name is its module path in torchvision ("layer1.0.conv1"), so
// that parameters and states bear exactly the names of torchvision's state_dict ("layer1.0.conv1.weight").
class ModelBuilder {
 public:
  ModelBuilder(std::string graph_name, DType dtype);

  // The input "x": a map [N, C, H, W].
  ValueId image(std::int64_t batch, std::int64_t channels, std::int64_t height, std::int64_t width);

  // Weights are drawn from the normal distribution of Kaiming initialisation (fan out, relu); biases are zeros.
  ValueId conv(const std::string& name, ValueId x, std::int64_t channels, WindowShape window, bool bias);
  // Train-mode batch norm with running statistics: weight ones, bias zeros.
  ValueId batch_norm(const std::string& name, ValueId x);
  ValueId relu(const std::string& name, ValueId x);
  ValueId max_pool(const std::string& name, ValueId x, WindowShape window);
  ValueId adaptive_avg_pool(const std::string& name, ValueId x, std::int64_t height, std::int64_t width);
  // [N, …] → [N, the rest].
  ValueId flatten(const std::string& name, ValueId x);
  // `weights` and `biases` are how the two are filled.
  ValueId linear(const std::string& name, ValueId x, std::int64_t features, Init weights, Init biases);
  // As linear above, with PyTorch's own initialisation: both uniform within ±1/√(input features).
  ValueId linear(const std::string& name, ValueId x, std::int64_t features);
  ValueId add(const std::string& name, ValueId a, ValueId b);

  // The graph with the output "loss": the mean cross entropy of `logits` against the input "labels".
  Graph classify(ValueId logits);
  // The graph with the output "loss": the mean squared error of `x` against the input "target".
  Graph regress(ValueId x);

  const Dims& shape(ValueId value) const { return graph_.value(value).type.shape; }

 private:
  ValueId parameter(const std::string& name, Dims shape, Init init);
  ValueId state(const std::string& name, Dims shape, Init init);
  ValueId emit(const std::string& name, std::string_view kind, std::vector<ValueId> inputs, Attributes attributes = {});

  Graph graph_;
  DType dtype_;
};

}  // namespace outsize
