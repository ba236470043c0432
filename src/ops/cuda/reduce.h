#pragma once

#include "ops/cuda/map.h"

// The reduce family: what the elements of each channel of dense pieces add up to, in two launches: blocks reduce parts of the
// positions to partial results in the workspace, which a second launch merges. The order of all additions is fixed by the shape and
// the card: f32 over runs of at most 128 elements about a shift, f64 beyond.
//
// A functor A has
//   static constexpr int kInputs
//   using Element = …                     what the inputs are made of; may be left out where it is float
//   Factors, factors(channel)             as in the map family, or with the sample
//   struct Partial { void merge(const Partial& other); }   a default-constructed one is neutral
//   struct Run                            what a thread has of up to 128 elements in f32:
//     void start(float first_mean)        it begins; first_mean: of the first values of input 0 that it will take
//     void add(const Element* x, const Factors& factors)        or, where an element's place matters,
//     void add(const Element* x, const Factors& factors, Place place)
//     void into(Partial& partial, int count) const    it ends after `count` elements
// and the end E has
//   void finish(int channel, const Partial& partial) const   writes the results of a channel, or group of channels
// all of them OUTSIZE_BOTH.
namespace outsize::OUTSIZE_PLACE {

template <class A>
struct ElementOf {
  using type = float;
};
template <class A>
requires requires { typename A::Element; }
struct ElementOf<A> {
  using type = typename A::Element;
};
// What the inputs of a functor are made of.
template <class A>
using Element = typename ElementOf<A>::type;

template <class A, int V>
struct ReduceProgram {
  static constexpr int kThreads = Columns::kThreads;
  static constexpr int kBlocks = 3;
  static constexpr int kUnroll = A::kInputs * V >= 16 ? 2 : 4;
  static constexpr int kRun = 128;
  static constexpr int kMostWide = 32;  // vectors: high blocks have more rows to add up in registers
  using Partial = typename A::Partial;
  using Run = typename A::Run;
  using T = Element<A>;

  A a;
  const T* in[A::kInputs];
  Columns columns;
  Partial* partials;                // [batch][split][column]
  std::int64_t splits;              // of the positions of one of the batch
  std::int64_t split_size;          // positions
  std::int64_t batch_stride;        // elements from one of the batch to the next
  std::int64_t first_of_batch = 0;  // of the launch

  static std::int64_t splits_for(const Columns& columns, std::int64_t batches) {
    const std::int64_t across = columns.across(V) * batches;
    const std::int64_t wave = std::max<std::int64_t>(1, std::int64_t{multiprocessors()} * kBlocks / across);
    return std::clamp<std::int64_t>(ceil_divide(columns.positions, columns.high * kUnroll), 1, wave);
  }
  Grid grid(std::int64_t batches) const {
    return {splits, columns.across(V) * batches, static_cast<std::int64_t>(kThreads * V * sizeof(Partial))};
  }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    Partial* const shared = reinterpret_cast<Partial*>(block.shared());
    const std::int64_t across = columns.across(V);
    const std::int64_t batch = first_of_batch + block.y() / across;
    const int first_column = static_cast<int>(block.y() % across) * columns.wide * V;
    block.each([&](int thread) {
      Partial all[V];
      const int row = thread / columns.wide, column = first_column + thread % columns.wide * V;
      if (row < columns.high && column < columns.count) {
        typename A::Factors factors[V];
        OUTSIZE_UNROLL
        for (int j = 0; j < V; ++j) factors[j] = factors_of(a, (column + j) % columns.period, batch);
        const std::int64_t begin = block.x() * split_size;
        const std::int64_t end = begin + split_size < columns.positions ? begin + split_size : columns.positions;
        reduce(all, factors, batch, column, begin + row, end);
      }
      OUTSIZE_UNROLL
      for (int j = 0; j < V; ++j) shared[j * kThreads + thread] = all[j];
    });
    for (int rows = columns.high; rows > 1; rows = (rows + 1) / 2) {
      const int half = (rows + 1) / 2;
      block.each([&](int thread) {
        if (thread / columns.wide >= rows / 2) return;
        for (int j = 0; j < V; ++j) shared[j * kThreads + thread].merge(shared[j * kThreads + thread + half * columns.wide]);
      });
    }
    block.last([&](int thread) {
      const int column = first_column + thread * V;
      if (thread >= columns.wide || column >= columns.count) return;
      for (int j = 0; j < V; ++j)
        partials[(batch * splits + block.x()) * columns.count + column + j] = shared[j * kThreads + thread];
    });
  }

