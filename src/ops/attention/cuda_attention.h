#pragma once

#include <cstdint>

// How kernels of attention are cut that are made from then on. Benchmarks set it.
namespace outsize {

// score_bytes(): the most bytes of scores that are worked on at once, and lie in the workspace.
// causal_blocks(): where queries see the keys before them only, in how many blocks they are, each with the keys that it sees.
namespace card {
std::int64_t& score_bytes();
std::int64_t& causal_blocks();
}  // namespace card
namespace emulated {
std::int64_t& score_bytes();
std::int64_t& causal_blocks();
}  // namespace emulated

}  // namespace outsize
