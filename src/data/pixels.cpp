#include "data/pixels.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace outsize {

namespace {

constexpr std::int64_t kBandBytes = 1 << 20;  // of pixels held while they are scaled

// Of ImageNet's pictures, red, green, blue; and of the three together, for one channel.
const std::vector<double> kMean{0.485, 0.456, 0.406}, kDeviation{0.229, 0.224, 0.225};
const std::vector<double> kGreyMean{0.449}, kGreyDeviation{0.226};

std::vector<double> for_channels(std::int64_t channels, const std::vector<double>& given, const std::vector<double>& usual,
                                 std::string_view what) {
  std::vector<double> values = given.empty() ? usual : given;
  if (values.size() == 1) values.resize(channels, values.front());
  if (static_cast<std::int64_t>(values.size()) != channels)
    user_error("expected one {} or {}, one a channel; found {}", what, channels, values.size());
  return values;
}

}  // namespace

PixelScale::PixelScale(std::int64_t channels, const DataOptions& options) : table_(channels) {
  const bool grey = channels == 1;
  const auto mean = for_channels(channels, options.mean, grey ? kGreyMean : kMean, "mean");
  const auto deviation = for_channels(channels, options.deviation, grey ? kGreyDeviation : kDeviation, "standard deviation");
  for (std::size_t c = 0; c < table_.size(); ++c) {
    if (!(deviation[c] > 0)) user_error("a standard deviation must be above 0, found {}", deviation[c]);
    for (std::size_t byte = 0; byte < 256; ++byte) table_[c][byte] = (static_cast<double>(byte) / 255 - mean[c]) / deviation[c];
  }
  description_ = fmt::format("mean {}, deviation {}", fmt::join(mean, " "), fmt::join(deviation, " "));
}

void PixelSample::read_x(const Box& window, DType dtype, std::byte* out) const {
  if (dtype == DType::f64) return read_as(window, reinterpret_cast<double*>(out));
  OUTSIZE_CHECK(dtype == DType::f32);
  read_as(window, reinterpret_cast<float*>(out));
}

template <class T>
void PixelSample::read_as(const Box& window, T* out) const {
  const std::int64_t width = window.extent(2), plane = window.extent(1) * width;
  if (window.empty()) return;
  const std::int64_t band = std::clamp<std::int64_t>(kBandBytes / (width * scale_.channels()), 1, window.extent(1));
  std::vector<std::uint8_t> pixels(band * width * scale_.channels());
  for (std::int64_t row = window.lo[1]; row < window.hi[1]; row += band) {
    const Interval these{row, std::min(row + band, window.hi[1])};
    read_pixels(these, window[2], pixels.data());
    for (std::int64_t c = window.lo[0]; c < window.hi[0]; ++c)
      scale_.apply(pixels.data(), these.size() * width, c, out + (c - window.lo[0]) * plane + (row - window.lo[1]) * width);
  }
}

std::int64_t image_channels(const BatchSpec& spec, const std::string& what) {
  if (spec.x_shape.rank() != 4 || !is_float(spec.x_dtype))
    user_error("{}: has images, but the model takes {} of {}", what, to_string(spec.x_shape), name_of(spec.x_dtype));
  if (spec.x_shape[1] != 1 && spec.x_shape[1] != 3)
    user_error("{}: images have 3 channels, or 1 in grey, but the model takes {}", what, spec.x_shape[1]);
  return spec.x_shape[1];
}

}  // namespace outsize
