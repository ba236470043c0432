#include "search/largest.h"

#include <algorithm>

namespace outsize {

namespace {

// Beyond these a search is given up: no model has such sizes, or takes one in so many.
constexpr std::int64_t kLargest = std::int64_t{1} << 32;
constexpr std::size_t kMostUntaken = 64;

}  // namespace

LargestSearch LargestSearch::from_the_end(std::int64_t members) {
  LargestSearch search(members);
  search.members_ = members;
  return search;
}

std::int64_t LargestSearch::next() const {
  if (stopped_ || untaken_.size() > kMostUntaken) return 0;
  if (members_ > 0) return fits_ > 0 ? 0 : refused_ > 0 ? refused_ - 1 : start_;
  const std::int64_t low = std::max(fits_, below_);
  const std::int64_t end = refused_ > 0 ? refused_ : kLargest;
  const std::int64_t wanted = refused_ > 0 ? low + (refused_ - low) / 2 : low > 0 ? 2 * low : start_;
  for (std::int64_t size = std::max(wanted, low + 1); size < end; ++size)
    if (!untaken_.contains(size)) return size;
  for (std::int64_t size = wanted - 1; size > low; --size)
    if (!untaken_.contains(size)) return size;
  return 0;
}

void LargestSearch::record(std::int64_t size, Outcome outcome) {
  if (outcome == Outcome::fits) {
    fits_ = std::max(fits_, size);
  } else if (outcome == Outcome::refused || members_ > 0 || (fits_ > 0 && refused_ == 0)) {
    // Twice a size that is taken and yet not taken: the sizes end in between.
    refused_ = refused_ > 0 ? std::min(refused_, size) : size;
  } else if (fits_ == 0) {
    below_ = std::max(below_, size);
  } else {
    untaken_.insert(size);
  }
}

}  // namespace outsize
