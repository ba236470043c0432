#pragma once

#include "ops/cuda/support.h"

// The simplest family: f(i) for every i below a count, in no order. For what is small (a number a channel) or gathers by itself.
namespace outsize::OUTSIZE_PLACE {

template <class F>
struct EachProgram {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 3;

  F f;
  std::int64_t count;

  Grid grid() const {
    const std::int64_t blocks = ceil_divide(count, kThreads);
    return {blocks < kMostPositions ? blocks : kMostPositions, 1, 0};
  }
  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    block.last([&](int thread) {
      for (std::int64_t i = block.x() * kThreads + thread; i < count; i += block.blocks_along_x() * kThreads) f(i);
    });
  }
};

// Puts f(i) for every i in [0, count) into the stream. F: void operator()(std::int64_t i) const, OUTSIZE_BOTH.
template <class F>
void run_each(const F& f, std::int64_t count, void* queue) {
  if (count == 0) return;
  const EachProgram<F> program{f, count};
  launch(program, program.grid(), queue);
}

}  // namespace outsize::OUTSIZE_PLACE
