#include "base/shape.h"

#include <fmt/ranges.h>

#include "base/box.h"

namespace outsize {

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims.begin(), dims.end(), ", ")); }

std::string to_string(const Box& box) {
  std::string text = "[";
  for (int i = 0; i < box.rank(); ++i) text += fmt::format("{}{}:{}", i ? ", " : "", box.lo[i], box.hi[i]);
  return text + "]";
}

}  // namespace outsize
