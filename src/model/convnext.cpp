// ConvNeXt (Liu et al. 2022), tiny, layer for layer as torchvision has it.
#include <array>

#include "model/builder.h"

namespace outsize {

namespace {

constexpr std::array<std::int64_t, 4> kChannels{96, 192, 384, 768};
constexpr std::array<int, 4> kBlocks{3, 3, 9, 3};
constexpr int kTotalBlocks = 18;
constexpr double kStochasticDepth = 0.1;  // of the last block; it grows evenly from 0

ValueId block(ModelBuilder& builder, const std::string& name, ValueId x, double rate) {
  const std::int64_t channels = builder.shape(x)[1];
  ValueId y = builder.conv(name + ".block.0", x, channels, {.kernel = 7, .padding = 3, .groups = channels}, true);
  y = builder.layer_norm(name + ".block.2", builder.channels_last(name + ".block.1", y));
  y = builder.gelu(name + ".block.4", builder.linear(name + ".block.3", y, 4 * channels));
  y = builder.channels_first(name + ".block.6", builder.linear(name + ".block.5", y, channels));
  const ValueId scale = builder.parameter(name + ".layer_scale", {channels, 1, 1}, {Init::Kind::constant, 1e-6});
  y = builder.stochastic_depth(name + ".stochastic_depth", builder.mul(name + ".scale", y, scale), rate);
  return builder.add(name + ".add", y, x);
}

}  // namespace

Graph build_convnext(std::string_view name, const ModelOptions& options) {
  ModelBuilder builder(name, options);
  builder.conv_init = builder.linear_init = {LayerInit::Kind::normal, 0.02};
  builder.norm_eps = 1e-6;
  ValueId x = builder.conv("features.0.0", builder.image(), options.channels(kChannels[0]), {.kernel = 4, .stride = 4}, true);
  x = builder.map_layer_norm("features.0.1", x);
  int done = 0;
  for (std::size_t stage = 0; stage < kChannels.size(); ++stage) {
    if (stage > 0) {
      const std::string down = fmt::format("features.{}", 2 * stage);
      x = builder.map_layer_norm(down + ".0", x);
      x = builder.conv(down + ".1", x, options.channels(kChannels[stage]), {.kernel = 2, .stride = 2}, true);
    }
    for (int i = 0; i < kBlocks[stage]; ++i)
      x = block(builder, fmt::format("features.{}.{}", 2 * stage + 1, i), x, kStochasticDepth * done++ / (kTotalBlocks - 1.0));
  }
  x = builder.map_layer_norm("classifier.0", builder.global_avg_pool("avgpool", x));
  return builder.classify(builder.linear("classifier.2", builder.flatten("classifier.1", x), options.classes));
}

}  // namespace outsize
