#include "program/offsets.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "program/packing/best_fit.h"
#include "program/packing/blocks.h"
#include "program/packing/first_fit.h"
#include "program/packing/search.h"

namespace outsize {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
// Beyond the lower bound by less than this part of it, a quick packing is as low as wanted, and a thorough one.
constexpr std::int64_t kQuickPart = 1000;
constexpr std::int64_t kThoroughPart = 20'000;
// A search for a height between what is wanted and the lowest packing takes one of so many parts of the looks; they are no closer
// to each other than this part of the lower bound.
constexpr std::int64_t kSlices = 12;
constexpr std::int64_t kFinest = 500;
// More blocks are not placed in orders that look at each pair.
constexpr std::int64_t kMostPairs = 40'000'000;

// The lowest of several packings of blocks.
class Packer {
 public:
  Packer(std::span<const Lifetime> blocks, std::int64_t wanted, Effort effort)
      : blocks_(blocks), n_(std::ssize(blocks)), effort_(effort), instants_(instants_of(blocks)) {
    const Table<std::int64_t> live = live_sums(blocks, instants_);
    const auto largest = std::max_element(live.begin(), live.end());
    peak_ = static_cast<std::int32_t>(largest - live.begin());
    bound_ = *largest;
    // What is below the lower bound cannot be had; then as low as possible.
    enough_ = wanted >= bound_ ? wanted : bound_ + bound_ / (effort == Effort::quick ? kQuickPart : kThoroughPart);
  }

  void run() { in_time() || from_the_peak() || in_any_order() || search(); }
  const Offsets& lowest() const { return lowest_; }
  std::int64_t looks() const { return looks_; }

 private:
  bool is_enough() const { return top_ <= enough_; }

  bool consider(Offsets offsets) {
    const std::int64_t top = top_of(blocks_, offsets);
    if (top >= top_) return is_enough();
    top_ = top;
    lowest_ = std::move(offsets);
    return is_enough();
  }

  // Stacks what is live at an instant by `key`, ascending, and goes on from there.
  template <class Key>
  bool best_fit(std::int32_t start, First first, Key key) {
    Order stack;
    for (std::int32_t i = 0; i < n_; ++i)
      if (instants_.first[i] <= start && start <= instants_.last[i]) stack.push_back(i);
    std::stable_sort(stack.begin(), stack.end(), [&](std::int32_t a, std::int32_t b) { return key(a) < key(b); });
    looks_ += n_;
    return consider(best_fit_from(start, stack, first, blocks_, instants_));
  }

  bool in_time() { return in_time(First::longest) || in_time(First::largest); }
  bool in_time(First first) {
    const auto key = [&](std::int32_t i) {
      return first == First::largest ? -blocks_[i].bytes : std::int64_t{instants_.first[i]} - instants_.last[i];
    };
    return best_fit(0, first, key) || best_fit(instants_.count - 1, first, key);
  }

  bool from_the_peak() {
    const auto from = [&](auto key) { return best_fit(peak_, First::longest, key); };
    return from([&](std::int32_t i) { return instants_.first[i]; }) || from([&](std::int32_t i) { return instants_.last[i]; }) ||
           from([&](std::int32_t i) { return instants_.first[i] - instants_.last[i]; });
  }

  bool in_any_order() {
    if (n_ * n_ / 2 > kMostPairs) return false;
    FirstFit fit(blocks_, instants_);
    const auto duration = [&](std::int64_t i) { return blocks_[i].last - blocks_[i].first + 1; };
    const auto in_order = [&](auto key) {
      const std::int64_t before = fit.looks();
      Offsets offsets(n_);
      const bool placed = fit.place(sorted_by(n_, key), top_, offsets);
      looks_ += fit.looks() - before;
      return placed && consider(std::move(offsets));
    };
    return in_order([&](std::int64_t i) { return std::pair(-blocks_[i].bytes, -duration(i)); }) || in_order([&](std::int64_t i) {
             return -static_cast<double>(blocks_[i].bytes) * std::sqrt(static_cast<double>(duration(i)));
           });
  }

