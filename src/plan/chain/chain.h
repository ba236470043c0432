#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace outsize {

// Training as the chain of Beaumont, Eyraud-Dubois and Shilova: forward F_0 … F_L, then backward B_L … B_0. F_i reads x_i and makes
// x_{i+1}; B_i reads x_i, x_{i+1} and y_{i+1} and makes y_i. y_{L+1} is there from the start of B_L.
struct Chain {
  std::vector<double> forward, backward;                    // u_F, u_B: seconds; L + 1 of each
  std::vector<std::int64_t> x, y;                           // bytes; L + 2 of each
  std::vector<std::int64_t> forward_extra, backward_extra;  // ex^F, ex^B: temporary bytes; L + 1 of each

  // L + 1.
  std::size_t layers() const { return forward.size(); }
};

// Throws InternalError unless the vectors have the lengths above, there is a layer, and nothing is negative.
void check_chain(const Chain& chain);

// Bytes that F_i needs for itself: its input, its output and its temporary; the same of B_i.
std::int64_t forward_bytes(const Chain& chain, std::size_t i);
std::int64_t backward_bytes(const Chain& chain, std::size_t i);

// Seconds of all ops, nothing moved and nothing run twice.
double compute_seconds(const Chain& chain);

// M_peak: the most bytes that exist at once when nothing is moved.
std::int64_t peak_bytes(const Chain& chain);

// Proposition 3: no schedule that moves data over a half-duplex link of `bandwidth` bytes a second ends sooner.
double lower_bound(const Chain& chain, std::int64_t memory, double bandwidth);

// No schedule that moves data ends sooner, whether the link carries both directions at once or one at a time: what is too much for
// an op has left before it begins and comes back after it ends. Never below `lower_bound` when both bandwidths are equal.
double tighter_lower_bound(const Chain& chain, std::int64_t memory, double bandwidth_out, double bandwidth_in);

// `bytes` in slots of memory/slots bytes, rounded up.
std::int64_t slots_up(std::int64_t bytes, std::int64_t slots, std::int64_t memory);

}  // namespace outsize
