#pragma once

#include "ops/cpu_support.h"
#include "ops/resample.h"

// The CPU kernel of every separable resampling (ops/resample.h). A line of results is made in two steps, rows first: the source
// lines it is made of are blended into one line in the nearest cache, from which then each result takes its columns. So a window of
// D × H × W costs D · H + W and not D · H · W, and long windows read memory in order.
namespace outsize::resample_loops {

// Sources of one result along one dimension: `weights[t]` for source `first + t`.
struct Taps {
  std::int64_t first;  // in the piece
  std::int64_t count;
  const float* weights;
};

// Source positions of a blended line, and of a sum in f32: 8 KiB with 16 channels.
inline constexpr std::int64_t kSpan = 128;

// Consecutive results along a line with as many taps each. A run that `blends` needs a blended line of its `span`, which then
// serves the following runs that do not.
struct Run {
  Interval results;
  std::int64_t taps;
  Interval span;  // sources
  bool blends;
};

struct Line {
  const float* source;  // a plane (a channel block of a sample)
  std::int64_t slice;   // elements from one depth to the next
  std::int64_t row;     // elements from one line to the next
  Taps depths;          // of this line
  Taps rows;            // of this line
  const Taps* columns;  // of each result
  std::span<const Run> runs;
  float* to;
};

// to (+)= Σ weights[n] · from[n], element by element.
template <int N, bool kAdd>
OUTSIZE_INLINE void blend_of(const float* const* from, const float* weights, float* to, std::int64_t count) {
  const float *const a = from[0], *const b = from[N > 1 ? 1 : 0], *const c = from[N > 2 ? 2 : 0], *const d = from[N > 3 ? 3 : 0];
  const float wa = weights[0], wb = weights[N > 1 ? 1 : 0], wc = weights[N > 2 ? 2 : 0], wd = weights[N > 3 ? 3 : 0];
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    float sum = wa * a[i];
    if (N > 1) sum += wb * b[i];
    if (N > 2) sum += wc * c[i];
    if (N > 3) sum += wd * d[i];
    to[i] = kAdd ? to[i] + sum : sum;
  }
}

template <bool kAdd>
OUTSIZE_INLINE void blend(int n, const float* const* from, const float* weights, float* to, std::int64_t count) {
  switch (n) {
    case 1: return blend_of<1, kAdd>(from, weights, to, count);
    case 2: return blend_of<2, kAdd>(from, weights, to, count);
    case 3: return blend_of<3, kAdd>(from, weights, to, count);
    default: return blend_of<4, kAdd>(from, weights, to, count);
  }
}

OUTSIZE_INLINE void blend(bool add, int n, const float* const* from, const float* weights, float* to, std::int64_t count) {
  add ? blend<true>(n, from, weights, to, count) : blend<false>(n, from, weights, to, count);
}

// Lines that are summed one after the other, a multiple of four; beyond, sums of so many are, lest f32 lose digits in long windows.
inline constexpr std::int64_t kLines = 64;

// buffer = Σ over the line's depths and rows of `count` elements from `offset` on; `part` is as large.
OUTSIZE_INLINE void blend_rows(const Line& line, std::int64_t offset, std::int64_t count, float* buffer, float* part) {
  const std::int64_t lines = line.depths.count * line.rows.count;
  const float* from[4];
  float weights[4];
  std::int64_t done = 0;
  int n = 0;
  for (std::int64_t d = 0; d < line.depths.count; ++d)
    for (std::int64_t h = 0; h < line.rows.count; ++h) {
      from[n] = line.source + (line.depths.first + d) * line.slice + (line.rows.first + h) * line.row + offset;
      weights[n++] = line.depths.weights[d] * line.rows.weights[h];
      if (n < 4 && done + n < lines) continue;
      float* const to = done < kLines ? buffer : part;
      blend(done % kLines != 0, n, from, weights, to, count);
      done += n;
      n = 0;
      if (to != part || (done % kLines != 0 && done < lines)) continue;
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) buffer[i] += part[i];
    }
}

// One result from the part of a blended line that it reaches into; `span` is what the buffer holds. `add`: to what is there.
template <int B>
OUTSIZE_INLINE void blend_column(const Taps& taps, const float* buffer, Interval span, bool add, float* to) {
  const Interval held = intersect({taps.first, taps.first + taps.count}, span);
  for (std::int64_t i = held.lo; i < held.hi; i += 4) {
    const float* const b = buffer + (i - span.lo) * B;
    const float* const from[4] = {b, b + B, b + 2 * B, b + 3 * B};
    blend(add || i > held.lo, static_cast<int>(std::min<std::int64_t>(4, held.hi - i)), from, taps.weights + (i - taps.first), to,
          B);
  }
}

