#pragma once

#include <cstdint>

namespace outsize {

// Bytes needed at the same place from instruction `first` to `last`, both inclusive.
struct Lifetime {
  std::int64_t bytes = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

}  // namespace outsize
