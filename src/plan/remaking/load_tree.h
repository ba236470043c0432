#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "base/table.h"

namespace outsize {

// The bytes in use at each of a row of places, most of them empty: bytes are added to a range of places, and the most over those
// that are taken is known, each in time with the logarithm of their number.
class LoadTree {
 public:
  // For so many places at least, all empty and without bytes.
  void reset(std::int64_t places) {
    leaves_ = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(places, 2))));
    most_.assign(2 * leaves_, kEmpty);
    add_.assign(leaves_, 0);
  }
  std::int64_t places() const { return leaves_; }

  // Adds to the places first … last.
  void add(std::int64_t first, std::int64_t last, std::int64_t bytes) {
    std::int64_t left = first + leaves_, right = last + leaves_ + 1;
    for (; left < right; left /= 2, right /= 2) {
      if (left % 2 == 1) apply(left++, bytes);
      if (right % 2 == 1) apply(--right, bytes);
    }
    rebuild(first + leaves_);
    rebuild(last + leaves_);
  }
  // Takes an empty place for a run that needs so many bytes beside those of the place, or frees it.
  void take(std::int64_t place, std::int64_t workspace) { add(place, place, workspace - kEmpty); }
  void free(std::int64_t place, std::int64_t workspace) { add(place, place, kEmpty - workspace); }

  std::int64_t most() const { return most_[1]; }
  // A place that has the most.
  std::int64_t fullest() const {
    std::int64_t node = 1;
    while (node < leaves_) node = most_[2 * node] >= most_[2 * node + 1] ? 2 * node : 2 * node + 1;
    return node - leaves_;
  }
  // The sum of what places have above `limit`, over at most `places` of them.
  double excess(std::int64_t limit, int places) const {
    double sum = 0;
    gather_excess(1, limit, places, sum);
    return sum;
  }

 private:
  static constexpr std::int64_t kEmpty = std::numeric_limits<std::int64_t>::min() / 4;

  void apply(std::int64_t node, std::int64_t bytes) {
    most_[node] += bytes;
    if (node < leaves_) add_[node] += bytes;
  }
  void rebuild(std::int64_t node) {
    while (node > 1) {
      node /= 2;
      most_[node] = std::max(most_[2 * node], most_[2 * node + 1]) + add_[node];
    }
  }
  void gather_excess(std::int64_t node, std::int64_t limit, int& places, double& sum) const {
    if (most_[node] <= limit || places <= 0) return;
    if (node >= leaves_) {
      sum += static_cast<double>(most_[node] - limit);
      --places;
      return;
    }
    gather_excess(2 * node, limit - add_[node], places, sum);
    gather_excess(2 * node + 1, limit - add_[node], places, sum);
  }

  std::int64_t leaves_ = 0;
  Table<std::int64_t> most_;  // of the places below a node, without what is added above it
  Table<std::int64_t> add_;   // to all below a node
};

}  // namespace outsize
