// U-Net (Ronneberger et al. 2015) and 3-D U-Net (Çiçek et al. 2016) with padded convolutions and batch norm, so that the result has
// the size of the image: two convolutions a level, max pooling down, transposed convolutions up, and the level's own map beside
// what comes from below.
#include "model/builder.h"

namespace outsize {

namespace {

ValueId conv_norm_relu(ModelBuilder& builder, const std::string& name, int index, ValueId x, std::int64_t channels) {
  x = builder.conv(fmt::format("{}.conv{}", name, index), x, channels, {.kernel = 3, .padding = 1}, false);
  return builder.relu(fmt::format("{}.relu{}", name, index), builder.batch_norm(fmt::format("{}.bn{}", name, index), x));
}

ValueId double_conv(ModelBuilder& builder, const std::string& name, ValueId x, std::int64_t first, std::int64_t second) {
  return conv_norm_relu(builder, name, 2, conv_norm_relu(builder, name, 1, x, first), second);
}

}  // namespace

Graph build_unet(std::string_view name, const ModelOptions& options) {
  const bool volume = name == "unet3d";
  const int levels = volume ? 3 : 4;           // poolings
  const std::int64_t stem = volume ? 32 : 64;  // channels of the first level
  const std::int64_t divisor = std::int64_t{1} << levels;
  for (std::int64_t extent : {options.image_height, options.image_width, std::max(divisor, options.image_depth)})
    if (extent % divisor != 0) user_error("every extent must be a multiple of {}, found {}", divisor, extent);
  ModelBuilder builder(name, options);
  builder.conv_init = {LayerInit::Kind::kaiming_out};
  ValueId x = builder.image(volume ? 1 : 3);
  std::vector<ValueId> levels_out;
  for (int level = 0; level <= levels; ++level) {
    const std::int64_t channels = options.channels(stem << level);
    if (level > 0) x = builder.max_pool(fmt::format("pool{}", level), x, {.kernel = 2, .stride = 2});
    // The 3-D network doubles its channels in the second convolution of a level, from `stem`; the 2-D one in the first.
    const std::string down = fmt::format("down{}", level);
    x = volume ? double_conv(builder, down, x, channels, options.channels(stem << (level + 1)))
               : double_conv(builder, down, x, channels, channels);
    levels_out.push_back(x);
  }
  for (int level = levels - 1; level >= 0; --level) {
    const std::int64_t channels = options.channels(stem << (volume ? level + 1 : level));
    // 3-D: the transposed convolution keeps its channels; 2-D: it halves them.
    const std::int64_t up_channels = volume ? builder.shape(x)[1] : channels;
    x = builder.conv_transpose(fmt::format("up{}", level), x, up_channels, {.kernel = 2, .stride = 2});
    x = builder.concat(fmt::format("concat{}", level), {levels_out[level], x});
    x = double_conv(builder, fmt::format("merge{}", level), x, channels, channels);
  }
  return builder.classify(builder.conv("head", x, options.classes, {.kernel = 1}, true));
}

}  // namespace outsize
