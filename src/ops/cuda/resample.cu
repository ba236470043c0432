#include "ops/cuda/resample.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// What a thread adds up in f32; beyond, in f64.
constexpr int kRun = 128;

// A few taps: a thread adds up all of a result.
struct Blend {
  TapsTable depth, down, across;
  Reached reached;
  const float* from;
  float* to;

  template <int V>
  OUTSIZE_BOTH void at(const Spot& spot) const {
    const Taps depths = depth.taps[spot.at[0]], rows = down.taps[spot.at[1]], columns = across.taps[spot.at[2]];
    const float* const depth_weights = depth.weights_of(spot.at[0]);
    const float* const row_weights = down.weights_of(spot.at[1]);
    const float* const column_weights = across.weights_of(spot.at[2]);
    Vector<float, V> sum;
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) sum.of[j] = 0;
    for (int a = 0; a < depths.count; ++a)
      for (int b = 0; b < rows.count; ++b) {
        const float* const line = from + reached.offset(spot.sample, depths.first + a, rows.first + b, columns.first, spot.channel);
        const float line_weight = depth_weights[a] * row_weights[b];
        for (int c = 0; c < columns.count; ++c) {
          const Vector<float, V> x = load<V>(line + c * reached.channels);
          const float weight = line_weight * column_weights[c];
          OUTSIZE_UNROLL
          for (int j = 0; j < V; ++j) sum.of[j] += weight * x.of[j];
        }
      }
    store(to + spot.offset, sum);
  }
};

// Many taps: the rows of threads of a block share those of one result, and add up what each found.
template <int V>
struct LongBlendProgram {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 4;
  static constexpr int kMostWide = 32;

  TapsTable depth, down, across;
  Reached reached;
  const float* from;
  float* to;
  int channels, wide, high;
  Divide columns, rows, depths;

  LongBlendProgram(const TapsTables& tables, const MapExtents& sources, const MapExtents& results)
      : depth(tables[0]),
        down(tables[1]),
        across(tables[2]),
        reached(sources),
        channels(static_cast<int>(results.channels)),
        wide(vectors_across(results.channels, V, kMostWide)),
        high(kThreads / wide),
        columns(results.spatial[2]),
        rows(results.spatial[1]),
        depths(results.spatial[0]) {}
  Grid grid(std::int64_t results) const {
    return {results, ceil_divide(channels / V, wide), static_cast<std::int64_t>(kThreads * V * sizeof(double))};
  }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    double* const shared = reinterpret_cast<double*>(block.shared());
    const int first_channel = static_cast<int>(block.y()) * wide * V;
    block.each([&](int thread) {
      const int row = thread / wide, channel = first_channel + thread % wide * V;
      double all[V];
      OUTSIZE_UNROLL
      for (int j = 0; j < V; ++j) all[j] = 0;
      if (row < high && channel < channels) add_taps(static_cast<std::uint32_t>(block.x()), row, channel, all);
      OUTSIZE_UNROLL
      for (int j = 0; j < V; ++j) shared[j * kThreads + thread] = all[j];
    });
    for (int left = high; left > 1; left = (left + 1) / 2) {
      const int half = (left + 1) / 2;
      block.each([&](int thread) {
        if (thread / wide >= left / 2) return;
        for (int j = 0; j < V; ++j) shared[j * kThreads + thread] += shared[j * kThreads + thread + half * wide];
      });
    }
    block.last([&](int thread) {
      const int channel = first_channel + thread * V;
      if (thread >= wide || channel >= channels) return;
      Vector<float, V> sum;
      OUTSIZE_UNROLL
      for (int j = 0; j < V; ++j) sum.of[j] = static_cast<float>(shared[j * kThreads + thread]);
      store(to + block.x() * channels + channel, sum);
    });
  }

 private:
  // Adds the taps number `row`, row + high, … of a result, counted in the order of memory.
  OUTSIZE_BOTH void add_taps(std::uint32_t result, int row, int channel, double (&all)[V]) const {
    const std::uint32_t line = columns.quotient(result), plane = rows.quotient(line), sample = depths.quotient(plane);
    const auto column_at = static_cast<int>(result - line * columns.by());
    const auto row_at = static_cast<int>(line - plane * rows.by());
    const auto depth_at = static_cast<int>(plane - sample * depths.by());
    const Taps of_depth = depth.taps[depth_at], of_rows = down.taps[row_at], of_columns = across.taps[column_at];
    if (of_rows.count == 0 || of_columns.count == 0) return;
    const float* const depth_weights = depth.weights_of(depth_at);
    const float* const row_weights = down.weights_of(row_at);
    const float* const column_weights = across.weights_of(column_at);
    const float* const source = from + reached.offset(sample, of_depth.first, of_rows.first, of_columns.first, channel);
    // Tap number n is (n / columns / rows, n / columns % rows, n % columns); numbers are added with carries.
    const int step_column = high % of_columns.count, step_row = high / of_columns.count % of_rows.count;
    const int step_depth = high / of_columns.count / of_rows.count;
    int c = row % of_columns.count, b = row / of_columns.count % of_rows.count, a = row / of_columns.count / of_rows.count;
    float run[V];
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) run[j] = 0;
    for (int n = 1; a < of_depth.count; ++n) {
      const Vector<float, V> x = load<V>(source + reached.offset(0, a, b, c, 0));
      const float weight = depth_weights[a] * row_weights[b] * column_weights[c];
      OUTSIZE_UNROLL
      for (int j = 0; j < V; ++j) run[j] += weight * x.of[j];
      if (n % kRun == 0) {
        OUTSIZE_UNROLL
        for (int j = 0; j < V; ++j) {
          all[j] += run[j];
          run[j] = 0;
        }
      }
      c += step_column;
      const int more_rows = c >= of_columns.count ? 1 : 0;
      c -= more_rows * of_columns.count;
      b += step_row + more_rows;
      const int more_depths = b >= of_rows.count ? 1 : 0;
      b -= more_depths * of_rows.count;
      a += step_depth + more_depths;
    }
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) all[j] += run[j];
  }
};

template <int V>
void run_long_blend(const float* from, const MapExtents& sources, float* to, const MapExtents& results, const TapsTables& tables,
                    void* queue) {
  LongBlendProgram<V> program(tables, sources, results);
  // As many samples as one launch may have results of.
  const std::int64_t each = results.positions() / results.samples;
  OUTSIZE_CHECK(each <= kMostPositions);
  const std::int64_t most = std::max<std::int64_t>(1, most_positions() / each);
  for (std::int64_t sample = 0; sample < results.samples; sample += most) {
    program.from = from + sample * (sources.elements() / sources.samples);
    program.to = to + sample * each * results.channels;
    launch(program, program.grid(std::min(most, results.samples - sample) * each), queue);
  }
}

}  // namespace

void run_blend(const float* from, const MapExtents& sources, float* to, const MapExtents& results, const TapsTables& tables,
               void* queue) {
  const bool vectors = results.channels % 4 == 0 && aligned<4>(from, to);
  if (tables[0].most * tables[1].most * tables[2].most <= kRun) {
    run_windows(Blend{tables[0], tables[1], tables[2], Reached(sources), from, to}, results, vectors, queue);
  } else {
    vectors ? run_long_blend<4>(from, sources, to, results, tables, queue)
            : run_long_blend<1>(from, sources, to, results, tables, queue);
  }
}

}  // namespace outsize::OUTSIZE_PLACE
