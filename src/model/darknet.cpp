// Darknet-19 (Redmon and Farhadi 2016, YOLO9000, table 6): 3×3 convolutions with 1×1 ones between them, batch norm and leaky relu
// after each, a last 1×1 convolution to the classes and a mean over the image.
#include "model/builder.h"

namespace outsize {

namespace {

struct Layer {
  std::int64_t channels = 0;  // 0: max pooling
  std::int64_t kernel = 3;
};

constexpr Layer kPool{};
constexpr Layer kLayers[]{{32},  kPool,    {64},  kPool,    {128}, {64, 1}, {128},  kPool,    {256},  {128, 1}, {256}, kPool,
                          {512}, {256, 1}, {512}, {256, 1}, {512}, kPool,   {1024}, {512, 1}, {1024}, {512, 1}, {1024}};

}  // namespace

Graph build_darknet(std::string_view name, const ModelOptions& options) {
  ModelBuilder builder(name, options);
  builder.conv_init = {LayerInit::Kind::kaiming_out};
  ValueId x = builder.image();
  int index = 0;  // in a torch.nn.Sequential
  const auto next = [&index] { return fmt::format("features.{}", index++); };
  for (const Layer& layer : kLayers) {
    if (layer.channels == 0) {
      x = builder.max_pool(next(), x, {.kernel = 2, .stride = 2});
      continue;
    }
    x = builder.conv(next(), x, options.channels(layer.channels), {.kernel = layer.kernel, .padding = layer.kernel / 2}, false);
    x = builder.batch_norm(next(), x);
    x = builder.leaky_relu(next(), x, 0.1);
  }
  x = builder.conv("classifier", x, options.classes, {.kernel = 1}, true);
  return builder.classify(builder.flatten("flatten", builder.global_avg_pool("avgpool", x)));
}

}  // namespace outsize
