#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/analysis/min_cut.h"
#include "plan/reckon/bounds.h"

namespace outsize {

namespace {

// Ops that are looked at, and nodes that their cuts may have in all: of large graphs, fewer ops are looked at.
constexpr std::int64_t kOps = 32;
constexpr std::int64_t kNodes = 4'000'000;
// Prices of a byte that are tried for one op, around the seconds a byte that all ops take, up to so many times less and more.
constexpr int kPrices = 18;
constexpr double kReach = 1e4;

// What must be there when one op runs for the first time.
class Around {
 public:
  Around(const Work& work, std::int32_t index) : work_(work), before_(work.ops.size(), false), wanted_(work.values.size(), false) {
    find_before(index);
    const Work::Op& op = work.ops[index];
    own_ = op.workspace;
    for (const std::int32_t output : op.outputs)
      if (std::ranges::none_of(op.overwrites, [&](const Work::Op::Overwrite& pair) { return pair.output == output; }))
        own_ += work.values[output].bytes;
    std::vector<bool> behind(work.ops.size(), false);
    behind[index] = true;
    for (std::int32_t k = index; k < std::ssize(work.ops); ++k) {
      const auto follows = [&](std::int32_t input) {
        const std::int32_t producer = work.values[input].producer;
        return producer >= 0 && behind[producer];
      };
      behind[k] = behind[k] || std::ranges::any_of(work.ops[k].inputs, follows);
      if (!behind[k]) continue;
      for (const std::int32_t input : work.ops[k].inputs) {
        const Work::Value& value = work.values[input];
        wanted_[input] = !value.persistent && (value.producer < 0 || before_[value.producer]);
      }
    }
    for (const std::int32_t input : op.inputs)
      if (!work.values[input].persistent) here_.push_back(input);
    for (std::int32_t v = 0; v < std::ssize(work.values); ++v) {
      const Work::Value& value = work.values[v];
      const bool fixed = value.producer < 0 || !work.ops[value.producer].again || std::ranges::find(here_, v) != here_.end();
      if (wanted_[v] && fixed) held_ += value.bytes;
    }
  }

  // Equation (7): the seconds of the runs again that it takes, at the least.
  double again(std::int64_t memory) const {
    // What cannot be away is there, whether it fits or not.
    const auto room = static_cast<double>(std::max(memory - work_.persistent - own_, held_) - held_);
    double seconds = 0, bytes = 0, most = 0;
    for (std::int32_t k = 0; k < std::ssize(work_.ops); ++k)
      if (before_[k]) seconds += work_.ops[k].seconds;
    for (std::int32_t v = 0; v < std::ssize(work_.values); ++v)
      if (wanted_[v]) bytes += static_cast<double>(work_.values[v].bytes);
    if (bytes - static_cast<double>(held_) <= room || bytes == 0) return 0;
    double low = std::log(seconds / bytes / kReach), high = std::log(seconds / bytes * kReach);
    const auto at = [&](double price) {
      const double bound = cut(std::exp(price)) - std::exp(price) * room;
      most = std::max(most, bound);
      return bound;
    };
    for (int k = 0; k < kPrices; k += 2) {
      const double left = low + 0.4 * (high - low), right = high - 0.4 * (high - low);
      (at(left) < at(right) ? low : high) = at(left) < at(right) ? left : right;
    }
    return most;
  }

 private:
  // Marks what runs before an op in every schedule.
  void find_before(std::int32_t index) {
    std::vector<std::int32_t> stack{index};
    while (!stack.empty()) {
      const Work::Op& op = work_.ops[stack.back()];
      stack.pop_back();
      for (const std::int32_t input : op.inputs) {
        const std::int32_t producer = work_.values[input].producer;
        if (producer < 0 || before_[producer]) continue;
        before_[producer] = true;
        stack.push_back(producer);
      }
    }
  }

  // The least of the seconds of runs again and the price of what is held instead; what must be held costs nothing.
  double cut(double price) const {
    constexpr double kAll = std::numeric_limits<double>::infinity();
    const auto ops = static_cast<std::int32_t>(work_.ops.size());
    MinCut cut(2 + ops + std::ssize(work_.values));
    for (std::int32_t k = 0; k < ops; ++k) {
      const Work::Op& op = work_.ops[k];
      if (!before_[k] || !op.again) continue;
      cut.add(0, 2 + k, op.seconds);
      for (const std::int32_t output : op.outputs) {
        if (std::ranges::find(here_, output) != here_.end()) continue;
        cut.add(2 + k, 2 + ops + output, price * static_cast<double>(work_.values[output].bytes));
        if (wanted_[output]) cut.add(2 + ops + output, 1, kAll);
      }
      for (const std::int32_t input : op.inputs) {
        const std::int32_t producer = work_.values[input].producer;
        const bool there = producer < 0 || std::ranges::find(here_, input) != here_.end();
        if (!there && work_.ops[producer].again) cut.add(2 + ops + input, 2 + k, kAll);
      }
    }
    return cut.run(0, 1);
  }

  const Work& work_;
  std::vector<bool> before_;         // by op
  std::vector<bool> wanted_;         // by value: made before, and read by the op or behind it
  std::vector<std::int32_t> here_;   // what the op reads
  std::int64_t own_ = 0, held_ = 0;  // bytes of the op; of what is wanted and cannot be away
};

}  // namespace

double remaking_bound_seconds(const Work& work, std::int64_t memory) {
  double all = 0, most = 0;
  for (const Work::Op& op : work.ops) all += op.seconds;
  const auto count = std::ssize(work.ops);
  const std::int64_t looked = std::clamp<std::int64_t>(kNodes / std::max<std::int64_t>(count * kPrices * 4, 1), 2, kOps);
  for (std::int64_t k = 0; k < std::min(looked, count); ++k)
    most =
        std::max(most, Around(work, static_cast<std::int32_t>((2 * k + 1) * count / (2 * std::min(looked, count)))).again(memory));
  return all + most;
}

}  // namespace outsize
