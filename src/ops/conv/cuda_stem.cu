#include <algorithm>

#include "ops/conv/cuda_stem.h"
#include "ops/cuda/reduce.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

constexpr int kSide = 8;             // of the square of sums that a thread has
constexpr int kOutputs = 8 * kSide;  // of a block

struct Point {
  int d = 0, h = 0, w = 0;
};

// Where a position of dy, or a column of x unfolded, lies: an offset in x, and a point. A position's `there` is 2 where no tap is
// outside x, 1 where some may be, 0 where there is no position; a column's is 0 where it only fills up.
struct alignas(16) Entry {
  std::int64_t offset = 0;
  Point point;
  int there = 0;
};

// The sum of many products in f64.
struct Total {
  double value = 0;
  OUTSIZE_BOTH void merge(const Total& other) { value += other.value; }
};

// A block goes through its positions tile by tile: dy's outputs and x's columns, which are (tap, channel), come to shared memory,
// and the threads of a group multiply them, each a square, f32 over at most kRun positions and f64 beyond. Groups take turns at the
// positions of a tile.
template <int V>
struct StemProgram {
  static constexpr int kThreads = 320;
  static constexpr int kBlocks = 2;
  static constexpr int kTile = 32;   // positions, at least
  static constexpr int kRun = 1024;  // products
  struct Sums {
    float of[kSide][kSide] = {};
  };

  const float* dy = nullptr;
  const float* x = nullptr;
  Total* totals = nullptr;  // [block of outputs][block, group][row and column of the square][thread of the group]
  int outputs, channels, columns;
  int kernel[3], stride[3], dilation[3];
  int dy_extent[3], x_extent[3];
  Point first;  // from a position of dy 0 to that of its first tap in x
  int padded, group, groups, tile;
  Divide wide, high, deep;  // of dy
  std::uint32_t positions;
  std::uint32_t positions_each;  // of a block
  Divide across;                 // columns, padded

