#include <algorithm>

#include "ops/cuda/each.h"
#include "ops/cuda/memory.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// f(from, to) for every vector of V elements of a box: offsets in elements. Positions are vectors, counted along the run first.
template <int V, class F>
struct BoxProgram {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 3;

  F f;
  std::int64_t from, to;
  std::int64_t from_stride[CopyPlan::kLoops], to_stride[CopyPlan::kLoops];
  Divide length, count[CopyPlan::kLoops];  // of a run, in vectors; of the loops
  std::uint32_t positions;

  Grid grid() const { return {ceil_divide(positions, kThreads), 1, 0}; }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    block.last([&](int thread) {
      const auto p = static_cast<std::uint32_t>(block.x() * kThreads + thread);
      if (p >= positions) return;
      std::uint32_t rest = length.quotient(p);
      std::int64_t a = from + std::int64_t{p - rest * length.by()} * V, b = to + std::int64_t{p - rest * length.by()} * V;
      OUTSIZE_UNROLL
      for (int loop = CopyPlan::kLoops - 1; loop >= 0; --loop) {
        const std::uint32_t above = count[loop].quotient(rest), index = rest - above * count[loop].by();
        a += index * from_stride[loop];
        b += index * to_stride[loop];
        rest = above;
      }
      f(a, b);
    });
  }
};

// What a box of one launch may have: positions are 32 bits.
std::int64_t runs_of(const CopyPlan& plan) {
  std::int64_t runs = 1;
  for (const std::int64_t count : plan.count) runs *= count;
  return runs;
}

// Calls body(part) for parts of the box of which each has few enough positions for a launch.
template <class Body>
void for_each_part(const CopyPlan& plan, std::int64_t v, const Body& body) {
  const std::int64_t vectors = plan.length / v;
  if (runs_of(plan) * vectors <= most_positions()) return body(plan);
  CopyPlan first = plan, second = plan;
  for (int loop = 0; loop < CopyPlan::kLoops; ++loop) {
    if (plan.count[loop] < 2) continue;
    const std::int64_t half = plan.count[loop] / 2;
    first.count[loop] = half;
    second.count[loop] -= half;
    second.from += half * plan.from_stride[loop];
    second.to += half * plan.to_stride[loop];
    for_each_part(first, v, body);
    return for_each_part(second, v, body);
  }
  first.length = vectors / 2 * v;
  second.length -= first.length;
  second.from += first.length;
  second.to += first.length;
  for_each_part(first, v, body);
  for_each_part(second, v, body);
}

// Whether all runs of the box begin at multiples of v elements and are as long, in memory that is aligned so.
template <class T>
bool takes_vectors(const CopyPlan& plan, int v, const std::byte* from, const std::byte* to) {
  std::int64_t all = plan.from | plan.to | plan.length;
  for (int loop = 0; loop < CopyPlan::kLoops; ++loop)
    if (plan.count[loop] > 1) all |= plan.from_stride[loop] | plan.to_stride[loop];
  return all % v == 0 && reinterpret_cast<std::uintptr_t>(from) % (sizeof(T) * static_cast<std::size_t>(v)) == 0 &&
         reinterpret_cast<std::uintptr_t>(to) % (sizeof(T) * static_cast<std::size_t>(v)) == 0;
}

template <int V, class F>
void run_box(const CopyPlan& plan, const F& f, void* queue) {
  for_each_part(plan, V, [&](const CopyPlan& part) {
    BoxProgram<V, F> program{f, part.from, part.to, {}, {}, Divide(part.length / V), {}, 0};
    for (int loop = 0; loop < CopyPlan::kLoops; ++loop) {
      program.from_stride[loop] = part.from_stride[loop];
      program.to_stride[loop] = part.to_stride[loop];
      program.count[loop] = Divide(part.count[loop]);
    }
    program.positions = static_cast<std::uint32_t>(runs_of(part) * (part.length / V));
    launch(program, program.grid(), queue);
  });
}

template <class T, int V>
struct Copy {
  const T* from;
  T* to;
  OUTSIZE_BOTH void operator()(std::int64_t a, std::int64_t b) const { store(to + b, load<V>(from + a)); }
};

template <class T, int V>
struct Sum {
  const T* from;
  T* to;
  OUTSIZE_BOTH void operator()(std::int64_t a, std::int64_t b) const {
    const Vector<T, V> part = load<V>(from + a);
    Vector<T, V> total = load<V>(static_cast<const T*>(to) + b);
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) total.of[j] += part.of[j];
    store(to + b, total);
  }
};

// F<T, V>, with V = `wide` where the box allows it, else 1.
template <template <class, int> class F, class T, int kWide>
void run_widest(const CopyPlan& plan, const std::byte* from, std::byte* to, void* queue) {
  const T* const source = reinterpret_cast<const T*>(from);
  T* const target = reinterpret_cast<T*>(to);
  if (takes_vectors<T>(plan, kWide, from, to))
    run_box<kWide>(plan, F<T, kWide>{source, target}, queue);
  else
    run_box<1>(plan, F<T, 1>{source, target}, queue);
}

// Of one channel (Chan, Golub and LeVeque, 1979).
struct Welford {
  const double* part;
  double* total;
  std::int64_t channels;
  OUTSIZE_BOTH void operator()(std::int64_t c) const {
    const double part_count = part[c];
    if (part_count == 0) return;
    double& count = total[c];
    double& mean = total[channels + c];
    const double both = count + part_count, delta = part[channels + c] - mean;
    mean += delta * (part_count / both);
    total[2 * channels + c] += part[2 * channels + c] + delta * delta * (count * part_count / both);
    count = both;
  }
};

}  // namespace

void copy_box(const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::byte* to, void* queue) {
  if (plan.length == 0 || runs_of(plan) == 0) return;
  switch (element_bytes) {
    case 1: return run_widest<Copy, std::uint8_t, 16>(plan, from, to, queue);
    case 4: return run_widest<Copy, std::uint32_t, 4>(plan, from, to, queue);
    case 8: return run_widest<Copy, std::uint64_t, 2>(plan, from, to, queue);
    default: internal_error("elements of {} bytes are not copied", element_bytes);
  }
}

void combine_box(Combine rule, const CopyPlan& plan, DType dtype, const std::byte* from, std::byte* to, void* queue) {
  if (plan.length == 0 || runs_of(plan) == 0) return;
  if (rule == Combine::sum && dtype == DType::f32) return run_widest<Sum, float, 4>(plan, from, to, queue);
  if (rule == Combine::sum && dtype == DType::f64) return run_widest<Sum, double, 2>(plan, from, to, queue);
  if (rule != Combine::welford || dtype != DType::f64 || plan.length % 3 != 0 || runs_of(plan) != 1 || plan.from != 0 ||
      plan.to != 0)
    internal_error("no way to combine {} elements of {} by rule {}", plan.length, name_of(dtype), static_cast<int>(rule));
  run_each(Welford{reinterpret_cast<const double*>(from), reinterpret_cast<double*>(to), plan.length / 3}, plan.length / 3, queue);
}

}  // namespace outsize::OUTSIZE_PLACE
