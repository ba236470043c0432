#pragma once

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "ops/cuda/support.h"

// The map family: y = f(inputs) element by element, where inputs and output are dense pieces of one shape. f may depend on the
// channel by factors that are worked out once a thread, and on where the element is.
//
// A functor has
//   static constexpr int kInputs                                    how many pieces it reads; 0 where its place says all
//   using Factors = …; Factors factors(int channel) const           what depends on the channel; or `using Factors = NoFactors`
//   float operator()(const float* x, const Factors& factors) const  y from the inputs x[0], x[1], …
// or instead of the last, where an element's place matters,
//   float operator()(const float* x, const Factors& factors, Place place) const
// all of them OUTSIZE_BOTH. Where factors depend on the sample too,
//   Factors factors(int channel, std::int64_t sample) const
// and the pieces are given as one sheet for each sample.
namespace outsize::OUTSIZE_PLACE {

struct NoFactors {};

// Base of functors whose factors are none.
struct WithoutFactors {
  using Factors = NoFactors;
  OUTSIZE_BOTH NoFactors factors(int) const { return {}; }
};

// Whether the factors of a functor depend on the sample.
template <class F>
inline constexpr bool kBySample = requires(const F& f) {
  f.factors(0, std::int64_t{0});
};

template <class F>
OUTSIZE_BOTH typename F::Factors factors_of(const F& f, int channel, [[maybe_unused]] std::int64_t sample) {
  if constexpr (kBySample<F>)
    return f.factors(channel, sample);
  else
    return f.factors(channel);
}

// An element of a sheet: the position, counted over the whole piece (all samples), and the channel.
struct Place {
  std::int64_t position = 0;
  int channel = 0;
};

// How the threads of a block lie over columns: `wide` threads side by side take V columns each, `high` rows of them take positions
// below each other. Where V does not divide the channels, V positions side by side are one of channels · V columns, which repeat
// with the channels.
struct Columns {
  static constexpr int kThreads = 256;

  int count = 1;   // columns
  int period = 1;  // with which they repeat: the channels
  int wide = 1;
  int high = kThreads;
  std::int64_t positions = 0;  // rows of `count` columns

  // `most_wide`: vectors that a block takes side by side at most.
  Columns(const Sheet& sheet, int v, int most_wide) : count(static_cast<int>(sheet.channels)), period(count) {
    if (period % v != 0) count *= v;
    positions = sheet.elements() / count;
    const int vectors = count / v;
    const int tiles = (vectors + most_wide - 1) / most_wide;
    wide = (vectors + tiles - 1) / tiles;
    high = kThreads / wide;
  }
  // Blocks side by side.
  OUTSIZE_BOTH int across(int v) const { return (count / v + wide - 1) / wide; }
  // Whether rows of V columns cover the sheet.
  static bool covers(const Sheet& sheet, int v) {
    return sheet.channels * v < (1 << 24) && (sheet.channels % v == 0 || sheet.positions % v == 0);
  }
};

template <class F, int V>
struct MapProgram {
  static constexpr int kThreads = Columns::kThreads;
  static constexpr int kBlocks = 3;
  static constexpr int kUnroll = F::kInputs * V >= 16 ? 2 : 4;  // positions that a thread has in flight
  static constexpr int kPieces = F::kInputs > 0 ? F::kInputs : 1;
  static constexpr bool kFactors = !std::is_same_v<typename F::Factors, NoFactors>;
  // Factors are worked out in f64, so that blocks which have some loop over many positions.
  static constexpr int kBlocksEach = kFactors ? 64 : 1 << 20;  // blocks a multiprocessor, at most

  F f;
  const float* in[kPieces];
  float* out;
  Columns columns;
  std::int64_t first = 0;  // position of the launch
  std::uint32_t positions = 0;
  std::int64_t first_sample = 0;  // of the launch

  Grid grid(std::int64_t samples) const {
    const std::int64_t tiles = ceil_divide(positions, columns.high * kUnroll);
    const std::int64_t across = columns.across(V) * samples;
    const std::int64_t most = std::max<std::int64_t>(1, std::int64_t{multiprocessors()} * kBlocksEach / across);
    return {std::min({tiles, most, std::int64_t{1} << 30}), across, 0};
  }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    block.last([&](int thread) {
      const int row = thread / columns.wide;
      std::int64_t sample = 0;
      int tile = static_cast<int>(block.y());
      if constexpr (kBySample<F>) {
        const int across = columns.across(V);
        sample = first_sample + tile / across;
        tile %= across;
      }
      const int column = (tile * columns.wide + thread % columns.wide) * V;
      if (row >= columns.high || column >= columns.count) return;
      typename F::Factors factors[V];
      OUTSIZE_UNROLL
      for (int j = 0; j < V; ++j) factors[j] = factors_of(f, (column + j) % columns.period, sample);
      const std::int64_t at = (first + sample * columns.positions) * columns.count + column;
      const auto step = static_cast<std::uint32_t>(block.blocks_along_x()) * columns.high * kUnroll;
      for (std::uint32_t base = static_cast<std::uint32_t>(block.x()) * columns.high * kUnroll + row; base < positions;
           base += step) {
        Vector<float, V> x[kUnroll][kPieces];
        OUTSIZE_UNROLL
        for (int u = 0; u < kUnroll; ++u)
          if (const std::uint32_t p = base + u * columns.high; p < positions) {
            OUTSIZE_UNROLL
            for (int i = 0; i < F::kInputs; ++i) x[u][i] = load<V>(in[i] + at + offset(p));
          }
        OUTSIZE_UNROLL
        for (int u = 0; u < kUnroll; ++u)
          if (const std::uint32_t p = base + u * columns.high; p < positions) {
            Vector<float, V> y;
            OUTSIZE_UNROLL
            for (int j = 0; j < V; ++j) {
              float one[kPieces];
              OUTSIZE_UNROLL
              for (int i = 0; i < F::kInputs; ++i) one[i] = x[u][i].of[j];
              y.of[j] = value(one, factors[j], sample * columns.positions + p, column + j);
            }
            store(out + at + offset(p), y);
          }
      }
    });
  }

