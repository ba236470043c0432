#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace outsize {

// What a model of the zoo can be asked for.
struct ModelOptions {
  std::int64_t batch = 8;
  std::int64_t image_height = 224;
  std::int64_t image_width = 224;
  std::int64_t classes = 1000;
  double width = 1;  // multiplies every hidden channel count
  DType dtype = DType::f32;

  // A hidden channel count of the published network, times `width`.
  std::int64_t channels(std::int64_t published) const;
};

// One model: its name, one line for `outsize models`, and how it is built.
struct ModelEntry {
  std::string_view name;
  std::string_view help;
  Graph (*build)(std::string_view name, const ModelOptions& options);
};

// All models, by family.
const std::vector<ModelEntry>& zoo();

// The forward graph of a model, unfused: inputs "x" and "labels" (or "target"), output "loss" of shape [1]. Parameters and states
// are named as in torchvision's state_dict. Throws UserError with the nearest name when there is none, or when an option does not
// fit the model (an image too small for its pooling, say).
Graph build_model(std::string_view name, const ModelOptions& options);

// The families; each takes the names that zoo() lists for it.
Graph build_vgg(std::string_view name, const ModelOptions& options);
Graph build_resnet(std::string_view name, const ModelOptions& options);
Graph build_mlp(std::string_view name, const ModelOptions& options);

}  // namespace outsize
