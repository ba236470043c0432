#pragma once

#include <vector>

#include "ops/conv/shape.h"
#include "ops/cuda/library/convolution.h"
#include "ops/cuda/support.h"

// Where the maps of a convolution meet, and how a call is cut so that the library takes it.
namespace outsize::OUTSIZE_PLACE {

// Boxes of the x side and the y side that meet each other.
struct Meeting {
  Box x;
  Box y;
};

// y[o] meets x[o · stride − before + t · dilation] in every spatial dimension.
struct Geometry {
  ConvolutionPass pass;
  SlidingWindows windows;
  Channels channels;

  // All that the windows of y cover, padding included.
  Interval window(int i, Interval y) const {
    return {windows[i].position(y.lo, 0), windows[i].position(y.hi - 1, 0) + windows[i].reach()};
  }
  // Whether the windows begin no later than x, and leave less than a stride of it.
  bool covers(const Meeting& at) const {
    for (int i = 0; i < windows.rank; ++i) {
      const Interval covered = window(i, at.y[2 + i]), x = at.x[2 + i];
      if (covered.lo > x.lo || x.hi - covered.hi >= windows[i].stride) return false;
    }
    return true;
  }
  // Whether a loop may leave what is read where it is, all of it, while the result moves.
  bool stands_still(const Meeting& at) const {
    for (int i = 0; i < windows.rank; ++i) {
      const bool all_x = at.x[2 + i] == Interval{0, windows[i].input};
      const bool all_y = at.y[2 + i] == Interval{0, windows[i].output()};
      if (pass == ConvolutionPass::data ? all_y && !all_x : all_x && !all_y) return true;
    }
    return false;
  }

  ConvolutionSignature signature(const Meeting& at, const Dims& weight) const {
    ConvolutionSignature s{pass, at.x.shape(), weight, at.y.shape(), {}, {}, {}, {}};
    for (int i = 0; i < windows.rank; ++i) {
      const Interval covered = window(i, at.y[2 + i]), x = at.x[2 + i];
      s.before.push_back(x.lo - covered.lo);
      s.after.push_back(std::max<std::int64_t>(0, covered.hi - x.hi));
      s.stride.push_back(windows[i].stride);
      s.dilation.push_back(windows[i].dilation);
    }
    return s;
  }
};

// A meeting in parts whose operands have at most so many elements: samples, then bands of rows of one sample. All are one range of
// the operand's memory. Where a part has no y, x gets nothing.
class Parts {
 public:
  Parts(const Geometry& geometry, const Meeting& all, std::int64_t most) : geometry_(geometry), most_(most) { add(all); }
  const std::vector<Meeting>& all() const { return parts_; }

 private:
  void add(const Meeting& at) {
    const std::int64_t x = at.x.elements(), y = at.y.elements(), samples = at.y.extent(0);
    if (std::max(x, y) <= most_) return parts_.push_back(at);
    if (samples == 1) return geometry_.pass == ConvolutionPass::data ? add_bands_of_x(at) : add_bands_of_y(at);
    const std::int64_t each = even(std::max<std::int64_t>(1, most_ / (std::max(x, y) / samples)));
    for (std::int64_t n = 0; n < samples; n += each) {
      Meeting part = at;
      for (Box* box : {&part.x, &part.y}) box->set(0, {box->lo[0] + n, std::min(box->lo[0] + n + each, box->hi[0])});
      add(part);
    }
  }
  // Bands of y with the rows of x that they meet.
  void add_bands_of_y(const Meeting& at) {
    const WindowAxis& axis = geometry_.windows[0];
    const std::int64_t rows =
        even(checked(std::min(most_ / row(at.y), floor_div(most_ / row(at.x) - axis.reach(), axis.stride) + 1)));
    for (std::int64_t lo = at.y.lo[2]; lo < at.y.hi[2]; lo += rows) {
      Meeting part = at;
      part.y.set(2, {lo, std::min(lo + rows, at.y.hi[2])});
      part.x.set(2, intersect(at.x[2], geometry_.window(0, part.y[2])));
      parts_.push_back(part);
    }
  }
  // Bands of x, which begin where a window does, with the rows of y that meet them.
  void add_bands_of_x(const Meeting& at) {
    const WindowAxis& axis = geometry_.windows[0];
    const std::int64_t windows =
        even(checked(std::min(most_ / row(at.x) / axis.stride, most_ / row(at.y) - 1 - ceil_div(axis.reach(), axis.stride))));
    for (std::int64_t first = floor_div(at.x.lo[2] + axis.before, axis.stride);; first += windows) {
      const Interval band = intersect(at.x[2], {axis.position(first, 0), axis.position(first + windows, 0)});
      if (band.empty()) break;
      const std::int64_t reaching = floor_div(band.lo + axis.before - axis.reach(), axis.stride) + 1;
      Meeting part = at;
      part.x.set(2, band);
      part.y.set(2, intersect(at.y[2], {std::min(reaching, first), ceil_div(band.hi + axis.before, axis.stride)}));
      parts_.push_back(part);
    }
  }
  static std::int64_t row(const Box& map) { return map.elements() / map.extent(2); }
  // A multiple of 4, so that what comes before a part keeps its alignment.
  static std::int64_t even(std::int64_t n) { return n > 4 ? n / 4 * 4 : n; }
  std::int64_t checked(std::int64_t rows) const {
    if (rows < 1)
      user_error(
          "a convolution on the card takes maps of {} elements, but here a few rows of one sample have more: cut the map along "
          "its other dimensions",
          most_);
    return rows;
  }

  const Geometry& geometry_;
  std::int64_t most_;
  std::vector<Meeting> parts_;
};

}  // namespace outsize::OUTSIZE_PLACE
