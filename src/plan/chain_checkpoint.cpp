#include "plan/chain_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace outsize {

namespace {

using Kind = ChainStep::Kind;

// Sizes in slots, rounded up.
struct SlotSizes {
  std::vector<std::int64_t> x, y, forward_extra, backward_extra;
  std::int64_t memory = 0;
};

SlotSizes sizes_in_slots(const Chain& chain, std::int64_t memory, std::int64_t slots) {
  const auto up = [&](const std::vector<std::int64_t>& bytes) {
    std::vector<std::int64_t> result;
    for (const std::int64_t size : bytes) result.push_back(slots_up(size, slots, memory));
    return result;
  };
  return {up(chain.x), up(chain.y), up(chain.forward_extra), up(chain.backward_extra), slots};
}

// The least forward time of segments. A segment [i, j] begins with x_i and y_{j+1} in memory and ends when B_j … B_i have run, with
// x_i still there. It is either given x_{j+1}, which the segment after it has just read, or makes it again.
class SegmentTable {
 public:
  SegmentTable(const Chain& chain, std::int64_t memory, std::int64_t slots)
      : layers_(chain.layers()), seconds_(chain.forward), sizes_(sizes_in_slots(chain, memory, slots)) {
    width_ = static_cast<std::size_t>(slots) + 1;
    least_.assign(layers_ * (layers_ + 1) * width_, kNever);
    for (std::size_t length = 1; length <= layers_; ++length) {
      for (std::size_t i = 0; i + length <= layers_; ++i) {
        for (const bool given : {false, true}) fill(i, i + length - 1, given);
      }
    }
  }

  std::optional<std::vector<ChainStep>> steps() const {
    if (least(0, layers_ - 1, false, width_ - 1) == kNever) return std::nullopt;
    std::vector<ChainStep> result;
    add_steps(0, layers_ - 1, false, width_ - 1, result);
    return result;
  }

 private:
  static constexpr float kNever = std::numeric_limits<float>::infinity();

  // Where the least times of a segment begin; one for each memory, in slots.
  std::size_t row(std::size_t i, std::size_t j, bool given) const { return ((j * (j + 1) / 2 + i) * 2 + (given ? 1 : 0)) * width_; }
  float least(std::size_t i, std::size_t j, bool given, std::size_t m) const { return least_[row(i, j, given) + m]; }

  // What is in memory beside x_i while forward ops of the segment run. y_{L+1} comes with B_L.
  std::int64_t held(std::size_t j, bool given) const {
    return (j + 1 == layers_ ? 0 : sizes_.y[j + 1]) + (given ? sizes_.x[j + 1] : 0);
  }

  // Slots and seconds of F_i … F_{k−1} that keep x_i and x_k.
  struct Run {
    std::int64_t slots = 0;
    float seconds = 0;
  };
  // For one more op, F_l.
  Run longer(Run run, std::size_t i, std::size_t l, std::int64_t held) const {
    const std::int64_t kept = l == i ? 0 : sizes_.x[i];
    return {std::max(run.slots, held + kept + sizes_.x[l] + sizes_.x[l + 1] + sizes_.forward_extra[l]),
            run.seconds + static_cast<float>(seconds_[l])};
  }

  void fill(std::size_t i, std::size_t j, bool given) {
    float* const here = least_.data() + row(i, j, given);
    if (i == j) {
      std::int64_t slots = sizes_.x[i] + sizes_.x[i + 1] + sizes_.y[i] + sizes_.y[i + 1] + sizes_.backward_extra[i];
      float seconds = 0;
      if (!given) {
        const Run run = longer({}, i, i, held(j, given));
        slots = std::max(slots, run.slots);
        seconds = run.seconds;
      }
      for (std::size_t m = static_cast<std::size_t>(std::min<std::int64_t>(slots, static_cast<std::int64_t>(width_))); m < width_;
           ++m) {
        here[m] = seconds;
      }
      return;
    }
    const std::size_t x = static_cast<std::size_t>(sizes_.x[i]);
    Run run;
    for (std::size_t k = i + 1; k <= j; ++k) {
      run = longer(run, i, k - 1, held(j, given));
      if (run.slots > sizes_.memory) break;
      const float* const right = least_.data() + row(k, j, given);
      const float* const left_given = least_.data() + row(i, k - 1, true);
      const float* const left = least_.data() + row(i, k - 1, false);
      // run.slots ≥ x.
      for (std::size_t m = static_cast<std::size_t>(run.slots); m < width_; ++m) {
        here[m] = std::min(here[m], run.seconds + right[m - x] + std::min(left_given[m], left[m]));
      }
    }
  }

