#include "model/zoo.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace outsize {

std::int64_t ModelOptions::channels(std::int64_t published) const {
  constexpr double kMost = 1e9;
  const double wanted = static_cast<double>(published) * width;
  if (!(wanted <= kMost)) user_error("a width of {} asks for {:.3g} channels, more than {:.0g}", width, wanted, kMost);
  return std::max<std::int64_t>(1, std::llround(wanted));
}

const std::vector<ModelEntry>& zoo() {
  static const std::vector<ModelEntry> kEntries{
      {"mlp", "three linear layers of 512 with relu on the flattened image", build_mlp},
      {"slide-s", "seven small convolutions for very large images, 6 kFLOP a pixel forward", build_slide, Domain::image, 1024, 2},
      {"vgg11", "VGG-11 (A)", build_vgg},
      {"vgg13", "VGG-13 (B)", build_vgg},
      {"vgg16", "VGG-16 (D)", build_vgg},
      {"vgg19", "VGG-19 (E)", build_vgg},
      {"vgg11_bn", "VGG-11 with batch norm", build_vgg},
      {"vgg13_bn", "VGG-13 with batch norm", build_vgg},
      {"vgg16_bn", "VGG-16 with batch norm", build_vgg},
      {"vgg19_bn", "VGG-19 with batch norm", build_vgg},
      {"vgg11-features", "the convolutions of VGG-11 alone; loss: mean squared error against `target`", build_vgg},
      {"vgg13-features", "the convolutions of VGG-13 alone; loss: mean squared error against `target`", build_vgg},
      {"vgg16-features", "the convolutions of VGG-16 alone; loss: mean squared error against `target`", build_vgg},
      {"vgg19-features", "the convolutions of VGG-19 alone; loss: mean squared error against `target`", build_vgg},
      {"darknet19", "Darknet-19 of YOLO9000", build_darknet},
      {"resnet18", "ResNet-18: basic blocks 2 2 2 2", build_resnet},
      {"resnet34", "ResNet-34: basic blocks 3 4 6 3", build_resnet},
      {"resnet50", "ResNet-50: bottleneck blocks 3 4 6 3", build_resnet},
      {"resnet101", "ResNet-101: bottleneck blocks 3 4 23 3", build_resnet},
      {"resnet152", "ResNet-152: bottleneck blocks 3 8 36 3", build_resnet},
      {"wide_resnet50_2", "ResNet-50 with inner channels twice as wide", build_resnet},
      {"resnet1001", "pre-activation ResNet-1001 for small images: bottleneck blocks 111 111 111", build_preact_resnet,
       Domain::image, 32, 10},
      {"densenet121", "DenseNet-121: blocks 6 12 24 16, growth 32", build_densenet},
      {"densenet161", "DenseNet-161: blocks 6 12 36 24, growth 48", build_densenet},
      {"densenet169", "DenseNet-169: blocks 6 12 32 32, growth 32", build_densenet},
      {"densenet201", "DenseNet-201: blocks 6 12 48 32, growth 32", build_densenet},
      {"inception_v3", "Inception v3 with its auxiliary head (loss weight 0.4)", build_inception_v3, Domain::image, 299},
      {"inception_v4", "Inception v4", build_inception_v4, Domain::image, 299},
      {"convnext-tiny", "ConvNeXt-T", build_convnext},
      {"vit-b16", "vision transformer, base, patches of 16 × 16", build_vit},
      {"unet2d", "2-D U-Net with batch norm, 64 to 1024 channels; a class for every pixel", build_unet, Domain::image, 256, 2},
      {"unet3d", "3-D U-Net with batch norm, 32 to 512 channels; a class for every voxel", build_unet, Domain::volume, 64, 2},
      {"bert-base", "BERT, 12 layers of 768: masked language model", build_bert, Domain::tokens, 128, 30522},
      {"bert-large", "BERT, 24 layers of 1024: masked language model", build_bert, Domain::tokens, 128, 30522},
      {"gpt2", "GPT-2 small, 12 layers of 768: next token", build_gpt2, Domain::tokens, 1024, 50257},
      {"gpt2-medium", "GPT-2, 24 layers of 1024", build_gpt2, Domain::tokens, 1024, 50257},
      {"gpt2-large", "GPT-2, 36 layers of 1280", build_gpt2, Domain::tokens, 1024, 50257},
      {"gpt2-xl", "GPT-2, 48 layers of 1600", build_gpt2, Domain::tokens, 1024, 50257},
      {"transformer", "encoder and decoder of 6 layers of 512 each: translation", build_transformer, Domain::tokens, 128, 37000},
  };
  return kEntries;
}

namespace {

// The options with the model's own sizes where none are given. Throws UserError for sizes that it has no use for.
ModelOptions complete(const ModelEntry& entry, ModelOptions options) {
  const bool image_given = options.image_height > 0;
  if (entry.domain == Domain::tokens) {
    if (image_given) user_error("{} takes tokens, not images; its size is --seq", entry.name);
    if (options.sequence == 0) options.sequence = entry.extent;
  } else {
    if (options.sequence > 0) user_error("{} takes images; --seq does not apply", entry.name);
    if (!image_given) options.image_height = options.image_width = entry.extent;
    if (entry.domain == Domain::image && options.image_depth > 0)
      user_error("{} takes images of two dimensions, found {}x{}x{}", entry.name, options.image_height, options.image_width,
                 options.image_depth);
    if (entry.domain == Domain::volume && options.image_depth == 0) {
      if (options.image_height != options.image_width)
        user_error("{} takes volumes: give all three extents (HxWxD), found {}x{}", entry.name, options.image_height,
                   options.image_width);
      options.image_depth = options.image_height;
    }
  }
  if (options.classes == 0) options.classes = entry.classes;
  return options;
}

// "images of 224x224", "sequences of 128": what the user gave, for messages.
std::string describe(const ModelOptions& options) {
  if (options.sequence > 0) return fmt::format("sequences of {}", options.sequence);
  if (options.image_depth > 0)
    return fmt::format("volumes of {}x{}x{}", options.image_height, options.image_width, options.image_depth);
  return fmt::format("images of {}x{}", options.image_height, options.image_width);
}

// An option that has no effect on the model was meant for another one. No dropout is what a model without any has.
void check_used(const Graph& graph, const ModelOptions& options) {
  if (options.dropout > 0 && !graph.find_value("random_key")) user_error("--dropout does not apply: {} has no dropout", graph.name);
  if (options.label_smoothing > 0 && !graph.find_value("labels"))
    user_error("--label-smoothing does not apply: {} has no labels; its loss is the mean squared error", graph.name);
}

}  // namespace

Graph build_model(std::string_view name, const ModelOptions& options) {
  std::vector<std::string_view> names;
  for (const ModelEntry& entry : zoo()) {
    if (entry.name != name) {
      names.push_back(entry.name);
      continue;
    }
    const ModelOptions sizes = complete(entry, options);
    Graph graph;
    try {
      graph = entry.build(name, sizes);
    } catch (const UserError& error) {
      user_error("{} with {}: {}", name, describe(sizes), error.what());
    }
    check_used(graph, options);
    return graph;
  }
  const std::string near = did_you_mean(name, names);
  user_error("unknown model '{}'{}", name, near.empty() ? "; `outsize models` lists those there are" : near);
}

}  // namespace outsize