// Results of N taps each, all in the buffer, which begins at source `begin`.
template <int B, int N>
OUTSIZE_INLINE void blend_columns_of(const Taps* taps, std::int64_t count, const float* buffer, std::int64_t begin, float* to) {
  for (std::int64_t o = 0; o < count; ++o) {
    const float* const b = buffer + (taps[o].first - begin) * B;
    const float* const from[4] = {b, b + B, b + 2 * B, b + 3 * B};
    blend_of<N, false>(from, taps[o].weights, to + o * B, B);
  }
}

template <int B>
OUTSIZE_INLINE void blend_run(const Line& line, const Run& run, const float* buffer) {
  const Taps* const taps = line.columns + run.results.lo;
  float* const to = line.to + run.results.lo * B;
  switch (run.taps) {
    case 1: return blend_columns_of<B, 1>(taps, run.results.size(), buffer, run.span.lo, to);
    case 2: return blend_columns_of<B, 2>(taps, run.results.size(), buffer, run.span.lo, to);
    case 3: return blend_columns_of<B, 3>(taps, run.results.size(), buffer, run.span.lo, to);
    case 4: return blend_columns_of<B, 4>(taps, run.results.size(), buffer, run.span.lo, to);
    default:
      for (std::int64_t o = 0; o < run.results.size(); ++o) blend_column<B>(taps[o], buffer, run.span, false, to + o * B);
  }
}

template <int B>
OUTSIZE_INLINE void resample_line_of(const Line& line) {
  float buffer[kSpan * B];
  float part[kSpan * B];
  const bool nothing = line.depths.count == 0 || line.rows.count == 0;
  for (const Run& run : line.runs) {
    if (nothing || run.taps == 0) {
      std::fill_n(line.to + run.results.lo * B, run.results.size() * B, 0.0f);
    } else if (run.span.size() <= kSpan) {
      if (run.blends) blend_rows(line, run.span.lo * B, run.span.size() * B, buffer, part);
      blend_run<B>(line, run, buffer);
    } else {
      // A single result that takes several buffers.
      for (std::int64_t from = run.span.lo; from < run.span.hi; from += kSpan) {
        const Interval held{from, std::min(run.span.hi, from + kSpan)};
        blend_rows(line, held.lo * B, held.size() * B, buffer, part);
        blend_column<B>(line.columns[run.results.lo], buffer, held, from > run.span.lo, line.to + run.results.lo * B);
      }
    }
  }
}

// The mean of whole source lines, which lie in memory one after the other: the sum of them all in f32 over short runs, in f64
// beyond.
template <int B>
OUTSIZE_INLINE void mean_lines_of(const Line& line) {
  double sum[B] = {};
  const std::int64_t elements = line.rows.count * line.row;
  for (std::int64_t d = 0; d < line.depths.count; ++d) {
    const float* const x = line.source + (line.depths.first + d) * line.slice + line.rows.first * line.row;
    for (std::int64_t from = 0; from < elements; from += kSpan * B) {
      const std::int64_t to = std::min(elements, from + kSpan * B);
      float part[4 * B] = {};
      std::int64_t i = from;
      for (; i + 4 * B <= to; i += 4 * B) {
#pragma omp simd
        for (int c = 0; c < 4 * B; ++c) part[c] += x[i + c];
      }
      for (; i < to; i += B) {
#pragma omp simd
        for (int c = 0; c < B; ++c) part[c] += x[i + c];
      }
      for (int c = 0; c < B; ++c) sum[c] += static_cast<double>((part[c] + part[B + c]) + (part[2 * B + c] + part[3 * B + c]));
    }
  }
  const bool nothing = line.depths.count == 0 || line.rows.count == 0;
  const float weight = nothing ? 0.0f : line.depths.weights[0] * line.rows.weights[0] * line.columns[0].weights[0];
  for (int c = 0; c < B; ++c) line.to[c] = static_cast<float>(sum[c] * static_cast<double>(weight));
}

OUTSIZE_CLONES static void mean_lines(std::int64_t block, const Line& line) {
  if (block == 16)
    mean_lines_of<16>(line);
  else
    mean_lines_of<8>(line);
}

OUTSIZE_CLONES static void resample_line(std::int64_t block, const Line& line) {
  if (block == 16)
    resample_line_of<16>(line);
  else
    resample_line_of<8>(line);
}

// Finds the runs of a line with these taps; there is room for one a result.
inline std::span<const Run> find_runs(const Taps* taps, std::int64_t results, Run* runs) {
  const auto sources = [&](std::int64_t o) { return Interval{taps[o].first, taps[o].first + taps[o].count}; };
  std::size_t count = 0;
  for (std::int64_t at = 0; at < results;) {
    // What one buffer serves; a result that is wider stands alone.
    Interval span = sources(at);
    std::int64_t end = at + 1;
    for (; end < results && hull(span, sources(end)).size() <= kSpan; ++end) span = hull(span, sources(end));
    for (bool blends = true; at < end;) {
      const std::int64_t from = at;
      while (at < end && taps[at].count == taps[from].count) ++at;
      runs[count++] = {{from, at}, taps[from].count, span, blends};
      blends = blends && taps[from].count == 0;
    }
  }
  return {runs, count};
}

}  // namespace outsize::resample_loops

