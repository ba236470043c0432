#pragma once

#include <cstdint>
#include <vector>

namespace outsize {

// Scales an image that is given row by row, by linear interpolation; where it shrinks, over as many pixels as fall into one (as
// Pillow's BILINEAR does). Only the result is held.
class Resizer {
 public:
  struct Extents {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
  };

  Resizer(Extents from, Extents to, std::int64_t channels);
  // The next row of the image.
  void add(const std::uint8_t* row);
  // The result, when all rows have been added.
  std::vector<std::uint8_t> take();

 private:
  // What an output pixel is made of: weights of the pixels from `first` on.
  struct Weights {
    std::int64_t first = 0;
    std::vector<float> values;

    std::int64_t end() const { return first + static_cast<std::int64_t>(values.size()); }
  };
  static std::vector<Weights> weights(std::int64_t from, std::int64_t to);

  std::int64_t channels_;
  std::vector<Weights> rows_, columns_;
  std::int64_t at_ = 0;       // rows added
  std::size_t finished_ = 0;  // result rows that no further row adds to
  std::vector<float> row_;    // the added row, scaled in width
  std::vector<float> result_;
};

}  // namespace outsize
