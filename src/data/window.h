#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <utility>

#include "base/box.h"

namespace outsize {

// Writes a window of a value, dense and row-major in its dtype.
class WindowReader {
 public:
  WindowReader(std::nullptr_t = nullptr) {}
  // `for_several`: threads may read at a time, otherwise one. `samples_apart`: threads may even then, if no two read of one sample,
  // which is a position of the first dimension.
  template <class Read>
  requires std::invocable<const Read&, const Box&, std::byte*> WindowReader(Read read, bool for_several = false,
                                                                            bool samples_apart = false)
      : read_(std::move(read)), for_several_(for_several), samples_apart_(for_several || samples_apart) {}

  void operator()(const Box& window, std::byte* out) const { read_(window, out); }
  explicit operator bool() const { return static_cast<bool>(read_); }
  bool for_several() const { return for_several_; }
  bool samples_apart() const { return samples_apart_; }

 private:
  std::function<void(const Box& window, std::byte* out)> read_;
  bool for_several_ = false;
  bool samples_apart_ = false;
};

// Calls row(offset, count) for each row of `box`, in order: its first element's place in a dense row-major value of `shape`, and
// how many elements follow each other there. A value of rank 0 is one row of one element.
template <class Row>
void for_each_row(const Dims& shape, const Box& box, const Row& row) {
  if (box.empty()) return;
  const int last = box.rank() - 1;
  if (last < 0) return row(std::int64_t{0}, std::int64_t{1});
  Dims at = box.lo;
  for (int d = 0; d >= 0;) {
    std::int64_t offset = 0;
    for (int i = 0; i <= last; ++i) offset = offset * shape[i] + at[i];
    row(offset, box.extent(last));
    for (d = last - 1; d >= 0 && ++at[d] == box.hi[d]; --d) at[d] = box.lo[d];
  }
}

}  // namespace outsize