 private:
  // Adds up the positions p, p + high, … below `end`.
  OUTSIZE_BOTH void reduce(Partial (&all)[V], const typename A::Factors (&factors)[V], std::int64_t batch, int column,
                           std::int64_t p, std::int64_t end) const {
    const std::int64_t high = columns.high, at = batch * batch_stride + column;
    while (p < end) {
      Run runs[V];
      int n = 0;
      for (; n < kRun && p + (kUnroll - 1) * high < end; n += kUnroll, p += kUnroll * high) {
        Vector<T, V> x[kUnroll][A::kInputs];
        OUTSIZE_UNROLL
        for (int u = 0; u < kUnroll; ++u) {
          OUTSIZE_UNROLL
          for (int i = 0; i < A::kInputs; ++i) x[u][i] = load<V>(in[i] + at + (p + u * high) * columns.count);
        }
        if (n == 0) {
          OUTSIZE_UNROLL
          for (int j = 0; j < V; ++j) {
            float sum = 0;
            OUTSIZE_UNROLL
            for (int u = 0; u < kUnroll; ++u) sum += static_cast<float>(x[u][0].of[j]);
            runs[j].start(sum * (1.0f / kUnroll));
          }
        }
        OUTSIZE_UNROLL
        for (int j = 0; j < V; ++j) {
          OUTSIZE_UNROLL
          for (int u = 0; u < kUnroll; ++u) add(runs[j], x[u], j, factors[j], batch, column, p + u * high);
        }
      }
      // The last few, one by one.
      for (; n < kRun && p < end && p + (kUnroll - 1) * high >= end; ++n, p += high) {
        Vector<T, V> x[A::kInputs];
        OUTSIZE_UNROLL
        for (int i = 0; i < A::kInputs; ++i) x[i] = load<V>(in[i] + at + p * columns.count);
        OUTSIZE_UNROLL
        for (int j = 0; j < V; ++j) {
          if (n == 0) runs[j].start(static_cast<float>(x[0].of[j]));
          add(runs[j], x, j, factors[j], batch, column, p);
        }
      }
      OUTSIZE_UNROLL
      for (int j = 0; j < V; ++j) runs[j].into(all[j], n);
    }
  }
  OUTSIZE_BOTH void add(Run& run, const Vector<T, V> (&x)[A::kInputs], int j, const typename A::Factors& factors,
                        std::int64_t batch, int column, std::int64_t p) const {
    T one[A::kInputs];
    OUTSIZE_UNROLL
    for (int i = 0; i < A::kInputs; ++i) one[i] = x[i].of[j];
    if constexpr (requires { run.add(one, factors, Place{}); }) {
      const int repeats = columns.count / columns.period;
      run.add(one, factors,
              Place{(batch * columns.positions + p) * repeats + (column + j) / columns.period, (column + j) % columns.period});
    } else {
      run.add(one, factors);
    }
  }
};

// Merges the splits, and the columns of a target, in order: target t of one of the batch is made of the channels
// [t · channels_each, (t + 1) · channels_each) − channels_before, as far as there are such channels.
template <class Partial, class E>
struct FoldProgram {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 2;
  static constexpr int kMany = 1024;  // partial results of a target that are worth a block

  const Partial* partials;
  std::int64_t splits;
  int columns, period;
  int channels_each, channels_before;
  std::int64_t targets;  // of all of the batch
  E end;
  int across = 8;  // targets a block, set by start()

  // Puts it into the stream.
  void start(void* queue) {
    if (targets == 0) return;
    across = splits * (columns / period) * channels_each < kMany ? 8 : 1;
    launch(*this, Grid{ceil_divide(targets, across), 1, static_cast<std::int64_t>(kThreads * sizeof(Partial))}, queue);
  }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    Partial* const shared = reinterpret_cast<Partial*>(block.shared());
    const int high = kThreads / across;
    const int targets_each = (channels_before + period + channels_each - 1) / channels_each;
    block.each([&](int thread) {
      Partial all;
      const std::int64_t target = block.x() * across + thread % across;
      if (target < targets) {
        const std::int64_t batch = target / targets_each;
        const int from = static_cast<int>(target % targets_each) * channels_each - channels_before;
        const int first = from > 0 ? from : 0;
        const int channels = (from + channels_each < period ? from + channels_each : period) - first;
        const int each = columns / period * channels;  // partial results of a split
        for (std::int64_t i = thread / across; i < splits * each; i += high) {
          const std::int64_t split = i / each;
          const int rest = static_cast<int>(i % each);
          all.merge(partials[(batch * splits + split) * columns + rest / channels * period + first + rest % channels]);
        }
      }
      shared[thread] = all;
    });
    for (int half = high / 2; half > 0; half /= 2)
      block.each([&](int thread) {
        if (thread / across < half) shared[thread].merge(shared[thread + half * across]);
      });
    block.last([&](int thread) {
      const std::int64_t target = block.x() * across + thread;
      if (thread < across && target < targets) end.finish(static_cast<int>(target), shared[thread]);
    });
  }
};

