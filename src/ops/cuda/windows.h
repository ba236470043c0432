#pragma once

#include <algorithm>
#include <array>

#include "ops/cuda/support.h"
#include "ops/window.h"

// The windows family: every element of a map of results gathers what it is made of, forward and backward, so that nothing is added
// by two threads. The threads of a block lie along channels first, V of them each, then along columns; each goes through a few
// lines one below the other, whose windows share what they read.
//
// A functor has
//   template <int V> void at(const Spot& spot) const     writes the V results at a spot; OUTSIZE_BOTH
namespace outsize::OUTSIZE_PLACE {

// V results of neighbouring channels: their indices in the piece, that of the first channel, and the offset of the first in words.
struct Spot {
  int sample = 0;
  std::array<int, 3> at{};  // depth, row, column
  int channel = 0;
  std::int64_t offset = 0;
};

// The extents of a piece of a map; of one without depth, that is 1.
struct MapExtents {
  std::int64_t samples = 1;
  std::array<std::int64_t, 3> spatial{1, 1, 1};
  std::int64_t channels = 1;

  explicit MapExtents(const Box& box) : samples(box.extent(0)), channels(box.extent(1)) {
    for (int dim = 2; dim < box.rank(); ++dim) spatial[static_cast<std::size_t>(3 - box.rank() + dim)] = box.extent(dim);
  }
  std::int64_t positions() const { return samples * spatial[0] * spatial[1] * spatial[2]; }
  std::int64_t elements() const { return positions() * channels; }
};

// A piece that windows reach into.
struct Reached {
  std::int64_t channels, columns, rows, depths;

  explicit Reached(const MapExtents& map)
      : channels(map.channels), columns(map.spatial[2]), rows(map.spatial[1]), depths(map.spatial[0]) {}
  // The offset of an element.
  OUTSIZE_BOTH std::int64_t offset(std::int64_t sample, std::int64_t depth, std::int64_t row, std::int64_t column,
                                   std::int64_t channel) const {
    return (((sample * depths + depth) * rows + row) * columns + column) * channels + channel;
  }
};

// How many vectors of V channels a block takes side by side: all, or the fewest equal parts of at most `most`.
inline int vectors_across(std::int64_t channels, int v, int most) {
  const std::int64_t vectors = channels / v, parts = ceil_divide(vectors, most);
  return static_cast<int>(ceil_divide(vectors, parts));
}

template <class F, int V>
struct WindowProgram {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 4;
  static constexpr int kLines = 4;  // lines that a thread goes through, where there are enough

  F f;
  int channels, wide, high;
  int lines_each;
  std::int64_t first_line;
  std::uint32_t lines;  // of the launch
  Divide columns, rows, depths;

  WindowProgram(const F& functor, const MapExtents& map)
      : f(functor),
        channels(static_cast<int>(map.channels)),
        wide(vectors_across(map.channels, V, kThreads)),
        high(kThreads / wide),
        columns(map.spatial[2]),
        rows(map.spatial[1]),
        depths(map.spatial[0]) {
    const std::int64_t blocks = ceil_divide(map.positions(), high) * across();
    lines_each = blocks >= std::int64_t{multiprocessors()} * kBlocks * kLines ? kLines : 1;
  }
  std::int64_t across() const { return ceil_divide(channels / V, wide); }
  Grid grid() const { return {ceil_divide(ceil_divide(lines, lines_each) * columns.by(), high), across(), 0}; }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    block.last([&](int thread) {
      const int row = thread / wide;
      Spot spot;
      spot.channel = (static_cast<int>(block.y()) * wide + thread % wide) * V;
      if (row >= high || spot.channel >= channels) return;
      const std::uint32_t position = static_cast<std::uint32_t>(block.x()) * high + row;
      const std::uint32_t group = columns.quotient(position);
      const std::uint32_t column = position - group * columns.by();
      spot.at[2] = static_cast<int>(column);
      for (std::uint32_t line = group * lines_each; line < (group + 1) * lines_each && line < lines; ++line) {
        const std::int64_t whole_line = first_line + line;
        const auto n = static_cast<std::uint32_t>(whole_line);
        const std::uint32_t plane = rows.quotient(n), sample = depths.quotient(plane);
        spot.at[1] = static_cast<int>(n - plane * rows.by());
        spot.at[0] = static_cast<int>(plane - sample * depths.by());
        spot.sample = static_cast<int>(sample);
        spot.offset = (whole_line * columns.by() + column) * channels + spot.channel;
        f.template at<V>(spot);
      }
    });
  }
};

// Puts f.at() for every element of a piece into the stream; in vectors of 4 channels if `vectors`, which must then be a divisor.
template <class F>
void run_windows(const F& f, const MapExtents& map, bool vectors, void* queue) {
  const std::int64_t lines = map.samples * map.spatial[0] * map.spatial[1];
  OUTSIZE_CHECK(lines < kMostPositions * 2 && map.spatial[2] < kMostPositions && map.channels < kMostPositions);
  const auto start = [&]<int V>() {
    WindowProgram<F, V> program(f, map);
    // Whole groups of lines a launch.
    const std::int64_t most = std::max<std::int64_t>(1, most_positions() / map.spatial[2]) * program.lines_each;
    for (std::int64_t first = 0; first < lines; first += most) {
      program.first_line = first;
      program.lines = static_cast<std::uint32_t>(std::min(most, lines - first));
      launch(program, program.grid(), queue);
    }
  };
  if (map.elements() == 0) return;
  vectors ? start.template operator()<4>() : start.template operator()<1>();
}

}  // namespace outsize::OUTSIZE_PLACE
