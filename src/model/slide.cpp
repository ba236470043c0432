// A small stack of convolutions for very large images. No layer looks at the whole image before the last pooling, and no norm
// needs the statistics of all of it, so that it can be trained tile by tile in one pass. The pooling before the mean keeps what is
// small and rare.
#include "model/builder.h"

namespace outsize {

Graph build_slide(std::string_view name, const ModelOptions& options) {
  ModelBuilder builder(name, options);
  builder.conv_init = {LayerInit::Kind::kaiming_out};
  ValueId x = builder.image();
  // Channels and stride; forward, a pixel of the image costs 216 + 576 + 1152 + 576 + 3 · 1152 = 5976 operations.
  constexpr std::pair<std::int64_t, std::int64_t> kLayers[]{{16, 2}, {32, 2}, {32, 1}, {64, 2}, {64, 1}, {64, 1}, {64, 1}};
  int index = 0;
  for (const auto& [channels, stride] : kLayers) {
    x = builder.conv(fmt::format("features.{}", index), x, options.channels(channels),
                     {.kernel = 3, .stride = stride, .padding = 1}, true);
    x = builder.relu(fmt::format("features.{}", index + 1), x);
    index += 2;
  }
  x = builder.max_pool(fmt::format("features.{}", index), x, {.kernel = 4, .stride = 4});
  x = builder.flatten("flatten", builder.global_avg_pool("avgpool", x));
  return builder.classify(builder.linear("classifier", x, options.classes));
}

}  // namespace outsize