  StemProgram(const SlidingWindows& windows, const Box& dy_box, const Box& x_box)
      : outputs(static_cast<int>(dy_box.extent(1))), channels(static_cast<int>(x_box.extent(1))) {
    int shift[3] = {0, 0, 0};
    for (int axis = 0; axis < 3; ++axis) {
      const int i = axis - 3 + windows.rank;
      kernel[axis] = stride[axis] = dilation[axis] = dy_extent[axis] = x_extent[axis] = 1;
      if (i < 0) continue;
      kernel[axis] = static_cast<int>(windows[i].kernel);
      stride[axis] = static_cast<int>(windows[i].stride);
      dilation[axis] = static_cast<int>(windows[i].dilation);
      dy_extent[axis] = static_cast<int>(dy_box.extent(2 + i));
      x_extent[axis] = static_cast<int>(x_box.extent(2 + i));
      shift[axis] = static_cast<int>(windows[i].position(dy_box.lo[2 + i], 0) - x_box.lo[2 + i]);
    }
    first = {shift[0], shift[1], shift[2]};
    columns = channels * kernel[0] * kernel[1] * kernel[2];
    padded = (columns + kSide - 1) / kSide * kSide;
    across = Divide(padded);
    group = kOutputs / kSide * (padded / kSide);
    groups = std::max(1, kThreads / group);
    tile = (kTile + groups - 1) / groups * groups;
    wide = Divide(dy_extent[2]);
    high = Divide(dy_extent[1]);
    deep = Divide(dy_extent[0]);
    positions = static_cast<std::uint32_t>(dy_box.elements() / dy_box.extent(1));
    const std::int64_t tiles = ceil_divide(positions, tile);
    const std::int64_t most = std::max<std::int64_t>(1, std::int64_t{multiprocessors()} * kBlocks / output_blocks());
    positions_each = static_cast<std::uint32_t>(ceil_divide(tiles, std::min(ceil_divide(tiles, 4), most)) * tile);
  }
  std::int64_t output_blocks() const { return ceil_divide(outputs, kOutputs); }
  std::int64_t blocks() const { return ceil_divide(positions, positions_each); }
  std::int64_t squares() const { return std::int64_t{kSide} * kSide * group; }  // sums of a group
  std::int64_t shared_bytes() const {
    return static_cast<std::int64_t>(sizeof(Entry)) * (tile + padded) +
           static_cast<std::int64_t>(sizeof(float)) * tile * (kOutputs + padded);
  }
  Grid grid() const { return {blocks(), output_blocks(), shared_bytes()}; }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    Entry* const places = reinterpret_cast<Entry*>(block.shared());
    Entry* const taps = places + tile;
    float* const rows = reinterpret_cast<float*>(taps + padded);  // of dy
    float* const unfolded = rows + tile * kOutputs;
    const int first_output = static_cast<int>(block.y()) * kOutputs;
    const std::uint32_t begin = static_cast<std::uint32_t>(block.x()) * positions_each;
    const std::uint32_t end = begin + positions_each < positions ? begin + positions_each : positions;
    typename Block::template Own<Sums> sums;
    block.each([&](int thread) {
      sums[thread] = Sums();
      for (int column = thread; column < padded; column += kThreads) taps[column] = tap_of(column);
    });
    int run = 0;
    bool flushed = false;
    for (std::uint32_t at = begin; at < end; at += tile) {
      block.each([&](int thread) {
        for (int i = thread; i < tile; i += kThreads) places[i] = at + i < end ? place_of(at + i) : Entry();
      });
      block.each([&](int thread) {
        constexpr int kVectors = kOutputs / V;
        for (int i = thread; i < tile * kVectors; i += kThreads) {
          const int position = i / kVectors, output = i % kVectors * V;
          Vector<float, V> vector = {};
          if (places[position].there != 0 && first_output + output < outputs)
            vector = load<V>(dy + static_cast<std::int64_t>(at + position) * outputs + first_output + output);
          store(rows + position * kOutputs + output, vector);
        }
        for (int i = thread; i < tile * padded; i += kThreads) {
          const auto position = static_cast<int>(across.quotient(i));
          unfolded[i] = unfold(places[position], taps[i - position * padded]);
        }
      });
      run += tile / groups;
      const bool flush = run >= kRun || at + tile >= end;
      block.each([&](int thread) {
        const int turn = thread / group;
        if (turn >= groups) return;
        multiply(sums[thread], rows + thread % group % kSide * kSide, unfolded + thread % group / kSide * kSide, turn);
        if (!flush) return;
        Total* const own =
            totals + ((block.y() * blocks_along(block) + block.x()) * groups + turn) * (kSide * kSide * group) + thread % group;
        OUTSIZE_UNROLL
        for (int i = 0; i < kSide; ++i) OUTSIZE_UNROLL
        for (int j = 0; j < kSide; ++j) {
          Total& total = own[(i * kSide + j) * group];
          total.value = (flushed ? total.value : 0) + sums[thread].of[i][j];
          sums[thread].of[i][j] = 0;
        }
      });
      flushed = flushed || flush;
      if (flush) run = 0;
    }
  }

 private:
  template <class Block>
  OUTSIZE_BOTH static std::int64_t blocks_along(const Block& block) {
    return block.blocks_along_x();
  }
  OUTSIZE_BOTH std::int64_t offset(const Point& at) const {
    return ((static_cast<std::int64_t>(at.d) * x_extent[1] + at.h) * x_extent[2] + at.w) * channels;
  }
  OUTSIZE_BOTH Entry tap_of(int column) const {
    if (column >= columns) return {};
    const int tap = column / channels, row = tap / kernel[2];
    const Point at{row / kernel[1] * dilation[0], row % kernel[1] * dilation[1], tap % kernel[2] * dilation[2]};
    return {offset(at) + column % channels, at, 1};
  }
  OUTSIZE_BOTH Entry place_of(std::uint32_t position) const {
    const std::uint32_t line = wide.quotient(position), plane = high.quotient(line), sample = deep.quotient(plane);
    const Point at{static_cast<int>(plane - sample * deep.by()) * stride[0] + first.d,
                   static_cast<int>(line - plane * high.by()) * stride[1] + first.h,
                   static_cast<int>(position - line * wide.by()) * stride[2] + first.w};
    const bool inside = at.d >= 0 && at.d + (kernel[0] - 1) * dilation[0] < x_extent[0] && at.h >= 0 &&
                        at.h + (kernel[1] - 1) * dilation[1] < x_extent[1] && at.w >= 0 &&
                        at.w + (kernel[2] - 1) * dilation[2] < x_extent[2];
    const std::int64_t map = static_cast<std::int64_t>(x_extent[0]) * x_extent[1] * x_extent[2] * channels;
    return {sample * map + offset(at), at, inside ? 2 : 1};
  }
  OUTSIZE_BOTH float unfold(const Entry& place, const Entry& tap) const {
    if (place.there == 0 || tap.there == 0) return 0;
    if (place.there == 1) {
      const int d = place.point.d + tap.point.d, h = place.point.h + tap.point.h, w = place.point.w + tap.point.w;
      if (d < 0 || d >= x_extent[0] || h < 0 || h >= x_extent[1] || w < 0 || w >= x_extent[2]) return 0;
    }
    return x[place.offset + tap.offset];
  }
  // Adds the products of the positions turn, turn + groups, … of a tile.
  OUTSIZE_BOTH void multiply(Sums& sums, const float* rows, const float* unfolded, int turn) const {
    for (int position = turn; position < tile; position += groups) {
      float a[kSide], b[kSide];
      OUTSIZE_UNROLL
      for (int part = 0; part < kSide; part += 4) {
        const Vector<float, 4> row = load<4>(rows + position * kOutputs + part),
                               column = load<4>(unfolded + position * padded + part);
        OUTSIZE_UNROLL
        for (int i = 0; i < 4; ++i) {
          a[part + i] = row.of[i];
          b[part + i] = column.of[i];
        }
      }
      OUTSIZE_UNROLL
      for (int i = 0; i < kSide; ++i) OUTSIZE_UNROLL
      for (int j = 0; j < kSide; ++j) sums.of[i][j] += a[i] * b[j];
    }
  }
};

