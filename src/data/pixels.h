#pragma once

#include <array>
#include <vector>

#include "data/dataset.h"
#include "data/datasets.h"

namespace outsize {

// What a byte of each channel becomes: (byte / 255 − mean) / deviation.
class PixelScale {
 public:
  // Throws UserError when `options` has neither one mean and deviation nor one a channel.
  PixelScale(std::int64_t channels, const DataOptions& options);

  std::int64_t channels() const { return static_cast<std::int64_t>(table_.size()); }
  double value(std::int64_t channel, std::uint8_t byte) const { return table_[channel][byte]; }
  // "mean 0.485 0.456 0.406, deviation 0.229 0.224 0.225"
  const std::string& description() const { return description_; }
  // Channel `channel` of `count` pixels, whose bytes lie channels() apart.
  template <class T>
  void apply(const std::uint8_t* pixels, std::int64_t count, std::int64_t channel, T* out) const {
    const auto& table = table_[channel];
    const std::int64_t step = channels();
    pixels += channel;
    for (std::int64_t i = 0; i < count; ++i, pixels += step) out[i] = static_cast<T>(table[*pixels]);
  }

 private:
  std::vector<std::array<double, 256>> table_;
  std::string description_;
};

// A sample whose x is an image of bytes.
class PixelSample : public Sample {
 public:
  explicit PixelSample(const PixelScale& scale) : scale_(scale) {}

  Dims x_extents() const final { return {scale_.channels(), rows(), columns()}; }
  void read_x(const Box& window, DType dtype, std::byte* out) const final;

 protected:
  virtual std::int64_t rows() const = 0;
  virtual std::int64_t columns() const = 0;
  // Writes the pixels of a window, row by row, a byte for each channel.
  virtual void read_pixels(Interval rows, Interval columns, std::uint8_t* out) const = 0;

 private:
  template <class T>
  void read_as(const Box& window, T* out) const;

  const PixelScale& scale_;
};

// The channels that `spec` takes of an image. Throws UserError naming `what` when the model does not take images of bytes.
std::int64_t image_channels(const BatchSpec& spec, const std::string& what);

}  // namespace outsize
