#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "data/window.h"

namespace outsize {

// What a training step takes: samples `x` and their labels or targets `y`, samples first in both.
struct BatchSpec {
  DType x_dtype = DType::f32;
  Dims x_shape;
  DType y_dtype = DType::i32;
  Dims y_shape;
  std::int64_t classes = 0;                   // where y holds labels: they are in [0, classes)
  std::int64_t x_classes = 0;                 // where x holds tokens (i32): they are in [0, x_classes)
  std::optional<std::int64_t> ignored_label;  // a label that stands for none

  std::int64_t batch() const { return x_shape[0]; }
};

// One batch, dense row-major in the dtypes of its spec.
struct Batch {
  std::vector<std::byte> x;   // empty where `windows` reads it
  WindowReader windows;       // reads a box of x, samples first; none where x is here
  std::vector<std::byte> y;   // empty where `y_windows` reads it
  WindowReader y_windows;     // the same of y
  std::int64_t labelled = 0;  // where y_windows reads labels: how many of them name a class
  std::int64_t samples = 0;   // an epoch's last batch may have fewer than its spec
  Dims x_shape, y_shape;      // samples first
};

// The first of `values` that is neither in [0, limit) nor `ignored`; their number when there is none.
inline std::int64_t find_outside(std::span<const std::int32_t> values, std::int64_t limit, std::optional<std::int64_t> ignored) {
  std::size_t i = 0;
  while (i < values.size() && ((values[i] >= 0 && values[i] < limit) || (ignored && values[i] == *ignored))) ++i;
  return static_cast<std::int64_t>(i);
}

// How many of the labels, i32, name one of the classes.
inline std::int64_t count_labels(std::span<const std::byte> labels, std::int64_t classes) {
  std::int64_t named = 0;
  for (std::size_t at = 0; at + sizeof(std::int32_t) <= labels.size(); at += sizeof(std::int32_t)) {
    std::int32_t label = 0;
    std::memcpy(&label, labels.data() + at, sizeof label);
    named += label >= 0 && label < classes;
  }
  return named;
}

// "expected 0 to 9", "expected 0 to 9, or -100 for none"
inline std::string expected_integers(std::int64_t limit, std::optional<std::int64_t> ignored) {
  return fmt::format("expected 0 to {}{}", limit - 1, ignored ? fmt::format(", or {} for none", *ignored) : std::string());
}

}  // namespace outsize