// Where the sum of a square lies among the weights.
struct StemEnd {
  float* dw;
  int outputs, channels, columns, group;
  OUTSIZE_BOTH void finish(int target, const Total& total) const {
    const int squares = kSide * kSide * group, block = target / squares, square = target % squares / group, thread = target % group;
    const int output = block * kOutputs + thread % kSide * kSide + square / kSide;
    const int column = thread / kSide * kSide + square % kSide;
    if (output >= outputs || column >= columns) return;
    const int taps = columns / channels;
    dw[static_cast<std::int64_t>(output) * columns + column % channels * taps + column / channels] =
        static_cast<float>(total.value);
  }
};

}  // namespace

bool has_stem_weights(const SlidingWindows& windows, const Channels& channels, const Box& dy, const Box& x) {
  constexpr std::int64_t kMostChannels = 4, kMostColumns = 160;
  std::int64_t columns = x.extent(1);
  for (int i = 0; i < windows.rank; ++i) columns *= windows[i].kernel;
  return channels.groups == 1 && x.extent(1) <= kMostChannels && columns <= kMostColumns &&
         dy.elements() / dy.extent(1) < kMostPositions && dy.extent(1) < (1 << 16) &&
         StemProgram<1>(windows, dy, x).shared_bytes() <= kMostShared;
}

std::int64_t stem_weights_workspace(const SlidingWindows& windows, const Box& dy, const Box& x) {
  const StemProgram<1> program(windows, dy, x);
  return program.output_blocks() * program.blocks() * program.groups * program.squares() * static_cast<std::int64_t>(sizeof(Total));
}

void run_stem_weights(const SlidingWindows& windows, const float* dy, const Box& dy_box, const float* x, const Box& x_box,
                      float* dw, std::byte* workspace, void* queue) {
  const auto start = [&]<int V>() {
    StemProgram<V> program(windows, dy_box, x_box);
    program.dy = dy;
    program.x = x;
    program.totals = reinterpret_cast<Total*>(workspace);
    launch(program, program.grid(), queue);
    const auto squares = static_cast<int>(program.squares());
    FoldProgram<Total, StemEnd> fold{program.totals,
                                     program.blocks() * program.groups,
                                     squares,
                                     squares,
                                     1,
                                     0,
                                     program.output_blocks() * squares,
                                     {dw, program.outputs, program.channels, program.columns, program.group}};
    fold.start(queue);
  };
  dy_box.extent(1) % 4 == 0 && aligned<4>(dy) ? start.template operator()<4>() : start.template operator()<1>();
}

}  // namespace outsize::OUTSIZE_PLACE
