// ResNet (He et al. 2015), layer for layer as torchvision has it: the stride of a bottleneck is on its 3×3 convolution.
#include <array>

#include "model/builder.h"

namespace outsize {

namespace {

struct Variant {
  std::string_view name;
  bool bottleneck = false;
  std::array<int, 4> blocks{};
  std::int64_t inner = 64;  // inner channels of a bottleneck of the first stage
};

constexpr Variant kVariants[]{
    {"resnet18", false, {2, 2, 2, 2}},  {"resnet34", false, {3, 4, 6, 3}},  {"resnet50", true, {3, 4, 6, 3}},
    {"resnet101", true, {3, 4, 23, 3}}, {"resnet152", true, {3, 8, 36, 3}}, {"wide_resnet50_2", true, {3, 4, 6, 3}, 128},
};

const Variant& variant_of(std::string_view name) {
  for (const Variant& variant : kVariants)
    if (variant.name == name) return variant;
  internal_error("no variant for the model '{}'", name);
}

// One residual block. Its layers are emitted in the order in which torchvision runs them.
struct Block {
  ModelBuilder& builder;
  std::string name;  // "layer1.0"
  std::int64_t inner = 64;
  std::int64_t outer = 64;
  std::int64_t stride = 1;

  ValueId conv_norm(int index, ValueId x, std::int64_t channels, WindowShape window) const {
    x = builder.conv(fmt::format("{}.conv{}", name, index), x, channels, window, false);
    return builder.batch_norm(fmt::format("{}.bn{}", name, index), x);
  }

  ValueId relu(int index, ValueId x) const { return builder.relu(fmt::format("{}.relu{}", name, index), x); }

  ValueId basic(ValueId x) const {
    ValueId y = conv_norm(1, x, outer, {.kernel = 3, .stride = stride, .padding = 1});
    y = conv_norm(2, relu(1, y), outer, {.kernel = 3, .padding = 1});
    return relu(2, builder.add(name + ".add", y, shortcut(x)));
  }

  ValueId bottleneck(ValueId x) const {
    ValueId y = conv_norm(1, x, inner, {.kernel = 1});
    y = conv_norm(2, relu(1, y), inner, {.kernel = 3, .stride = stride, .padding = 1});
    y = conv_norm(3, relu(2, y), outer, {.kernel = 1});
    return relu(3, builder.add(name + ".add", y, shortcut(x)));
  }

  ValueId shortcut(ValueId x) const {
    if (stride == 1 && builder.shape(x)[1] == outer) return x;
    x = builder.conv(name + ".downsample.0", x, outer, {.kernel = 1, .stride = stride}, false);
    return builder.batch_norm(name + ".downsample.1", x);
  }
};

}  // namespace

Graph build_resnet(std::string_view name, const ModelOptions& options) {
  const Variant& variant = variant_of(name);
  ModelBuilder builder(name, options);
  builder.conv_init = {LayerInit::Kind::kaiming_out};
  ValueId x = builder.image();
  x = builder.conv("conv1", x, options.channels(64), {.kernel = 7, .stride = 2, .padding = 3}, false);
  x = builder.relu("relu", builder.batch_norm("bn1", x));
  x = builder.max_pool("maxpool", x, {.kernel = 3, .stride = 2, .padding = 1});
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t doubled = std::int64_t{1} << stage;
    for (int i = 0; i < variant.blocks[stage]; ++i) {
      const Block block{.builder = builder,
                        .name = fmt::format("layer{}.{}", stage + 1, i),
                        .inner = options.channels(variant.inner * doubled),
                        .outer = options.channels((variant.bottleneck ? 256 : 64) * doubled),
                        .stride = stage > 0 && i == 0 ? 2 : 1};
      x = variant.bottleneck ? block.bottleneck(x) : block.basic(x);
    }
  }
  x = builder.global_avg_pool("avgpool", x);
  return builder.classify(builder.linear("fc", builder.flatten("flatten", x), options.classes));
}

}  // namespace outsize