// What a reduction is over: `batches` sheets behind each other, each reduced to the sums of groups of `channels_each` channels. Of
// the first group the sheets lack the first `channels_before` channels.
struct ReduceShape {
  std::int64_t batches = 1;
  Sheet sheet;  // of one of the batch
  int channels_each = 1;
  int channels_before = 0;

  std::int64_t targets() const { return batches * ceil_divide(channels_before + sheet.channels, channels_each); }
};

// What a sum of all elements is over, wherever they are.
inline ReduceShape all_of(std::int64_t elements) {
  return elements % 4 == 0 ? ReduceShape{1, {elements / 4, 4}, 4} : ReduceShape{1, {elements, 1}};
}

// The bytes of workspace that run_reduce() takes.
template <class A>
std::int64_t reduce_workspace(const ReduceShape& shape) {
  std::int64_t most = 0;
  const auto count = [&]<int V>() {
    const Columns columns(shape.sheet, V, ReduceProgram<A, V>::kMostWide);
    const std::int64_t splits = ReduceProgram<A, V>::splits_for(columns, shape.batches);
    most = std::max<std::int64_t>(most,
                                  shape.batches * splits * columns.count * static_cast<std::int64_t>(sizeof(typename A::Partial)));
  };
  if (shape.sheet.elements() == 0) return 0;
  count.template operator()<1>();
  if (Columns::covers(shape.sheet, 4)) count.template operator()<4>();
  return most;
}

// Puts the reduction into the stream: end.finish(target, sum) once for each target, of batch b and group g: b · groups + g. Of
// sheets without elements the sum is the neutral one.
template <class A, class E>
void run_reduce(const A& a, const E& end, const std::array<const Element<A>*, A::kInputs>& in, const ReduceShape& shape,
                std::byte* workspace, void* queue) {
  using Partial = typename A::Partial;
  Partial* const partials = reinterpret_cast<Partial*>(workspace);
  const int channels = static_cast<int>(shape.sheet.channels);
  FoldProgram<Partial, E> fold{partials, 0, channels, channels, shape.channels_each, shape.channels_before, shape.targets(), end};
  bool vectors = Columns::covers(shape.sheet, 4) && (shape.batches == 1 || shape.sheet.elements() % 4 == 0);
  for (const Element<A>* pointer : in) vectors = vectors && aligned<4>(pointer);
  const auto start = [&]<int V>() {
    const Columns columns(shape.sheet, V, ReduceProgram<A, V>::kMostWide);
    ReduceProgram<A, V> program{a, {}, columns, partials, 0, 0, shape.sheet.elements()};
    program.splits = ReduceProgram<A, V>::splits_for(columns, shape.batches);
    program.split_size = ceil_divide(columns.positions, program.splits);
    for (std::size_t i = 0; i < in.size(); ++i) program.in[i] = in[i];
    const std::int64_t batches_each = std::max<std::int64_t>(1, most_rows() / columns.across(V));
    for (; program.first_of_batch < shape.batches; program.first_of_batch += batches_each)
      launch(program, program.grid(std::min(shape.batches - program.first_of_batch, batches_each)), queue);
    fold.splits = program.splits;
    fold.columns = columns.count;
  };
  if (shape.sheet.elements() > 0) vectors ? start.template operator()<4>() : start.template operator()<1>();
  fold.start(queue);
}

// A sum in f64: the Partial of functors that add up one number.
struct SumPartial {
  double value = 0;
  OUTSIZE_BOTH void merge(const SumPartial& other) { value += other.value; }
};

// The Run of such functors in f32.
struct SumRun {
  float value;
  OUTSIZE_BOTH void start(float) { value = 0; }
  OUTSIZE_BOTH void into(SumPartial& partial, int) const { partial.merge({value}); }
};

// An end: y = factor · the sum.
struct ScaledSum {
  float* y;
  double factor;
  OUTSIZE_BOTH void finish(int i, const SumPartial& sum) const { y[i] = static_cast<float>(factor * sum.value); }
};

// The kernel of a call whose output 0 is factor · the sum, over all elements of the inputs' boxes, which are alike, of what A adds
// up.
template <class A>
std::unique_ptr<Kernel> make_sum_of_all(const Call& call, const StorageRule& storage, double factor) {
  expect_card_call(call, storage);
  const ReduceShape shape = all_of(input_sheet(call, 0).elements());
  return make_kernel("reduce", reduce_workspace<A>(shape), [=](const KernelRun& run) {
    std::array<const float*, A::kInputs> pointers;
    for (std::size_t i = 0; i < pointers.size(); ++i) pointers[i] = in<float>(run, static_cast<int>(i));
    run_reduce(A(), ScaledSum{out<float>(run, 0), factor}, pointers, shape, run.workspace, run.queue);
  });
}

}  // namespace outsize::OUTSIZE_PLACE
