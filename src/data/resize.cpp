#include "data/resize.h"

#include <algorithm>
#include <cmath>

namespace outsize {

Resizer::Resizer(Extents from, Extents to, std::int64_t channels)
    : channels_(channels),
      rows_(weights(from.rows, to.rows)),
      columns_(weights(from.columns, to.columns)),
      row_(to.columns * channels),
      result_(to.rows * to.columns * channels) {}

std::vector<Resizer::Weights> Resizer::weights(std::int64_t from, std::int64_t to) {
  const double ratio = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(ratio, 1.0);  // of the triangle, to each side
  std::vector<Weights> all;
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * ratio;
    const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(centre - reach + 0.5)));
    const auto end = std::min(from, static_cast<std::int64_t>(std::floor(centre + reach + 0.5)));
    std::vector<double> triangle;
    double sum = 0;
    for (std::int64_t k = first; k < end; ++k) {
      triangle.push_back(std::max(0.0, 1 - std::abs((static_cast<double>(k) + 0.5 - centre) / reach)));
      sum += triangle.back();
    }
    Weights weights{first, {}};
    for (double value : triangle) weights.values.push_back(static_cast<float>(value / sum));
    all.push_back(std::move(weights));
  }
  return all;
}

void Resizer::add(const std::uint8_t* row) {
  float* scaled = row_.data();
  for (const Weights& weights : columns_)
    for (std::int64_t c = 0; c < channels_; ++c) {
      float sum = 0;
      const std::uint8_t* pixel = row + weights.first * channels_ + c;
      for (float weight : weights.values) {
        sum += weight * static_cast<float>(*pixel);
        pixel += channels_;
      }
      *scaled++ = sum;
    }
  while (finished_ < rows_.size() && rows_[finished_].end() <= at_) ++finished_;
  for (std::size_t r = finished_; r < rows_.size() && rows_[r].first <= at_; ++r) {
    if (at_ >= rows_[r].end()) continue;
    const float weight = rows_[r].values[at_ - rows_[r].first];
    float* out = result_.data() + r * row_.size();
    for (std::size_t i = 0; i < row_.size(); ++i) out[i] += weight * row_[i];
  }
  ++at_;
}

std::vector<std::uint8_t> Resizer::take() {
  std::vector<std::uint8_t> bytes(result_.size());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(std::clamp(std::floor(result_[i] + 0.5F), 0.0F, 255.0F));
  return bytes;
}

}  // namespace outsize
