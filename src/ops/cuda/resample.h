#pragma once

#include "ops/cuda/each.h"
#include "ops/cuda/windows.h"
#include "ops/resample.h"

// The kernel of every separable resampling (ops/resample.h), forward and backward: a first launch works out along each dimension
// which sources a result has and their weights, in whole numbers of 64 bits as the op defines them; a second one adds up.
namespace outsize::OUTSIZE_PLACE {

// The sources of a result along one dimension, in the piece.
struct Taps {
  std::int32_t first;
  std::int32_t count;
};

// Of each result of one dimension: its taps, and `most` weights.
struct TapsTable {
  Taps* taps = nullptr;
  float* weights = nullptr;
  std::int64_t results = 1;
  std::int64_t most = 1;

  OUTSIZE_BOTH const float* weights_of(int result) const { return weights + result * most; }
};

using TapsTables = std::array<TapsTable, 3>;

// Side is Forward or Backward; an absent depth has one source of weight 1. For every weight of a table.
template <template <class> class Side, class Axis>
struct FillTaps {
  SpatialWindows<Axis> windows;
  std::array<Interval, 3> sources, results;  // of the pieces
  TapsTables tables;

  std::int64_t count() const {
    std::int64_t total = 0;
    for (const TapsTable& table : tables) total += table.results * table.most;
    return total;
  }
  OUTSIZE_BOTH void operator()(std::int64_t i) const {
    int dim = 0;
    for (; i >= tables[dim].results * tables[dim].most; ++dim) i -= tables[dim].results * tables[dim].most;
    const TapsTable& table = tables[dim];
    const std::int64_t result = i / table.most, tap = i % table.most;
    const int axis = dim - (3 - windows.rank);
    if (axis < 0) {
      table.taps[result] = {0, 1};
      table.weights[i] = 1;
      return;
    }
    const Side<Axis> side{windows.axes[axis]};
    const std::int64_t whole_result = results[dim].lo + result;
    const Interval held = intersect(side.sources(whole_result), sources[dim]);
    if (tap == 0) {
      const std::int64_t first = held.empty() ? 0 : held.lo - sources[dim].lo;
      table.taps[result] = {static_cast<std::int32_t>(first), static_cast<std::int32_t>(held.size())};
    }
    if (tap < held.size()) table.weights[i] = static_cast<float>(side.weight(whole_result, held.lo + tap));
  }
};

// Puts the resampling of a piece into the stream, by tables that are filled.
void run_blend(const float* from, const MapExtents& sources, float* to, const MapExtents& results, const TapsTables& tables,
               void* queue);

// Output 0 of a call from input 0, or zeros where that has nothing.
template <template <class> class Side, class Axis>
std::unique_ptr<Kernel> make_resample(const Call& call, const StorageRule& storage, const SpatialWindows<Axis>& windows) {
  expect_card_call(call, storage);
  if (call.boxes.out[0].empty()) return make_nothing();
  if (has_empty_input(call)) return make_zeros(call, storage);
  // The tables lie in the workspace. Weights do not depend on boxes, but how many a result has does: at most as many as any.
  TapsTables tables;
  const Dims& whole = call.site.out(0).shape;
  for (int i = 0; i < windows.rank; ++i) {
    TapsTable& table = tables[static_cast<std::size_t>(3 - windows.rank + i)];
    const Side<Axis> side{windows[i]};
    std::int64_t most = 1;
    for (std::int64_t result = 0; result < whole[2 + i]; ++result) most = std::max(most, side.sources(result).size());
    table.results = call.boxes.out[0].extent(2 + i);
    table.most = std::min(most, call.boxes.in[0].extent(2 + i));
  }
  std::array<std::int64_t, 3> taps_at{}, weights_at{};
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    taps_at[i] = bytes;
    bytes += part_bytes(tables[i].results * static_cast<std::int64_t>(sizeof(Taps)));
    weights_at[i] = bytes;
    bytes += part_bytes(tables[i].results * tables[i].most * size_of(DType::f32));
  }
  return make_kernel("windows", bytes, [=](const KernelRun& run) {
    FillTaps<Side, Axis> fill{windows, {}, {}, tables};
    for (std::size_t i = 0; i < 3; ++i) {
      fill.tables[i].taps = reinterpret_cast<Taps*>(run.workspace + taps_at[i]);
      fill.tables[i].weights = reinterpret_cast<float*>(run.workspace + weights_at[i]);
    }
    for (int i = 0; i < windows.rank; ++i) {
      const auto dim = static_cast<std::size_t>(3 - windows.rank + i);
      fill.sources[dim] = run.in_boxes[0][2 + i];
      fill.results[dim] = run.out_boxes[0][2 + i];
    }
    run_each(fill, fill.count(), run.queue);
    run_blend(in<float>(run, 0), MapExtents(run.in_boxes[0]), out<float>(run, 0), MapExtents(run.out_boxes[0]), fill.tables,
              run.queue);
  });
}

}  // namespace outsize::OUTSIZE_PLACE