  // Searches for packings below what is wanted, and below heights between the lower bound and the lowest packing so far.
  bool search() {
    PackingSearch search(blocks_, instants_);
    if (!search.is_possible()) return false;
    std::int64_t left = static_cast<std::int64_t>(effort_);
    const auto found = [&](std::int64_t height, std::int64_t looks) {
      const std::int64_t before = search.looks();
      std::optional<Offsets> offsets = search.find(height, looks);
      left -= search.looks() - before;
      looks_ += search.looks() - before;
      if (offsets) consider(*std::move(offsets));
      return offsets.has_value();
    };
    // From above: what is low enough without being the lowest is found soon.
    const auto descend = [&](std::int64_t slice) {
      std::int64_t low = enough_;
      slice = std::max(slice, search.least_looks());
      for (int k = 1; k < kSlices && !is_enough() && slice <= left && top_ - low > bound_ / kFinest; ++k) {
        const std::int64_t middle = low + (top_ - low) / 2;
        if (!found(middle, slice)) low = middle;
      }
    };
    descend(static_cast<std::int64_t>(Effort::quick) / kSlices);
    if (!is_enough()) found(enough_, left / 2);
    descend(left / kSlices);
    return is_enough();
  }

  std::span<const Lifetime> blocks_;
  std::int64_t n_;
  Effort effort_;
  Instants instants_;
  std::int32_t peak_ = 0;  // the instant with the most live bytes
  std::int64_t bound_ = 0, enough_ = 0;
  Offsets lowest_;
  std::int64_t top_ = kUnlimited;
  std::int64_t looks_ = 0;
};

}  // namespace

std::int64_t largest_live_sum(std::span<const Lifetime> lifetimes) {
  if (lifetimes.empty()) return 0;
  std::vector<Lifetime> aligned(lifetimes.begin(), lifetimes.end());
  for (Lifetime& lifetime : aligned) lifetime.bytes = align_up(lifetime.bytes, kAlignment);
  const Table<std::int64_t> sums = live_sums(aligned, instants_of(aligned));
  return *std::max_element(sums.begin(), sums.end());
}

Packing pack(std::span<const Lifetime> lifetimes, std::int64_t enough, Effort effort) {
  Packing packing;
  packing.offsets.assign(lifetimes.size(), 0);

  std::int64_t begin = kUnlimited;
  std::int64_t end = -kUnlimited;
  for (const Lifetime& lifetime : lifetimes) {
    OUTSIZE_CHECK(lifetime.bytes >= 0 && lifetime.first <= lifetime.last);
    if (lifetime.bytes == 0) continue;
    begin = std::min(begin, lifetime.first);
    end = std::max(end, lifetime.last);
  }

  // What lives throughout leaves no choice: it lies at the bottom, in the given order.
  std::int64_t base = 0;
  std::vector<Lifetime> blocks;
  Table<std::int64_t> origin;
  for (std::int64_t i = 0; i < std::ssize(lifetimes); ++i) {
    const Lifetime& lifetime = lifetimes[i];
    const std::int64_t bytes = align_up(lifetime.bytes, kAlignment);
    if (bytes == 0) continue;
    if (lifetime.first == begin && lifetime.last == end) {
      packing.offsets[i] = base;
      base += bytes;
    } else {
      blocks.push_back({bytes, lifetime.first, lifetime.last});
      origin.push_back(i);
    }
  }
  if (!blocks.empty()) {
    Packer packer(blocks, enough - base, effort);
    packer.run();
    for (std::int64_t k = 0; k < std::ssize(blocks); ++k) packing.offsets[origin[k]] = base + packer.lowest()[k];
    packing.looks = packer.looks();
  }
  for (std::int64_t i = 0; i < std::ssize(lifetimes); ++i)
    packing.peak = std::max(packing.peak, packing.offsets[i] + lifetimes[i].bytes);
  return packing;
}

}  // namespace outsize
