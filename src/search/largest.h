#pragma once

#include <cstdint>
#include <set>

namespace outsize {

// The largest size that fits, found by asking of few: doubled until one is refused, then halved in between. That what fits in a
// size fits in every smaller one is assumed; that the size above the answer is refused, or not taken, was seen.
class LargestSearch {
 public:
  enum class Outcome : std::uint8_t {
    fits,
    refused,
    untaken,  // there is no such size
  };

  // Of the sizes 1, 2, …, beginning with `start`.
  explicit LargestSearch(std::int64_t start) : start_(start) {}
  // Of `members` that need not grow from one to the next: the last that fits, seen from the end.
  static LargestSearch from_the_end(std::int64_t members);

  // The size to ask of next; 0: there is none left.
  std::int64_t next() const;
  // What came of it.
  void record(std::int64_t size, Outcome outcome);
  // Ends the search: what is left is not asked of.
  void stop() { stopped_ = true; }

  // The largest that fits of those asked of; 0: none.
  std::int64_t largest() const { return fits_; }
  bool stopped() const { return stopped_; }

 private:
  std::int64_t start_;
  std::int64_t members_ = 0;  // 0: no end
  std::int64_t fits_ = 0;
  std::int64_t below_ = 0;    // the largest that is not taken below all that are
  std::int64_t refused_ = 0;  // the smallest; 0: none yet
  std::set<std::int64_t> untaken_;
  bool stopped_ = false;
};

}  // namespace outsize
