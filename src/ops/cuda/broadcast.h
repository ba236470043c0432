#pragma once

#include "ops/broadcast.h"
#include "ops/cuda/loops.h"
#include "ops/cuda/map.h"

// The broadcast family: y = f(inputs) element by element, where inputs may be the same along dimensions of y: a step of 0. A
// functor is one of the map family, without factors or places.
//   table.add("add", broadcast_kernel<Add>);
namespace outsize::OUTSIZE_PLACE {

// Elements of y that one launch makes at most. Few on the host, so that the cases of the tests have several launches.
#if defined(__CUDACC__)
inline constexpr std::int64_t kMostBroadcast = std::int64_t{1} << 30;
#else
inline constexpr std::int64_t kMostBroadcast = 600;
#endif

// kByRows: the innermost loop goes by vectors of V elements, and along it an input is full, or one number. Otherwise vectors are V
// elements that follow each other in y wherever rows end; an input that is full lies as y does, of the others each element is
// looked up.
template <class F, int V, bool kByRows>
struct BroadcastProgram {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 3;
  static constexpr int kUnroll = F::kInputs * V >= 16 ? 2 : 4;  // vectors that a thread has in flight
  static constexpr int kInputs = F::kInputs;
  using Walk = typename Loops<kInputs + 1>::Walk;

  F f;
  const float* in[kInputs];
  float* out;
  bool full[kInputs];
  Walk walk;                // over vectors by rows, over elements otherwise
  std::uint32_t first = 0;  // element of y
  std::uint32_t count = 0;  // vectors

  Grid grid() const { return {ceil_divide(count, kThreads * kUnroll), 1, 0}; }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    block.last([&](int thread) {
      const std::uint32_t base = static_cast<std::uint32_t>(block.x()) * (kThreads * kUnroll) + thread;
      Vector<float, V> x[kUnroll][kInputs];
      OUTSIZE_UNROLL
      for (int u = 0; u < kUnroll; ++u)
        if (const std::uint32_t p = base + u * kThreads; p < count) kByRows ? read_row(x[u], p) : read(x[u], p);
      OUTSIZE_UNROLL
      for (int u = 0; u < kUnroll; ++u)
        if (const std::uint32_t p = base + u * kThreads; p < count) {
          Vector<float, V> y;
          OUTSIZE_UNROLL
          for (int j = 0; j < V; ++j) {
            float one[kInputs];
            OUTSIZE_UNROLL
            for (int i = 0; i < kInputs; ++i) one[i] = x[u][i].of[j];
            y.of[j] = f(one, NoFactors{});
          }
          store(out + first + p * V, y);
        }
    });
  }

 private:
  OUTSIZE_BOTH void read_row(Vector<float, V> (&x)[kInputs], std::uint32_t p) const {
    std::int64_t offsets[kInputs + 1] = {};
    walk.add_offsets(p, offsets);
    OUTSIZE_UNROLL
    for (int i = 0; i < kInputs; ++i) {
      if (full[i]) {
        x[i] = load<V>(in[i] + offsets[i]);
      } else {
        const float same = in[i][offsets[i]];
        OUTSIZE_UNROLL
        for (int j = 0; j < V; ++j) x[i].of[j] = same;
      }
    }
  }
  OUTSIZE_BOTH void read(Vector<float, V> (&x)[kInputs], std::uint32_t p) const {
    OUTSIZE_UNROLL
    for (int i = 0; i < kInputs; ++i)
      if (full[i]) x[i] = load<V>(in[i] + first + p * V);
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) {
      std::int64_t offsets[kInputs + 1] = {};
      walk.add_offsets(first + p * V + j, offsets);
      OUTSIZE_UNROLL
      for (int i = 0; i < kInputs; ++i)
        if (!full[i]) x[i].of[j] = in[i][offsets[i]];
    }
  }
};

