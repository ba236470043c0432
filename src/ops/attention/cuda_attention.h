#pragma once

#include <cstdint>

// How kernels of attention are cut that are made from then on. Benchmarks set it.
namespace outsize {

// Whether calls in TF32 may take the fused kernels, and which of those there are for their width of heads: 0 is the usual one, as
// are numbers beyond the last. The gradient consists of one for queries and one for keys and values.
inline constexpr int kFusedChoices = 8;  // as many as there are for one width at most
struct FusedAttention {
  bool allowed = true;
  int forward = 0;
  int queries = 0;
  int keys = 0;
};

// score_bytes(): the most bytes of scores that are worked on at once, and lie in the workspace.
// causal_blocks(): where queries see the keys before them only, in how many blocks they are, each with the keys that it sees.
namespace card {
std::int64_t& score_bytes();
std::int64_t& causal_blocks();
FusedAttention& fused_attention();
}  // namespace card
namespace emulated {
std::int64_t& score_bytes();
std::int64_t& causal_blocks();
FusedAttention& fused_attention();
}  // namespace emulated

}  // namespace outsize
