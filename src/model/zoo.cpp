#include "model/zoo.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace outsize {

std::int64_t ModelOptions::channels(std::int64_t published) const {
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(published) * width));
}

const std::vector<ModelEntry>& zoo() {
  static const std::vector<ModelEntry> kEntries{
      {"mlp", "three linear layers of 512 with relu on the flattened image", build_mlp},
      {"resnet18", "ResNet-18: basic blocks 2 2 2 2", build_resnet},
      {"resnet34", "ResNet-34: basic blocks 3 4 6 3", build_resnet},
      {"resnet50", "ResNet-50: bottleneck blocks 3 4 6 3", build_resnet},
      {"resnet101", "ResNet-101: bottleneck blocks 3 4 23 3", build_resnet},
      {"resnet152", "ResNet-152: bottleneck blocks 3 8 36 3", build_resnet},
      {"wide_resnet50_2", "ResNet-50 with inner channels twice as wide", build_resnet},
      {"vgg11", "VGG-11 (A), without dropout", build_vgg},
      {"vgg13", "VGG-13 (B), without dropout", build_vgg},
      {"vgg16", "VGG-16 (D), without dropout", build_vgg},
      {"vgg19", "VGG-19 (E), without dropout", build_vgg},
      {"vgg11_bn", "VGG-11 with batch norm, without dropout", build_vgg},
      {"vgg13_bn", "VGG-13 with batch norm, without dropout", build_vgg},
      {"vgg16_bn", "VGG-16 with batch norm, without dropout", build_vgg},
      {"vgg19_bn", "VGG-19 with batch norm, without dropout", build_vgg},
      {"vgg11-features", "the convolutions of VGG-11 alone; loss: mean squared error against `target`", build_vgg},
      {"vgg13-features", "the convolutions of VGG-13 alone; loss: mean squared error against `target`", build_vgg},
      {"vgg16-features", "the convolutions of VGG-16 alone; loss: mean squared error against `target`", build_vgg},
      {"vgg19-features", "the convolutions of VGG-19 alone; loss: mean squared error against `target`", build_vgg},
  };
  return kEntries;
}

Graph build_model(std::string_view name, const ModelOptions& options) {
  std::vector<std::string_view> names;
  for (const ModelEntry& entry : zoo()) {
    if (entry.name != name) {
      names.push_back(entry.name);
      continue;
    }
    try {
      return entry.build(name, options);
    } catch (const UserError& error) {
      user_error("{} with images of {}x{}: {}", name, options.image_height, options.image_width, error.what());
    }
  }
  const std::string near = did_you_mean(name, names);
  user_error("unknown model '{}'{}", name, near.empty() ? "; `outsize models` lists those there are" : near);
}

}  // namespace outsize
