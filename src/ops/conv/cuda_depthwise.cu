#include <algorithm>

#include "ops/conv/cuda_depthwise.h"
#include "ops/cuda/each.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

constexpr std::int64_t kMostHigh = 7;  // rows of the kernel

// A map of two spatial dimensions with its channels last.
struct Map {
  int high = 0;
  int wide = 0;
  int channels = 0;

  explicit Map(const Box& box)
      : high(static_cast<int>(box.extent(2))), wide(static_cast<int>(box.extent(3))), channels(static_cast<int>(box.extent(1))) {}
  OUTSIZE_BOTH std::int64_t row(std::int64_t sample, int row) const { return (sample * high + row) * wide * channels; }
};

// From a position in the result to that in what its first tap reads.
struct Shift {
  int high = 0;
  int wide = 0;
};

template <int V>
OUTSIZE_BOTH Vector<float, V> load_inside(const float* row, int column, const Map& map) {
  if (column >= 0 && column < map.wide) return load<V>(row + static_cast<std::int64_t>(column) * map.channels);
  return {};
}

// A thread computes kStrip results side by side of V channels. The block's weights lie in shared memory, tap by tap.
template <int K, int V>
struct DepthwiseProgram {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 2;
  static constexpr int kStrip = 8;
  static constexpr int kMostWide = 16;  // vectors

  const float* in;
  const float* weight;
  const float* bias;
  float* out;
  Map from, to;
  Shift shift;
  int kernel_high;
  bool turned, relu;
  int wide, high;       // vectors of channels side by side, strips below each other
  Divide across, rows;  // strips a row, rows a sample
  std::uint32_t strips;
  std::uint32_t strips_each = 0;  // of a block

  DepthwiseProgram(const Depthwise& call, Shift from_result, int kernel_rows, bool is_turned)
      : in(call.in),
        weight(call.weight),
        bias(call.bias),
        out(call.out),
        from(call.in_box),
        to(call.out_box),
        shift(from_result),
        kernel_high(kernel_rows),
        turned(is_turned),
        relu(call.relu),
        across(ceil_divide(to.wide, kStrip)),
        rows(to.high) {
    const int vectors = to.channels / V;
    const int tiles = (vectors + kMostWide - 1) / kMostWide;
    wide = (vectors + tiles - 1) / tiles;
    high = kThreads / wide;
    strips = static_cast<std::uint32_t>(call.out_box.extent(0)) * rows.by() * across.by();
  }
  int tiles() const { return (to.channels / V + wide - 1) / wide; }
  Grid grid() {
    // Rows that follow each other are one block's, so that what they read in common stays near it.
    const std::int64_t most = std::max<std::int64_t>(1, std::int64_t{multiprocessors()} * kBlocks * 4 / tiles());
    const std::int64_t blocks = std::min(ceil_divide(strips, high), most);
    strips_each = static_cast<std::uint32_t>(ceil_divide(ceil_divide(strips, blocks), high) * high);
    return {ceil_divide(strips, strips_each), tiles(), static_cast<std::int64_t>(sizeof(float)) * kernel_high * K * wide * V};
  }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    float* const weights = reinterpret_cast<float*>(block.shared());
    const int columns = wide * V, taps = kernel_high * K, first = static_cast<int>(block.y()) * columns;
    block.each([&](int thread) {
      for (int i = thread; i < columns * taps; i += kThreads) {
        const int channel = first + i % columns, tap = i / columns;
        weights[(turned ? taps - 1 - tap : tap) * columns + i % columns] =
            channel < to.channels ? weight[static_cast<std::int64_t>(channel) * taps + tap] : 0.0f;
      }
    });
    block.last([&](int thread) {
      const int lane = thread % wide * V;
      if (first + lane >= to.channels || thread / wide >= high) return;
      const std::uint32_t begin = static_cast<std::uint32_t>(block.x()) * strips_each;
      const std::uint32_t end = begin + strips_each < strips ? begin + strips_each : strips;
      for (std::uint32_t strip = begin + thread / wide; strip < end; strip += high) compute(strip, first + lane, weights + lane);
    });
  }

 private:
  OUTSIZE_BOTH void compute(std::uint32_t strip, int channel, const float* weights) const {
    const std::uint32_t line = across.quotient(strip), sample = rows.quotient(line);
    const int i = static_cast<int>(line - sample * rows.by()), j = static_cast<int>(strip - line * across.by()) * kStrip;
    Vector<float, V> sums[kStrip];
    OUTSIZE_UNROLL
    for (int s = 0; s < kStrip; ++s) OUTSIZE_UNROLL
    for (int v = 0; v < V; ++v) sums[s].of[v] = bias ? bias[channel + v] : 0.0f;
    for (int k = 0; k < kernel_high; ++k) {
      const int row = i + shift.high + k;
      if (row < 0 || row >= from.high) continue;
      const float* const line_of_it = in + from.row(sample, row) + channel;
      Vector<float, V> factors[K];
      OUTSIZE_UNROLL
      for (int t = 0; t < K; ++t) factors[t] = load<V>(weights + (k * K + t) * wide * V);
      OUTSIZE_UNROLL
      for (int p = 0; p < kStrip + K - 1; ++p) {
        const Vector<float, V> x = load_inside<V>(line_of_it, j + shift.wide + p, from);
        OUTSIZE_UNROLL
        for (int t = 0; t < K; ++t)
          if (p - t >= 0 && p - t < kStrip) {
            OUTSIZE_UNROLL
            for (int v = 0; v < V; ++v) sums[p - t].of[v] += factors[t].of[v] * x.of[v];
          }
      }
    }
    float* const result = out + to.row(sample, i) + channel;
    OUTSIZE_UNROLL
    for (int s = 0; s < kStrip; ++s)
      if (j + s < to.wide) {
        if (relu) {
          OUTSIZE_UNROLL
          for (int v = 0; v < V; ++v) sums[s].of[v] = sums[s].of[v] < 0 ? 0.0f : sums[s].of[v];
        }
        store(result + static_cast<std::int64_t>(j + s) * to.channels, sums[s]);
      }
  }
};

