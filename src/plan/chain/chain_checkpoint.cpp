#include "plan/chain/chain_checkpoint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace outsize {

namespace {

using Kind = ChainStep::Kind;

// Sizes in slots, rounded up.
struct SlotSizes {
  std::vector<std::size_t> x, y, forward_extra, backward_extra;
};

SlotSizes sizes_in_slots(const Chain& chain, std::int64_t memory, std::int64_t slots) {
  const auto up = [&](const std::vector<std::int64_t>& bytes) {
    std::vector<std::size_t> result;
    for (const std::int64_t size : bytes) result.push_back(static_cast<std::size_t>(slots_up(size, slots, memory)));
    return result;
  };
  return {up(chain.x), up(chain.y), up(chain.forward_extra), up(chain.backward_extra)};
}

// The least forward time of segments. A segment [i, j] begins with x_i and y_{j+1} in memory and ends when B_j … B_i have run, with
// x_i still there. It is either given x_{j+1}, which the segment after it has just read, or makes it again.
class SegmentTable {
 public:
  SegmentTable(const Chain& chain, std::int64_t memory, std::int64_t slots)
      : chain_(chain), memory_(memory), layers_(chain.layers()), sizes_(sizes_in_slots(chain, memory, slots)) {
    // Sizes that were rounded up leave memory unused: steps for a quarter more may fit in bytes.
    width_ = static_cast<std::size_t>(slots + slots / 4) + 1;
    least_.assign(layers_ * (layers_ + 1) * width_, kNever);
    spans_.resize(layers_ * (layers_ + 1));
    // A segment needs those that begin later or end earlier. Some ends at a time, for what they read to stay in the cache.
    constexpr std::size_t kEnds = 8;
    for (std::size_t begin = 0; begin < layers_; begin += kEnds) {
      const std::size_t end = std::min(begin + kEnds, layers_);
      for (std::size_t i = end; i-- > 0;) {
        for (std::size_t j = std::max(i, begin); j < end; ++j) fill(i, j);
      }
    }
  }

  // More memory never makes the least time longer, so the first steps that fit are the shortest.
  std::optional<std::vector<ChainStep>> steps() const {
    const std::size_t last = layers_ - 1;
    for (std::size_t m = width_; m-- > spans_[index(0, last, false)].first;) {
      std::vector<ChainStep> result;
      add_steps(0, last, false, m, result);
      if (chain_cost(chain_, result).peak_bytes <= memory_) return result;
    }
    return std::nullopt;
  }

 private:
  static constexpr float kNever = std::numeric_limits<float>::infinity();

  // Of a segment, in slots: the least memory that does, and that with which nothing runs twice.
  struct Span {
    std::size_t first = 0, enough = 0;
  };

  std::size_t index(std::size_t i, std::size_t j, bool given) const { return (j * (j + 1) / 2 + i) * 2 + (given ? 1 : 0); }
  // The least times of a segment, one for each memory.
  float* row(std::size_t i, std::size_t j, bool given) { return least_.data() + index(i, j, given) * width_; }
  float least(std::size_t i, std::size_t j, bool given, std::size_t m) const { return least_[index(i, j, given) * width_ + m]; }

  // What is in memory beside x_i while forward ops of the segment run. y_{L+1} comes with B_L.
  std::size_t held(std::size_t j, bool given) const {
    return (j + 1 == layers_ ? 0 : sizes_.y[j + 1]) + (given ? sizes_.x[j + 1] : 0);
  }

  // Slots and seconds of F_i … F_{k−1} that keep x_i and x_k.
  struct Run {
    std::size_t slots = 0;
    float seconds = 0;
  };
  // For one more op, F_l.
  Run longer(Run run, std::size_t i, std::size_t l, std::size_t held) const {
    const std::size_t kept = l == i ? 0 : sizes_.x[i];
    return {std::max(run.slots, held + kept + sizes_.x[l] + sizes_.x[l + 1] + sizes_.forward_extra[l]),
            run.seconds + static_cast<float>(chain_.forward[l])};
  }

