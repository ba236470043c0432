#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "outsize/model.h"

namespace outsize {

// What a model takes.
enum class Domain : std::uint8_t { image, volume, tokens };

// One model: its name, one line for `outsize models`, how it is built, and the sizes it has when none are given.
struct ModelEntry {
  std::string_view name;
  std::string_view help;
  Graph (*build)(std::string_view name, const ModelOptions& options);
  Domain domain = Domain::image;
  std::int64_t extent = 224;  // of the image along each dimension, or of the sequence
  std::int64_t classes = 1000;
};

// All models, by family.
const std::vector<ModelEntry>& zoo();

// The forward graph of a model, unfused: inputs "x" and "labels" (or "target"), and "random_key" where it drops out; output "loss"
// of shape [1]. Parameters and states are named as in PyTorch's state_dict (torchvision's where it has the model). Throws UserError
// with the nearest name when there is none, or when an option does not fit the model (an image too small for its pooling, say).
Graph build_model(std::string_view name, const ModelOptions& options);

// The families; each takes the names that zoo() lists for it, and options with all sizes filled in.
Graph build_bert(std::string_view name, const ModelOptions& options);
Graph build_convnext(std::string_view name, const ModelOptions& options);
Graph build_darknet(std::string_view name, const ModelOptions& options);
Graph build_densenet(std::string_view name, const ModelOptions& options);
Graph build_gpt2(std::string_view name, const ModelOptions& options);
Graph build_inception_v3(std::string_view name, const ModelOptions& options);
Graph build_inception_v4(std::string_view name, const ModelOptions& options);
Graph build_mlp(std::string_view name, const ModelOptions& options);
Graph build_preact_resnet(std::string_view name, const ModelOptions& options);
Graph build_resnet(std::string_view name, const ModelOptions& options);
Graph build_slide(std::string_view name, const ModelOptions& options);
Graph build_transformer(std::string_view name, const ModelOptions& options);
Graph build_unet(std::string_view name, const ModelOptions& options);
Graph build_vgg(std::string_view name, const ModelOptions& options);
Graph build_vit(std::string_view name, const ModelOptions& options);

}  // namespace outsize