// A thread adds up K taps side by side of V channels over rows of dy, which slide over the rows of x: f32 over at most kRun
// columns, f64 beyond. Threads take the rows of the kernel and, where there are threads left, every so many of dy's rows.
template <int K, int V>
struct DepthwiseWeightsProgram {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 2;
  static constexpr int kMostWide = 32;  // vectors
  static constexpr int kRun = 128 / K * K;

  const float* dy;
  const float* x;
  double* partials;  // [block][channel][tap]
  Map of_dy, of_x;
  Shift shift;
  int kernel_high;
  int wide, splits;
  Divide high;  // rows of dy a sample
  std::uint32_t rows;
  std::uint32_t rows_each = 0;  // of a block

  DepthwiseWeightsProgram(const Box& dy_box, const Box& x_box, int kernel_rows)
      : dy(nullptr), x(nullptr), partials(nullptr), of_dy(dy_box), of_x(x_box), kernel_high(kernel_rows), high(of_dy.high) {
    const int vectors = of_dy.channels / V;
    const int tiles = (vectors + kMostWide - 1) / kMostWide;
    wide = (vectors + tiles - 1) / tiles;
    splits = kThreads / wide / kernel_high;
    rows = static_cast<std::uint32_t>(dy_box.extent(0)) * high.by();
    const std::int64_t most = std::max<std::int64_t>(1, std::int64_t{multiprocessors()} * kBlocks / this->tiles());
    rows_each = static_cast<std::uint32_t>(ceil_divide(rows, std::min(ceil_divide(rows, splits), most)));
  }
  int tiles() const { return (of_dy.channels / V + wide - 1) / wide; }
  std::int64_t blocks() const { return ceil_divide(rows, rows_each); }
  Grid grid() const { return {blocks(), tiles(), static_cast<std::int64_t>(sizeof(double)) * kThreads * K * V}; }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    double* const shared = reinterpret_cast<double*>(block.shared());
    const int first = static_cast<int>(block.y()) * wide * V;
    block.each([&](int thread) {
      const int channel = first + thread % wide * V, slot = thread / wide, k = slot % kernel_high, split = slot / kernel_high;
      Vector<double, V> totals[K] = {};
      if (split < splits && channel < of_dy.channels) {
        const std::uint32_t begin = static_cast<std::uint32_t>(block.x()) * rows_each;
        add_rows(totals, channel, k, begin + split, begin + rows_each < rows ? begin + rows_each : rows);
      }
      OUTSIZE_UNROLL
      for (int t = 0; t < K; ++t) OUTSIZE_UNROLL
      for (int v = 0; v < V; ++v) shared[(t * V + v) * kThreads + thread] = totals[t].of[v];
    });
    block.last([&](int thread) {
      const int channel = first + thread % wide * V, k = thread / wide;
      if (k >= kernel_high || channel >= of_dy.channels) return;
      for (int t = 0; t < K; ++t)
        for (int v = 0; v < V; ++v) {
          double total = 0;
          for (int split = 0; split < splits; ++split)
            total += shared[(t * V + v) * kThreads + (split * kernel_high + k) * wide + thread % wide];
          partials[((block.x() * of_dy.channels + channel + v) * kernel_high + k) * K + t] = total;
        }
    });
  }

 private:
  OUTSIZE_BOTH void add_rows(Vector<double, V> (&totals)[K], int channel, int k, std::uint32_t row, std::uint32_t end) const {
    Vector<float, V> sums[K] = {};
    int columns = 0;  // that are in the sums
    const auto flush = [&] {
      OUTSIZE_UNROLL
      for (int t = 0; t < K; ++t) OUTSIZE_UNROLL
      for (int v = 0; v < V; ++v) {
        totals[t].of[v] += sums[t].of[v];
        sums[t].of[v] = 0;
      }
      columns = 0;
    };
    for (; row < end; row += splits) {
      const std::uint32_t sample = high.quotient(row);
      const int i = static_cast<int>(row - sample * high.by()), above = i + shift.high + k;
      if (above < 0 || above >= of_x.high) continue;
      const float* const dy_row = dy + of_dy.row(sample, i) + channel;
      const float* const x_row = x + of_x.row(sample, above) + channel;
      // The columns of x under the taps, in a ring.
      Vector<float, V> ring[K];
      OUTSIZE_UNROLL
      for (int t = 0; t < K - 1; ++t) ring[t] = load_inside<V>(x_row, shift.wide + t, of_x);
      for (int base = 0; base < of_dy.wide; base += K) {
        if (columns + K > kRun) flush();
        columns += K;
        OUTSIZE_UNROLL
        for (int n = 0; n < K; ++n) {
          const Vector<float, V> gradient = load_inside<V>(dy_row, base + n, of_dy);
          ring[(n + K - 1) % K] = load_inside<V>(x_row, base + n + shift.wide + K - 1, of_x);
          OUTSIZE_UNROLL
          for (int t = 0; t < K; ++t) OUTSIZE_UNROLL
          for (int v = 0; v < V; ++v) sums[t].of[v] += gradient.of[v] * ring[(n + t) % K].of[v];
        }
      }
    }
    flush();
  }
};

