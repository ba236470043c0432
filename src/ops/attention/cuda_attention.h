#pragma once

#include <cstdint>

namespace outsize {

// The most bytes of scores that kernels of attention work on at once, and have as workspace; of kernels that are made from then on.
// Benchmarks set it.
namespace card {
std::int64_t& score_bytes();
}
namespace emulated {
std::int64_t& score_bytes();
}

}  // namespace outsize