  void fill(std::size_t i, std::size_t j) {
    if (i == j) {
      const std::size_t backward = sizes_.x[i] + sizes_.x[i + 1] + sizes_.y[i] + sizes_.y[i + 1] + sizes_.backward_extra[i];
      const Run run = longer({}, i, i, held(j, false));
      fill_single(i, true, {backward, 0});
      fill_single(i, false, {std::max(backward, run.slots), run.seconds});
      return;
    }
    std::array<Run, 2> runs;
    for (std::size_t k = i + 1; k <= j; ++k) {
      for (const bool given : {false, true}) {
        Run& run = runs[given];
        run = longer(run, i, k - 1, held(j, given));
        fill_split(i, k, j, given, run);
      }
    }
  }

  void fill_single(std::size_t i, bool given, Run run) {
    const std::size_t first = std::min(run.slots, width_);
    spans_[index(i, i, given)] = {first, first};
    std::fill(row(i, i, given) + first, row(i, i, given) + width_, run.seconds);
  }

  // What a split takes, by memory: its run, the segment after it, and the one before it, which is given x_k or is not.
  struct Parts {
    float run = 0;
    const float* right = nullptr;
    const float* left_given = nullptr;
    const float* left = nullptr;

    float seconds(std::size_t m) const { return run + right[m] + std::min(left_given[m], left[m]); }
  };

  static void take_faster(const Parts parts, std::size_t begin, std::size_t end, float* here) {
    for (std::size_t m = begin; m < end; ++m) {
      const float left = parts.left_given[m] < parts.left[m] ? parts.left_given[m] : parts.left[m];
      const float seconds = parts.run + parts.right[m] + left;
      here[m] = seconds < here[m] ? seconds : here[m];
    }
  }

  // [i, j] by a run to x_k, then [k, j], then [i, k − 1].
  void fill_split(std::size_t i, std::size_t k, std::size_t j, bool given, Run run) {
    Span& span = spans_[index(i, j, given)];
    const Span& right_span = spans_[index(k, j, given)];
    const Span& left_given_span = spans_[index(i, k - 1, true)];
    const std::size_t x = sizes_.x[i];
    if (k == i + 1) span = {width_, std::min(width_, std::max({run.slots, right_span.enough + x, left_given_span.enough}))};
    const std::size_t first =
        std::max({run.slots, right_span.first + x, std::min(left_given_span.first, spans_[index(i, k - 1, false)].first)});
    const std::size_t end = k == i + 1 ? width_ : span.enough;
    if (first >= end) return;
    span.first = std::min(span.first, first);
    float* const here = row(i, j, given);
    const Parts parts{run.seconds, row(k, j, given) - x, row(i, k - 1, true), row(i, k - 1, false)};
    // Times fall with memory: where another split takes no longer with the least memory of a block than this with the most, none of
    // the block changes.
    constexpr std::size_t kBlock = 64;
    for (std::size_t begin = first; begin < end; begin += kBlock) {
      const std::size_t stop = std::min(begin + kBlock, end);
      if (here[begin] > parts.seconds(stop - 1)) take_faster(parts, begin, stop, here);
    }
  }

  void add_steps(std::size_t i, std::size_t j, bool given, std::size_t m, std::vector<ChainStep>& steps) const {
    if (i == j) {
      if (!given) steps.push_back({Kind::forward, i});
      steps.push_back({Kind::backward, i});
      return;
    }
    // The k that `fill` took: the same sums again.
    const std::size_t x = sizes_.x[i];
    const float wanted = least(i, j, given, m);
    Run run;
    for (std::size_t k = i + 1; k <= j; ++k) {
      run = longer(run, i, k - 1, held(j, given));
      if (run.slots > m) break;
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

  const Chain& chain_;
  std::int64_t memory_;
  std::size_t layers_;
  SlotSizes sizes_;
  std::size_t width_ = 0;  // a time for each memory from none on
  std::vector<float> least_;
  std::vector<Span> spans_;
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