// The partial sums of the blocks, in their order.
struct FoldBlocks {
  const double* partials;
  float* sums;
  std::int64_t blocks, count;
  OUTSIZE_BOTH void operator()(std::int64_t i) const {
    double total = 0;
    for (std::int64_t block = 0; block < blocks; ++block) total += partials[block * count + i];
    sums[i] = static_cast<float>(total);
  }
};

// function.template operator()<K>() for the kernel's columns.
template <class Function>
void with_columns(const SlidingWindows& windows, const Function& function) {
  switch (windows[1].kernel) {
    case 3: return function.template operator()<3>();
    case 5: return function.template operator()<5>();
    default: return function.template operator()<7>();
  }
}

// Vectors of channels where C and the addresses allow it.
template <int V, class... Pointers>
bool vectors(std::int64_t channels, Pointers... pointers) {
  return channels % V == 0 && aligned<V>(pointers...);
}

}  // namespace

bool has_depthwise(const SlidingWindows& windows, const Channels& channels, std::int64_t positions) {
  if (windows.rank != 2 || channels.groups == 1 || channels.inputs != 1 || channels.outputs != 1 || positions >= kMostPositions)
    return false;
  for (int i = 0; i < 2; ++i)
    if (windows[i].stride != 1 || windows[i].dilation != 1) return false;
  const std::int64_t columns = windows[1].kernel;
  return windows[0].kernel <= kMostHigh && (columns == 3 || columns == 5 || columns == 7);
}

void run_depthwise(const SlidingWindows& windows, const Depthwise& call, bool turned, void* queue) {
  const auto shift = [&](int i) {
    const std::int64_t offset = turned ? windows[i].before - windows[i].kernel + 1 : -windows[i].before;
    return static_cast<int>(call.out_box.lo[2 + i] + offset - call.in_box.lo[2 + i]);
  };
  const auto start = [&]<int K, int V>() {
    DepthwiseProgram<K, V> program(call, {shift(0), shift(1)}, static_cast<int>(windows[0].kernel), turned);
    const Grid grid = program.grid();
    launch(program, grid, queue);
  };
  with_columns(windows, [&]<int K>() {
    vectors<4>(call.out_box.extent(1), call.in, call.out) ? start.template operator()<K, 4>() : start.template operator()<K, 1>();
  });
}

std::int64_t depthwise_weights_workspace(const SlidingWindows& windows, const Box& dy) {
  std::int64_t bytes = 0;
  const std::int64_t rows = windows[0].kernel;
  with_columns(windows, [&]<int K>() {
    const auto add = [&]<int V>() {
      const DepthwiseWeightsProgram<K, V> program(dy, dy, static_cast<int>(rows));
      bytes = std::max<std::int64_t>(bytes, program.blocks() * dy.extent(1) * rows * K * static_cast<std::int64_t>(sizeof(double)));
    };
    add.template operator()<1>();
    if (dy.extent(1) % 2 == 0) add.template operator()<2>();
  });
  return bytes;
}

void run_depthwise_weights(const SlidingWindows& windows, const float* dy, const Box& dy_box, const float* x, const Box& x_box,
                           float* dw, std::byte* workspace, void* queue) {
  const auto shift = [&](int i) { return static_cast<int>(dy_box.lo[2 + i] - windows[i].before - x_box.lo[2 + i]); };
  const auto start = [&]<int K, int V>() {
    DepthwiseWeightsProgram<K, V> program(dy_box, x_box, static_cast<int>(windows[0].kernel));
    program.dy = dy;
    program.x = x;
    program.partials = reinterpret_cast<double*>(workspace);
    program.shift = {shift(0), shift(1)};
    launch(program, program.grid(), queue);
    const std::int64_t count = dy_box.extent(1) * windows[0].kernel * K;
    run_each(FoldBlocks{program.partials, dw, program.blocks(), count}, count, queue);
  };
  with_columns(windows, [&]<int K>() {
    vectors<2>(dy_box.extent(1), dy, x) ? start.template operator()<K, 2>() : start.template operator()<K, 1>();
  });
}

}  // namespace outsize::OUTSIZE_PLACE