 private:
  OUTSIZE_BOTH std::int64_t offset(std::uint32_t p) const { return std::int64_t{p} * columns.count; }
  OUTSIZE_BOTH float value(const float* x, const typename F::Factors& factors, std::int64_t p, int column) const {
    if constexpr (requires { f(x, factors, Place{}); }) {
      const int repeats = columns.count / columns.period;
      return f(x, factors, Place{(first + p) * repeats + column / columns.period, column % columns.period});
    } else {
      return f(x, factors);
    }
  }
};

// Puts y = f(inputs) over `samples` sheets behind each other into the stream. Inputs and output may be the same memory.
template <class F>
void run_map(const F& f, const std::array<const float*, F::kInputs>& in, float* out, std::int64_t samples, Sheet sheet,
             void* queue) {
  if constexpr (!kBySample<F>) sheet.positions *= std::exchange(samples, 1);
  if (samples * sheet.elements() == 0) return;
  constexpr bool kFlat = std::is_same_v<typename F::Factors, NoFactors> && !requires(const float* x) {
    f(x, NoFactors{}, Place{});
  };
  bool vectors = aligned<4>(out);
  for (const float* pointer : in) vectors = vectors && aligned<4>(pointer);
  const auto start = [&]<int V>(const Sheet& part, std::int64_t from) {
    const Columns columns(part, V, Columns::kThreads);
    const std::int64_t samples_each = std::max<std::int64_t>(1, most_rows() / columns.across(V));
    for (std::int64_t sample = 0; sample < samples; sample += samples_each)
      for (std::int64_t first = 0; first < columns.positions; first += most_positions()) {
        MapProgram<F, V> program{f, {}, out + from, columns, first, 0, sample};
        for (int i = 0; i < F::kInputs; ++i) program.in[i] = in[static_cast<std::size_t>(i)] + from;
        program.positions = static_cast<std::uint32_t>(std::min(columns.positions - first, most_positions()));
        launch(program, program.grid(std::min(samples - sample, samples_each)), queue);
      }
  };
  if constexpr (kFlat) {
    // Channels do not matter: as many vectors as there are, then what is left.
    const std::int64_t whole = vectors ? sheet.elements() / 4 : 0;
    if (whole > 0) start.template operator()<4>(Sheet{whole, 4}, 0);
    if (const std::int64_t rest = sheet.elements() - whole * 4; rest > 0) start.template operator()<1>(Sheet{rest, 1}, whole * 4);
  } else if (vectors && Columns::covers(sheet, 4)) {
    start.template operator()<4>(sheet, 0);
  } else {
    start.template operator()<1>(sheet, 0);
  }
}

// The same over one sheet.
template <class F>
void run_map(const F& f, const std::array<const float*, F::kInputs>& in, float* out, Sheet sheet, void* queue) {
  run_map(f, in, out, 1, sheet, queue);
}

// The kernel y = f(inputs) of a call: output 0 from the inputs of these indices, whose boxes are output 0's. make(run, call's site)
// gives the functor of a run.
template <class F, class Make>
std::unique_ptr<Kernel> make_map_kernel(const Call& call, const StorageRule& storage, std::array<int, F::kInputs> inputs,
                                        Make make) {
  expect_card_call(call, storage);
  const Sheet sheet = output_sheet(call, 0);
  return make_kernel("map", 0, [=](const KernelRun& run) {
    std::array<const float*, F::kInputs> pointers;
    for (std::size_t i = 0; i < pointers.size(); ++i) pointers[i] = in<float>(run, inputs[i]);
    run_map<F>(make(run), pointers, out<float>(run, 0), sheet, run.queue);
  });
}

// The factory of a functor that is made of the op's attributes alone, or of nothing: it reads the op's first inputs.
//   table.add("relu", map_kernel<Relu>);
template <class F>
std::unique_ptr<Kernel> map_kernel(const Call& call, const StorageRule& storage) {
  std::array<int, F::kInputs> inputs;
  for (int i = 0; i < F::kInputs; ++i) inputs[static_cast<std::size_t>(i)] = i;
  if constexpr (std::is_constructible_v<F, const OpSite&>)
    return make_map_kernel<F>(call, storage, inputs, [f = F(call.site)](const KernelRun&) { return f; });
  else
    return make_map_kernel<F>(call, storage, inputs, [](const KernelRun&) { return F(); });
}

}  // namespace outsize::OUTSIZE_PLACE
