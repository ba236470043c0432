// DenseNet (Huang et al. 2016), layer for layer as torchvision has it.
#include <array>

#include "model/builder.h"

namespace outsize {

namespace {

struct Variant {
  std::string_view name;
  std::int64_t growth = 32;
  std::int64_t stem = 64;
  std::array<int, 4> blocks{};
};

constexpr Variant kVariants[]{{"densenet121", 32, 64, {6, 12, 24, 16}},
                              {"densenet161", 48, 96, {6, 12, 36, 24}},
                              {"densenet169", 32, 64, {6, 12, 32, 32}},
                              {"densenet201", 32, 64, {6, 12, 48, 32}}};

constexpr std::int64_t kBottleneck = 4;  // times the growth

const Variant& variant_of(std::string_view name) {
  for (const Variant& variant : kVariants)
    if (variant.name == name) return variant;
  internal_error("no variant for the model '{}'", name);
}

ValueId dense_layer(ModelBuilder& builder, const std::string& name, ValueId x, std::int64_t growth) {
  x = builder.relu(name + ".relu1", builder.batch_norm(name + ".norm1", x));
  x = builder.conv(name + ".conv1", x, kBottleneck * growth, {.kernel = 1}, false);
  x = builder.relu(name + ".relu2", builder.batch_norm(name + ".norm2", x));
  return builder.conv(name + ".conv2", x, growth, {.kernel = 3, .padding = 1}, false);
}

}  // namespace

Graph build_densenet(std::string_view name, const ModelOptions& options) {
  const Variant& variant = variant_of(name);
  const std::int64_t growth = options.channels(variant.growth);
  ModelBuilder builder(name, options);
  builder.conv_init = {LayerInit::Kind::kaiming_in};
  ValueId x = builder.image();
  x = builder.conv("features.conv0", x, options.channels(variant.stem), {.kernel = 7, .stride = 2, .padding = 3}, false);
  x = builder.relu("features.relu0", builder.batch_norm("features.norm0", x));
  x = builder.max_pool("features.pool0", x, {.kernel = 3, .stride = 2, .padding = 1});
  for (int stage = 0; stage < 4; ++stage) {
    const std::string block = fmt::format("features.denseblock{}", stage + 1);
    // Every layer reads all that came before it in the block. Each concatenation takes the one before and adds to it.
    for (int i = 0; i < variant.blocks[stage]; ++i) {
      const std::string layer = fmt::format("{}.denselayer{}", block, i + 1);
      x = builder.concat(layer + ".concat", {x, dense_layer(builder, layer, x, growth)});
    }
    if (stage == 3) break;
    const std::string transition = fmt::format("features.transition{}", stage + 1);
    x = builder.relu(transition + ".relu", builder.batch_norm(transition + ".norm", x));
    x = builder.conv(transition + ".conv", x, builder.shape(x)[1] / 2, {.kernel = 1}, false);
    x = builder.avg_pool(transition + ".pool", x, {.kernel = 2, .stride = 2});
  }
  x = builder.relu("relu", builder.batch_norm("features.norm5", x));
  x = builder.flatten("flatten", builder.global_avg_pool("avgpool", x));
  // torchvision: the weight as PyTorch's own, the bias zeros.
  const std::int64_t features = builder.shape(x)[1];
  const auto [weights, biases] = LayerInit{}.of(features, options.classes);
  const ValueId weight = builder.parameter("classifier.weight", {options.classes, features}, weights);
  const ValueId bias = builder.parameter("classifier.bias", {options.classes}, {});
  return builder.classify(builder.linear_with("classifier", x, weight, bias));
}

}  // namespace outsize