  void add_steps(std::size_t i, std::size_t j, bool given, std::size_t m, std::vector<ChainStep>& steps) const {
    if (i == j) {
      if (!given) steps.push_back({Kind::forward, i});
      steps.push_back({Kind::backward, i});
      return;
    }
    // The k that `fill` took: the same sums again.
    const std::size_t x = static_cast<std::size_t>(sizes_.x[i]);
    const float wanted = least(i, j, given, m);
    Run run;
    for (std::size_t k = i + 1; k <= j; ++k) {
      run = longer(run, i, k - 1, held(j, given));
      if (run.slots > static_cast<std::int64_t>(m)) break;
      const float left_given = least(i, k - 1, true, m);
      const float left = least(i, k - 1, false, m);
      if (run.seconds + least(k, j, given, m - x) + std::min(left_given, left) > wanted) continue;
      for (std::size_t l = i; l < k; ++l) {
        steps.push_back({Kind::forward, l});
        if (l > i) steps.push_back({Kind::drop, l});
      }
      add_steps(k, j, given, m - x, steps);
      if (left < left_given) steps.push_back({Kind::drop, k});
      add_steps(i, k - 1, left_given <= left, m, steps);
      return;
    }
    internal_error("no split of the segment [{}, {}] has its least time", i, j);
  }

  std::size_t layers_;
  const std::vector<double>& seconds_;
  SlotSizes sizes_;
  std::size_t width_ = 0;
  std::vector<float> least_;
};

}  // namespace

ChainCost chain_cost(const Chain& chain, const std::vector<ChainStep>& steps) {
  check_chain(chain);
  ChainCost cost;
  std::vector<bool> here(chain.layers() + 1, false);
  here[0] = true;
  std::int64_t bytes = chain.x[0];     // of all x here
  std::int64_t gradient = 0;           // y between ops; y_{L+1} comes with B_L
  std::size_t to_do = chain.layers();  // B_{to_do−1} is next
  for (const ChainStep& step : steps) {
    const std::size_t i = step.i;
    OUTSIZE_CHECK(i < chain.layers() && here[i]);
    switch (step.kind) {
      case Kind::forward:
        OUTSIZE_CHECK(!here[i + 1]);
        here[i + 1] = true;
        bytes += chain.x[i + 1];
        cost.peak_bytes = std::max(cost.peak_bytes, bytes + gradient + chain.forward_extra[i]);
        cost.seconds += chain.forward[i];
        break;
      case Kind::backward:
        OUTSIZE_CHECK(here[i + 1] && i + 1 == to_do);
        to_do = i;
        cost.peak_bytes = std::max(cost.peak_bytes, bytes + chain.y[i] + chain.y[i + 1] + chain.backward_extra[i]);
        cost.seconds += chain.backward[i];
        here[i + 1] = false;
        bytes -= chain.x[i + 1];
        gradient = chain.y[i];
        break;
      case Kind::drop:
        here[i] = false;
        bytes -= chain.x[i];
        break;
    }
  }
  OUTSIZE_CHECK(to_do == 0);
  return cost;
}

std::vector<bool> periodic_checkpoints(std::size_t layers, std::size_t segments) {
  OUTSIZE_CHECK(segments > 0 && segments <= layers);
  std::vector<bool> kept(layers, false);
  for (std::size_t segment = 0; segment < segments; ++segment) kept[segment * layers / segments] = true;
  return kept;
}

std::vector<bool> sqrt_checkpoints(std::size_t layers) {
  return periodic_checkpoints(layers, static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(layers)))));
}

std::vector<ChainStep> checkpoint_steps(const std::vector<bool>& kept) {
  OUTSIZE_CHECK(!kept.empty() && kept[0]);
  std::size_t end = kept.size();  // of the segment that begins at `start`
  std::size_t start = end - 1;
  while (!kept[start]) --start;

  std::vector<ChainStep> steps;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    steps.push_back({Kind::forward, i});
    if (!kept[i] && i < start) steps.push_back({Kind::drop, i});
  }
  while (true) {
    for (std::size_t i = end; i-- > start;) steps.push_back({Kind::backward, i});
    if (start == 0) return steps;
    end = start--;
    while (!kept[start]) --start;
    for (std::size_t i = start; i + 1 < end; ++i) steps.push_back({Kind::forward, i});
  }
}

std::optional<std::vector<ChainStep>> optimal_checkpoint_steps(const Chain& chain, std::int64_t memory, int slots) {
  check_chain(chain);
  OUTSIZE_CHECK(memory > 0 && slots > 0);
  return SegmentTable(chain, memory, std::min<std::int64_t>(slots, memory)).steps();
}

}  // namespace outsize
