#include "plan/chain/chain_offload.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace outsize {

namespace {

enum class Release : std::uint8_t { whole, by_the_byte };

// The transfers of one pass, in their order.
class Lane {
 public:
  Lane(double bandwidth, Release release) : bandwidth_(bandwidth), release_(release) {}

  // A transfer of `bytes` that may begin at `ready`.
  void add(std::int64_t bytes, double ready) {
    if (bytes == 0) return;
    transfers_.push_back({std::max(ready, end()) + static_cast<double>(bytes) / bandwidth_, total() + bytes});
  }

  // When `bytes` of all that is added have left the device's memory.
  double released(std::int64_t bytes) const {
    if (bytes <= 0) return 0;
    const auto transfer = std::lower_bound(transfers_.begin(), transfers_.end(), bytes,
                                           [](const Transfer& t, std::int64_t wanted) { return t.sum < wanted; });
    OUTSIZE_CHECK(transfer != transfers_.end());
    if (release_ == Release::whole) return transfer->end;
    return transfer->end - static_cast<double>(transfer->sum - bytes) / bandwidth_;
  }

  double end() const { return transfers_.empty() ? 0 : transfers_.back().end; }
  bool empty() const { return transfers_.empty(); }

 private:
  struct Transfer {
    double end = 0;
    std::int64_t sum = 0;  // bytes of all transfers up to this one
  };

  std::int64_t total() const { return transfers_.empty() ? 0 : transfers_.back().sum; }

  double bandwidth_;
  Release release_;
  std::vector<Transfer> transfers_;
};

// One pass on its own clock. Backward is told from its end: time runs from the end of B_0 back to the start of B_L, and an
// activation that comes back before B_i is one that leaves after it.
struct Sweep {
  Lane lane;
  std::vector<double> end;        // of op i
  std::vector<std::int64_t> out;  // bytes of x_0 … x_{i−1} that must be out while op i runs
};

enum class Direction : std::uint8_t { forward, backward };

// Every op and transfer as early as it can be. `leaving`: bytes of x_i that leave. nullopt: an op does not fit.
std::optional<Sweep> run_sweep(const Chain& chain, Direction direction, const std::vector<std::int64_t>& leaving,
                               std::int64_t memory, double bandwidth, Release release) {
  const bool forward = direction == Direction::forward;
  Sweep sweep{Lane(bandwidth, release), {}, {}};
  std::int64_t made = 0, may_leave = 0;  // Σ_{j<i} of |x_j| and of what leaves
  double now = 0;
  for (std::size_t i = 0; i < chain.layers(); ++i) {
    const std::int64_t out = made + (forward ? forward_bytes(chain, i) : backward_bytes(chain, i)) - memory;
    if (out > may_leave) return std::nullopt;
    const double start = std::max(now, sweep.lane.released(out));
    now = start + (forward ? chain.forward[i] : chain.backward[i]);
    // F_i reads x_i, which may leave meanwhile; B_i needs x_i from its start, which is its end on this clock.
    sweep.lane.add(leaving[i], forward ? start : now);
    sweep.end.push_back(now);
    sweep.out.push_back(out);
    made += chain.x[i];
    may_leave += leaving[i];
  }
  return sweep;
}

// The least idle time between the passes (ε_G), as far as `other`'s transfers that reach into `sweep` ask for it: when an op of
// `sweep` runs, enough must be out on the other's clock.
double gap_for_memory(const Sweep& sweep, const Sweep& other) {
  double gap = 0;
  for (std::size_t i = 0; i < sweep.end.size(); ++i) {
    gap = std::max(gap, other.lane.released(sweep.out[i]) - other.end.back() - (sweep.end.back() - sweep.end[i]));
  }
  return gap;
}

std::optional<double> schedule_seconds(const Chain& chain, const std::vector<std::int64_t>& leaving, std::int64_t memory,
                                       double bandwidth, Release release) {
  const std::optional<Sweep> forward = run_sweep(chain, Direction::forward, leaving, memory, bandwidth, release);
  const std::optional<Sweep> backward = run_sweep(chain, Direction::backward, leaving, memory, bandwidth, release);
  if (!forward || !backward) return std::nullopt;
  double gap = std::max(gap_for_memory(*forward, *backward), gap_for_memory(*backward, *forward));
  // The last transfer out ends before the first one in begins.
  if (!forward->lane.empty()) {
    gap = std::max(gap, forward->lane.end() - forward->end.back() + backward->lane.end() - backward->end.back());
  }
  return forward->end.back() + gap + backward->end.back();
}

std::vector<std::int64_t> whole_activations(const Chain& chain, const std::vector<bool>& offloaded) {
  OUTSIZE_CHECK(offloaded.size() == chain.layers());
  std::vector<std::int64_t> leaving(chain.layers(), 0);
  for (std::size_t i = 0; i < chain.layers(); ++i) {
    if (offloaded[i]) leaving[i] = chain.x[i];
  }
  return leaving;
}

}  // namespace

