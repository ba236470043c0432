// VGG (Simonyan and Zisserman 2014), layer for layer as torchvision has it.
#include <array>
#include <span>

#include "model/builder.h"

namespace outsize {

namespace {

constexpr std::int64_t kPool = 0;  // in a configuration: max pooling; any other number: a 3×3 convolution of that many channels

constexpr std::int64_t kA[]{64, kPool, 128, kPool, 256, 256, kPool, 512, 512, kPool, 512, 512, kPool};
constexpr std::int64_t kB[]{64, 64, kPool, 128, 128, kPool, 256, 256, kPool, 512, 512, kPool, 512, 512, kPool};
constexpr std::int64_t kD[]{64, 64, kPool, 128, 128, kPool, 256, 256, 256, kPool, 512, 512, 512, kPool, 512, 512, 512, kPool};
constexpr std::int64_t kE[]{64,  64,  kPool, 128, 128,   kPool, 256, 256, 256, 256,  kPool,
                            512, 512, 512,   512, kPool, 512,   512, 512, 512, kPool};

std::span<const std::int64_t> configuration(std::string_view name) {
  if (name.starts_with("vgg11")) return kA;
  if (name.starts_with("vgg13")) return kB;
  if (name.starts_with("vgg16")) return kD;
  if (name.starts_with("vgg19")) return kE;
  internal_error("no configuration for the model '{}'", name);
}

ValueId features(ModelBuilder& builder, ValueId x, std::span<const std::int64_t> layers, bool batch_norm,
                 const ModelOptions& options) {
  int index = 0;  // in torchvision's Sequential
  const auto next = [&index] { return fmt::format("features.{}", index++); };
  for (std::int64_t channels : layers) {
    if (channels == kPool) {
      x = builder.max_pool(next(), x, {.kernel = 2, .stride = 2});
      continue;
    }
    x = builder.conv(next(), x, options.channels(channels), {.kernel = 3, .padding = 1}, true);
    if (batch_norm) x = builder.batch_norm(next(), x);
    x = builder.relu(next(), x);
  }
  return x;
}

ValueId classifier(ModelBuilder& builder, ValueId x, const ModelOptions& options) {
  builder.linear_init = {LayerInit::Kind::normal, 0.01};
  x = builder.adaptive_avg_pool("avgpool", x, 7);
  x = builder.flatten("flatten", x);
  x = builder.linear("classifier.0", x, options.channels(4096));
  x = builder.dropout("classifier.2", builder.relu("classifier.1", x), 0.5);
  x = builder.linear("classifier.3", x, options.channels(4096));
  x = builder.dropout("classifier.5", builder.relu("classifier.4", x), 0.5);
  return builder.linear("classifier.6", x, options.classes);
}

}  // namespace

Graph build_vgg(std::string_view name, const ModelOptions& options) {
  ModelBuilder builder(name, options);
  builder.conv_init = {LayerInit::Kind::kaiming_out};
  const ValueId map = features(builder, builder.image(), configuration(name), name.ends_with("_bn"), options);
  return name.ends_with("-features") ? builder.regress(map) : builder.classify(classifier(builder, map, options));
}

}  // namespace outsize