// The loops over output 0 of a call, with the inputs as operands, and the output as the last.
template <int kInputs>
Loops<kInputs + 1> broadcast_loops(const Call& call, const StorageRule& storage) {
  const ValueType& y = call.site.out(0);
  const Box& box = call.boxes.out[0];
  std::array<Dims, kInputs + 1> steps;
  steps[kInputs] = stored_steps(storage, y, box);
  for (int i = 0; i < kInputs; ++i) {
    const Dims& shape = call.site.in(i).shape;
    const Dims own_steps = stored_steps(storage, call.site.in(i), call.boxes.in[static_cast<std::size_t>(i)]);
    Dims& aligned_steps = steps[static_cast<std::size_t>(i)];
    aligned_steps = Dims::filled(box.rank(), 0);
    for (int own = 0; own < shape.rank(); ++own)
      if (const int dim = own + box.rank() - shape.rank(); shape[own] == y.shape[dim]) aligned_steps[dim] = own_steps[own];
  }
  Loops<kInputs + 1> loops;
  for (const std::int64_t dim : stored_order(storage, y)) {
    std::array<std::int64_t, kInputs + 1> along;
    for (std::size_t i = 0; i < along.size(); ++i) along[i] = steps[i][static_cast<int>(dim)];
    loops.add(box.extent(static_cast<int>(dim)), along);
  }
  return loops;
}

// Puts y = f(inputs) over these loops into the stream. Inputs and output may be the same memory where they lie alike.
template <class F>
void run_broadcast(const F& f, std::array<const float*, F::kInputs> in, float* out, const Loops<F::kInputs + 1>& whole,
                   void* queue) {
  constexpr int K = F::kInputs;
  const auto part = [&](const Loops<K + 1>& loops, const std::array<std::int64_t, K + 1>& from) {
    const int depth = loops.depth();
    const std::int64_t elements = loops.positions();
    bool like_y[K], all_like_y = true, along_rows[K];
    bool flat_vectors = aligned<4>(out + from[K]);
    bool row_vectors = flat_vectors && depth > 0 && loops.extent(depth - 1) % 4 == 0;
    for (int i = 0; i < K; ++i) {
      const bool is_aligned = aligned<4>(in[static_cast<std::size_t>(i)] + from[static_cast<std::size_t>(i)]);
      like_y[i] = true;
      along_rows[i] = depth > 0 && loops.step(i, depth - 1) == 1;
      for (int loop = 0; loop < depth; ++loop) {
        like_y[i] = like_y[i] && loops.step(i, loop) == loops.step(K, loop);
        if (along_rows[i] && loop < depth - 1 && loops.step(i, loop) % 4 != 0) row_vectors = false;
      }
      all_like_y = all_like_y && like_y[i];
      if (like_y[i] && !is_aligned) flat_vectors = false;
      if (along_rows[i] ? !is_aligned : depth > 0 && loops.step(i, depth - 1) != 0) row_vectors = false;
    }
    if (all_like_y) {
      std::array<const float*, K> pieces = in;
      for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] += from[i];
      return run_map<F>(f, pieces, out + from[K], Sheet{elements, 1}, queue);
    }
    const auto start = [&]<int V, bool kByRows>(std::int64_t first, std::int64_t count) {
      if (count == 0) return;
      BroadcastProgram<F, V, kByRows> program{f, {}, out + from[K], {}, {}, 0, 0};
      for (int i = 0; i < K; ++i) {
        program.in[i] = in[static_cast<std::size_t>(i)] + from[static_cast<std::size_t>(i)];
        program.full[i] = kByRows ? along_rows[i] : like_y[i];
      }
      program.walk = loops.by_vectors(kByRows ? V : 1).walk();
      program.first = static_cast<std::uint32_t>(first);
      program.count = static_cast<std::uint32_t>(count);
      launch(program, program.grid(), queue);
    };
    if (row_vectors) return start.template operator()<4, true>(0, elements / 4);
    const std::int64_t whole_vectors = flat_vectors ? elements / 4 : 0;
    start.template operator()<4, false>(0, whole_vectors);
    start.template operator()<1, false>(whole_vectors * 4, elements - whole_vectors * 4);
  };
  whole.for_each_part(kMostBroadcast, part);
}

// The factory of the kernel output 0 = f(inputs), which broadcast to it.
template <class F>
std::unique_ptr<Kernel> broadcast_kernel(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  if (call.boxes.out[0].empty()) return make_nothing();
  const auto loops = broadcast_loops<F::kInputs>(call, storage);
  return make_kernel("broadcast", 0, [loops](const KernelRun& run) {
    std::array<const float*, F::kInputs> inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = in<float>(run, static_cast<int>(i));
    run_broadcast(F(), inputs, out<float>(run, 0), loops, run.queue);
  });
}

}  // namespace outsize::OUTSIZE_PLACE