std::optional<double> offload_seconds(const Chain& chain, const std::vector<bool>& offloaded, std::int64_t memory,
                                      double bandwidth) {
  return schedule_seconds(chain, whole_activations(chain, offloaded), memory, bandwidth, Release::whole);
}

std::optional<double> interruptible_offload_seconds(const Chain& chain, const std::vector<bool>& offloaded, std::int64_t memory,
                                                    double bandwidth) {
  return schedule_seconds(chain, whole_activations(chain, offloaded), memory, bandwidth, Release::by_the_byte);
}

std::optional<double> fractional_offload_seconds(const Chain& chain, std::int64_t memory, double bandwidth) {
  std::vector<std::int64_t> leaving(chain.layers(), 0);
  std::int64_t left = std::max<std::int64_t>(0, peak_bytes(chain) - memory);
  for (std::size_t i = 0; i < chain.layers(); ++i) {
    leaving[i] = std::min(left, chain.x[i]);
    left -= leaving[i];
  }
  return schedule_seconds(chain, leaving, memory, bandwidth, Release::by_the_byte);
}

std::vector<bool> greedy_offload(const Chain& chain, std::int64_t memory) {
  std::vector<bool> offloaded(chain.layers(), false);
  std::int64_t left = peak_bytes(chain) - memory;
  for (std::size_t i = 0; i < chain.layers() && left > 0; ++i) {
    offloaded[i] = chain.x[i] > 0;
    left -= chain.x[i];
  }
  return offloaded;
}

std::optional<std::vector<bool>> vdnn_offload(const Chain& chain, std::int64_t memory, double bandwidth,
                                              std::optional<double> threshold) {
  std::vector<std::size_t> by_ratio;
  for (std::size_t i = 0; i < chain.layers(); ++i) {
    if (chain.x[i] > 0) by_ratio.push_back(i);
  }
  const auto ratio = [&](std::size_t i) { return chain.forward[i] / static_cast<double>(chain.x[i]); };
  std::stable_sort(by_ratio.begin(), by_ratio.end(), [&](std::size_t a, std::size_t b) { return ratio(a) > ratio(b); });

  std::optional<std::vector<bool>> best;
  double best_seconds = 0;
  const auto consider = [&](const std::vector<bool>& offloaded) {
    const std::optional<double> seconds = offload_seconds(chain, offloaded, memory, bandwidth);
    if (!seconds || (best && *seconds >= best_seconds)) return;
    best = offloaded;
    best_seconds = *seconds;
  };
  std::vector<bool> above(chain.layers(), false);
  // Whether the activations with at least ratio `lowest`, where the next below has `next`, are those at or above a threshold.
  const auto wanted = [&](double lowest, double next) { return !threshold || (lowest >= *threshold && next < *threshold); };
  const double none = std::numeric_limits<double>::infinity();
  if (wanted(none, by_ratio.empty() ? -none : ratio(by_ratio.front()))) consider(above);
  for (std::size_t at = 0; at < by_ratio.size(); ++at) {
    above[by_ratio[at]] = true;
    const double next = at + 1 < by_ratio.size() ? ratio(by_ratio[at + 1]) : -none;
    if (next == ratio(by_ratio[at]) || !wanted(ratio(by_ratio[at]), next)) continue;
    consider(above);
    std::vector<bool> half = above;
    bool leaves = false;
    for (std::size_t i = 0; i < half.size(); ++i) {
      if (above[i]) half[i] = leaves = !leaves;
    }
    consider(half);
  }
  return best;
}

}  // namespace outsize
