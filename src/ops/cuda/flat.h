#pragma once

#include <array>

#include "ops/cuda/support.h"

// The flat family: outputs from inputs element by element where all lie alike, so that channels do not matter. What all elements
// have in common (a learning rate, a factor) lies in the card's memory: each block reads it and works it out once.
//
// A functor has
//   static constexpr int kInputs, kOutputs
//   using Common = …; Common common() const                                  read by one thread of a block
//   void operator()(const float* x, float* y, const Common& common) const    y[0], y[1], … from x[0], x[1], …
// all of them OUTSIZE_BOTH.
namespace outsize::OUTSIZE_PLACE {

template <class F, int V>
struct FlatProgram {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 4;
  static constexpr int kUnroll = F::kInputs * V >= 16 ? 2 : 4;  // vectors that a thread has in flight
  static constexpr int kBlocksEach = 8;                         // blocks a multiprocessor, at most: one wave
  using Common = typename F::Common;

  F f;
  const float* in[F::kInputs];
  float* out[F::kOutputs];
  std::uint32_t count = 0;  // vectors
  int rest = 0;             // elements after them

  Grid grid() const {
    const std::int64_t tiles = std::max<std::int64_t>(1, ceil_divide(count, kThreads * kUnroll));
    return {std::min(tiles, std::int64_t{multiprocessors()} * kBlocksEach), 1, sizeof(Common)};
  }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    Common* const shared = reinterpret_cast<Common*>(block.shared());
    block.each([&](int thread) {
      if (thread == 0) *shared = f.common();
    });
    block.last([&](int thread) {
      const Common common = *shared;
      const auto step = static_cast<std::uint32_t>(block.blocks_along_x()) * kThreads * kUnroll;
      for (std::uint32_t base = static_cast<std::uint32_t>(block.x()) * kThreads * kUnroll + thread; base < count; base += step) {
        Vector<float, V> x[kUnroll][F::kInputs];
        OUTSIZE_UNROLL
        for (int u = 0; u < kUnroll; ++u)
          if (const std::uint32_t p = base + u * kThreads; p < count) {
            OUTSIZE_UNROLL
            for (int i = 0; i < F::kInputs; ++i) x[u][i] = load<V>(in[i] + std::int64_t{p} * V);
          }
        OUTSIZE_UNROLL
        for (int u = 0; u < kUnroll; ++u)
          if (const std::uint32_t p = base + u * kThreads; p < count) {
            Vector<float, V> y[F::kOutputs];
            OUTSIZE_UNROLL
            for (int j = 0; j < V; ++j) {
              float from[F::kInputs], to[F::kOutputs];
              OUTSIZE_UNROLL
              for (int i = 0; i < F::kInputs; ++i) from[i] = x[u][i].of[j];
              f(from, to, common);
              OUTSIZE_UNROLL
              for (int i = 0; i < F::kOutputs; ++i) y[i].of[j] = to[i];
            }
            OUTSIZE_UNROLL
            for (int i = 0; i < F::kOutputs; ++i) store(out[i] + std::int64_t{p} * V, y[i]);
          }
      }
      if (block.x() != 0 || thread >= rest) return;
      const std::int64_t at = std::int64_t{count} * V + thread;
      float from[F::kInputs], to[F::kOutputs];
      OUTSIZE_UNROLL
      for (int i = 0; i < F::kInputs; ++i) from[i] = in[i][at];
      f(from, to, common);
      OUTSIZE_UNROLL
      for (int i = 0; i < F::kOutputs; ++i) out[i][at] = to[i];
    });
  }
};

// Puts outputs = f(inputs) over this many elements into the stream. An output may be the same memory as an input.
template <class F>
void run_flat(const F& f, const std::array<const float*, F::kInputs>& in, const std::array<float*, F::kOutputs>& out,
              std::int64_t elements, void* queue) {
  const auto start = [&]<int V>() {
    for (std::int64_t first = 0; first < elements; first += most_positions() * V) {
      FlatProgram<F, V> program{f, {}, {}};
      for (std::size_t i = 0; i < in.size(); ++i) program.in[i] = in[i] + first;
      for (std::size_t i = 0; i < out.size(); ++i) program.out[i] = out[i] + first;
      const std::int64_t here = std::min(elements - first, most_positions() * V);
      program.count = static_cast<std::uint32_t>(here / V);
      program.rest = static_cast<int>(here % V);
      launch(program, program.grid(), queue);
    }
  };
  bool vectors = true;
  for (const float* pointer : in) vectors = vectors && aligned<4>(pointer);
  for (const float* pointer : out) vectors = vectors && aligned<4>(pointer);
  vectors ? start.template operator()<4>() : start.template operator()<1>();
}

// What is common to all elements of the gradient of a mean: dloss / elements, times what each element counts.
struct MeanGradient {
  using Common = float;

  const float* dloss;
  double weight;

  OUTSIZE_BOTH float common() const { return static_cast<float>(weight * *dloss); }
};

// The kernel dx = F(inputs 0 and 1) of the gradient of a mean over all elements, whose input 2 is dloss.
template <class F>
std::unique_ptr<Kernel> make_mean_gradient(const Call& call, const StorageRule& storage, double weight_of_one) {
  expect_card_call(call, storage);
  const std::int64_t elements = output_sheet(call, 0).elements();
  const double weight = weight_of_one / static_cast<double>(call.site.in(0).elements());
  return make_kernel("flat", 0, [=](const KernelRun& run) {
    run_flat(F{{in<float>(run, 2), weight}}, {in<float>(run, 0), in<float>(run, 1)}, {out<float>(run, 0)}, elements, run.queue);
  });
}

}  // namespace outsize::OUTSIZE_PLACE
