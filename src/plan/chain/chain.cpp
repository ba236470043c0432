#include "plan/chain/chain.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace outsize {

namespace {

// An op in the order of time: m_F or m_B, what must be stored on device and host together while it runs.
struct TimedOp {
  std::int64_t bytes = 0;
  double seconds = 0;
};

std::vector<TimedOp> ops_in_time(const Chain& chain) {
  const std::size_t layers = chain.layers();
  std::vector<TimedOp> ops(2 * layers);
  std::int64_t before = 0;  // Σ_{j<i} |x_j|
  for (std::size_t i = 0; i < layers; ++i) {
    ops[i] = {before + forward_bytes(chain, i), chain.forward[i]};
    ops[2 * layers - 1 - i] = {before + backward_bytes(chain, i), chain.backward[i]};
    before += chain.x[i];
  }
  return ops;
}

}  // namespace

void check_chain(const Chain& chain) {
  const std::size_t layers = chain.layers();
  OUTSIZE_CHECK(layers > 0 && chain.backward.size() == layers && chain.x.size() == layers + 1 && chain.y.size() == layers + 1);
  OUTSIZE_CHECK(chain.forward_extra.size() == layers && chain.backward_extra.size() == layers);
  const auto none_negative = [](const auto& numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [](auto number) { return number >= 0; });
  };
  OUTSIZE_CHECK(none_negative(chain.forward) && none_negative(chain.backward) && none_negative(chain.x) && none_negative(chain.y));
  OUTSIZE_CHECK(none_negative(chain.forward_extra) && none_negative(chain.backward_extra));
}

std::int64_t forward_bytes(const Chain& chain, std::size_t i) { return chain.x[i] + chain.x[i + 1] + chain.forward_extra[i]; }

std::int64_t backward_bytes(const Chain& chain, std::size_t i) {
  return chain.x[i] + chain.x[i + 1] + chain.y[i] + chain.y[i + 1] + chain.backward_extra[i];
}

double compute_seconds(const Chain& chain) {
  return std::accumulate(chain.forward.begin(), chain.forward.end(), 0.0) +
         std::accumulate(chain.backward.begin(), chain.backward.end(), 0.0);
}

std::int64_t peak_bytes(const Chain& chain) {
  std::int64_t peak = 0;
  for (const TimedOp& op : ops_in_time(chain)) peak = std::max(peak, op.bytes);
  return peak;
}

double lower_bound(const Chain& chain, std::int64_t memory, double bandwidth) {
  return std::max(compute_seconds(chain), 2 * static_cast<double>(peak_bytes(chain) - memory) / bandwidth);
}

double tighter_lower_bound(const Chain& chain, std::int64_t memory, double bandwidth_out, double bandwidth_in) {
  const double all = compute_seconds(chain);
  double bound = all;
  double before = 0;
  for (const TimedOp& op : ops_in_time(chain)) {
    const double excess = static_cast<double>(std::max<std::int64_t>(0, op.bytes - memory));  // Q
    const double after = all - before - op.seconds;
    bound = std::max(bound, std::max(before, excess / bandwidth_out) + op.seconds + std::max(after, excess / bandwidth_in));
    before += op.seconds;
  }
  return bound;
}

std::int64_t slots_up(std::int64_t bytes, std::int64_t slots, std::int64_t memory) {
  return bytes / memory * slots + (bytes % memory * slots + memory - 1) / memory;
}

}  // namespace outsize