namespace outsize {

// Output 0 from input 0, both maps of f32. Side is Forward or Backward; both boxes belong to the values of the site.
template <template <class> class Side, class Axis>
class Resample final : public Kernel {
 public:
  Resample(const Call& call, const StorageRule& storage, const SpatialWindows<Axis>& windows)
      : windows_(windows), from_(storage, call.boxes.in[0]), to_(storage, call.boxes.out[0]) {
    const Dims& results = call.site.out(0).shape;
    for (int i = 0; i < windows_.rank; ++i) {
      const Side<Axis> side{windows_[i]};
      std::int64_t most = 0;
      for (std::int64_t result = 0; result < results[2 + i]; ++result) most = std::max(most, side.sources(result).size());
      Table& table = tables_[index(3 - windows_.rank + i)];
      table.results = call.boxes.out[0].extent(2 + i);
      table.most = std::min(most, call.boxes.in[0].extent(2 + i));
    }
    for (Table& table : tables_) {
      table.taps = workspace_.book(table.results * static_cast<std::int64_t>(sizeof(resample_loops::Taps)));
      table.weights = workspace_.book(table.results * table.most * size_of(DType::f32));
    }
    runs_ = workspace_.book(to_.width * static_cast<std::int64_t>(sizeof(resample_loops::Run)));
  }
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }

  void run(const KernelRun& run) const override {
    using resample_loops::Taps;
    std::array<const Taps*, 3> taps;
    for (int i = 0; i < 3; ++i) {
      const int axis = i - (3 - windows_.rank);
      taps[index(i)] =
          axis < 0 ? fill_identity(run.workspace, tables_[index(i)])
                   : fill(run.workspace, tables_[index(i)], windows_[axis], run.in_boxes[0][2 + axis], run.out_boxes[0][2 + axis]);
    }
    const std::span<const resample_loops::Run> runs =
        resample_loops::find_runs(taps[2], to_.width, reinterpret_cast<resample_loops::Run*>(run.workspace + runs_));
    const float* const from = f32(run.in[0]);
    float* const to = f32(run.out[0]);
    const std::int64_t lines = to_.depth * to_.height;
    const bool means_of_lines = Side<Axis>::kEven && to_.width == 1 && taps[2][0].count == from_.width;
    const auto make_line = means_of_lines ? resample_loops::mean_lines : resample_loops::resample_line;
    parallel_for(to_.planes() * lines, (from_.elements() + to_.elements()) * 4, [&](std::int64_t i) {
      const std::int64_t line = i % lines;
      make_line(to_.block, {from + i / lines * from_.plane(), from_.height * from_.row(), from_.row(), taps[0][line / to_.height],
                            taps[1][line % to_.height], taps[2], runs, to + i * to_.row()});
    });
  }

 private:
  // Of one dimension: offsets in the workspace.
  struct Table {
    std::int64_t results = 1;
    std::int64_t most = 1;  // sources of a result
    std::int64_t taps = 0;
    std::int64_t weights = 0;
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  static const resample_loops::Taps* fill(std::byte* workspace, const Table& table, const Axis& axis, Interval sources,
                                          Interval results) {
    const Side<Axis> side{axis};
    auto* const taps = reinterpret_cast<resample_loops::Taps*>(workspace + table.taps);
    float* weights = f32(workspace + table.weights);
    for (std::int64_t result = results.lo; result < results.hi; ++result, weights += table.most) {
      const Interval held = intersect(side.sources(result), sources);
      taps[result - results.lo] = {held.lo - sources.lo, held.size(), weights};
      for (std::int64_t source = held.lo; source < held.hi; ++source)
        weights[source - held.lo] = static_cast<float>(side.weight(result, source));
    }
    return taps;
  }
  // The depth of a map that has none.
  static const resample_loops::Taps* fill_identity(std::byte* workspace, const Table& table) {
    auto* const taps = reinterpret_cast<resample_loops::Taps*>(workspace + table.taps);
    float* const weights = f32(workspace + table.weights);
    weights[0] = 1.0f;
    taps[0] = {0, 1, weights};
    return taps;
  }

  SpatialWindows<Axis> windows_;
  MapPiece from_;
  MapPiece to_;
  std::array<Table, 3> tables_;
  Workspace workspace_;
  std::int64_t runs_;
};

// The kernel of a call, or zeros where its input has nothing.
template <template <class> class Side, class Axis>
std::unique_ptr<Kernel> make_resample(const Call& call, const StorageRule& storage, const SpatialWindows<Axis>& windows) {
  require_f32(call);
  require_blocks(call, storage);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  return std::make_unique<Resample<Side, Axis>>(call, storage, windows);
}

}  // namespace outsize
