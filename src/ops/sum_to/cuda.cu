#include <optional>

#include "ops/cuda/each.h"
#include "ops/cuda/loops.h"
#include "ops/cuda/map.h"
#include "ops/cuda/reduce.h"
#include "ops/cuda/sums.h"

// Sums are taken in f32 over runs of at most 128 terms a lane, and in f64 beyond. Few long columns are reduced by the reduce
// family; everything else by one program, whose threads each add up some of the terms of a result, or of V results side by side.
namespace outsize::OUTSIZE_PLACE {
namespace {

// Elements of y that one launch makes at most. Few on the host, so that the cases of the tests have several launches.
#if defined(__CUDACC__)
constexpr std::int64_t kMostResults = std::int64_t{1} << 30;
#else
constexpr std::int64_t kMostResults = 500;
#endif

// Where the sums of a launch go: to y, or of a part of the terms to the workspace.
struct Results {
  float* y;
  double scale;
  Loops<2>::Walk kept;    // results, V at once; operand 0 is x, operand 1 is y
  std::int64_t step = 1;  // in y, from one of V results to the next
  bool by_vectors = false;

  template <int V>
  OUTSIZE_BOTH void write(std::uint32_t result, const double (&sums)[V]) const {
    std::int64_t offsets[2] = {};
    kept.add_offsets(result, offsets);
    Vector<float, V> values;
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) values.of[j] = static_cast<float>(scale * sums[j]);
    float* const to = y + offsets[1];
    if (by_vectors) return store(to, values);
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) to[j * step] = values.of[j];
  }
};

// kKeptInside: vectors are V results side by side; otherwise V terms of one. `lanes` threads, a power of two, share the terms.
template <int V, bool kKeptInside>
struct SumProgram {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 4;
  static constexpr int kUnroll = 4;
  static constexpr int kRun = 128;
  static constexpr int kSums = kKeptInside ? V : 1;

  const float* x;
  Results results;
  double* partials;  // [part][result]; null where there is one part
  Loops<1>::Walk summed;
  std::uint32_t count;      // results, or vectors of them
  std::uint32_t terms;      // or vectors of them
  std::uint32_t part_size;  // terms
  int lanes;

  Grid grid() const {
    return {ceil_divide(count, kThreads / lanes), ceil_divide(terms, part_size),
            lanes > 1 ? static_cast<std::int64_t>(kThreads * kSums * sizeof(double)) : 0};
  }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    double* const shared = reinterpret_cast<double*>(block.shared());
    const int slots = kThreads / lanes;
    const std::uint32_t first = static_cast<std::uint32_t>(block.x()) * slots;
    const auto part = static_cast<std::uint32_t>(block.y());
    block.each([&](int thread) {
      // Threads side by side read what lies side by side.
      const int slot = kKeptInside ? thread % slots : thread / lanes;
      const int lane = kKeptInside ? thread / slots : thread % lanes;
      double sums[kSums] = {};
      if (first + slot < count) add_up(sums, first + slot, part, lane);
      if (lanes == 1 && first + slot < count) write(part, first + slot, sums);
      if (lanes > 1)
        for (int j = 0; j < kSums; ++j) shared[j * kThreads + lane * slots + slot] = sums[j];
    });
    if (lanes == 1) return;
    for (int half = lanes / 2; half > 0; half /= 2)
      block.each([&](int thread) {
        if (thread >= half * slots) return;
        for (int j = 0; j < kSums; ++j) shared[j * kThreads + thread] += shared[j * kThreads + thread + half * slots];
      });
    block.last([&](int thread) {
      if (thread >= slots || first + thread >= count) return;
      double sums[kSums];
      for (int j = 0; j < kSums; ++j) sums[j] = shared[j * kThreads + thread];
      write(part, first + thread, sums);
    });
  }

 private:
  OUTSIZE_BOTH void add_up(double (&sums)[kSums], std::uint32_t result, std::uint32_t part, int lane) const {
    std::int64_t offsets[2] = {};
    results.kept.add_offsets(result, offsets);
    const float* const from = x + offsets[0];
    const std::uint32_t begin = part * part_size, end = terms - begin < part_size ? terms : begin + part_size;
    std::uint32_t term = begin + lane;
    while (term < end) {
      float run[V] = {};
      for (int n = 0; n < kRun && term < end; n += kUnroll, term += kUnroll * lanes) {
        Vector<float, V> values[kUnroll] = {};
        OUTSIZE_UNROLL
        for (int u = 0; u < kUnroll; ++u)
          if (const std::uint32_t t = term + u * lanes; t < end) {
            std::int64_t at[1] = {};
            summed.add_offsets(t, at);
            values[u] = load<V>(from + at[0]);
          }
        OUTSIZE_UNROLL
        for (int j = 0; j < V; ++j) {
          OUTSIZE_UNROLL
          for (int u = 0; u < kUnroll; ++u) run[j] += values[u].of[j];
        }
      }
      OUTSIZE_UNROLL
      for (int j = 0; j < V; ++j) sums[kKeptInside ? j : 0] += static_cast<double>(run[j]);
    }
  }
  OUTSIZE_BOTH void write(std::uint32_t part, std::uint32_t result, const double (&sums)[kSums]) const {
    if (partials == nullptr) return results.write(result, sums);
    OUTSIZE_UNROLL
    for (int j = 0; j < kSums; ++j) partials[(static_cast<std::int64_t>(part) * count + result) * kSums + j] = sums[j];
  }
};

// Adds the parts of a result in order.
struct AddParts {
  const double* partials;
  Results results;  // one by one
  std::int64_t count, parts;

  OUTSIZE_BOTH void operator()(std::int64_t i) const {
    double sums[1] = {};
    for (std::int64_t part = 0; part < parts; ++part) sums[0] += partials[part * count + i];
    results.write(static_cast<std::uint32_t>(i), sums);
  }
};

// The same by the reduce family.
struct Total {
  double sum = 0;
  OUTSIZE_BOTH void merge(const Total& other) { sum += other.sum; }
};
struct Column : WithoutFactors {
  static constexpr int kInputs = 1;
  using Partial = Total;
  struct Run {
    float sum;
    OUTSIZE_BOTH void start(float) { sum = 0; }
    OUTSIZE_BOTH void add(const float* x, NoFactors) { sum += x[0]; }
    OUTSIZE_BOTH void into(Total& total, int) const { total.sum += static_cast<double>(sum); }
  };
};
struct ColumnEnd {
  Results results;  // one by one
  OUTSIZE_BOTH void finish(int target, const Total& total) const {
    const double sums[1] = {total.sum};
    results.write(static_cast<std::uint32_t>(target), sums);
  }
};

class Sums final : public Kernel {
 public:
  Sums(const Call& call, const StorageRule& storage, const Reduction& reduction, double scale) : scale_(scale) {
    const Box& box = call.boxes.in[0];
    const Dims x_steps = stored_steps(storage, call.site.in(0), box);
    const Dims y_steps = stored_steps(storage, call.site.out(0), call.boxes.out[0]);
    for (const std::int64_t stored : stored_order(storage, call.site.in(0))) {
      const int dim = static_cast<int>(stored);
      if (reduction.sums(dim))
        summed_.add(box.extent(dim), {x_steps[dim]});
      else
        kept_.add(box.extent(dim), {x_steps[dim], y_steps[reduction.to(dim)]});
      if (box.extent(dim) > 1) kept_inside_ = !reduction.sums(dim);
    }
    columns_ = columns();
    if (summed_.positions() > kMostPositions && !columns_)
      user_error("op {}: a sum of {} terms, which do not follow each other, is too long for a kernel of the card",
                 call.site.op.name, summed_.positions());
    if (columns_ && !columns_fit(*columns_)) columns_.reset();
    workspace_ = columns_ ? reduce_workspace<Column>(*columns_) : std::max(geometry(1).workspace, geometry(4).workspace);
  }
  std::int64_t workspace_bytes() const override { return workspace_; }
  std::string name() const override { return columns_ ? "reduce" : "sums"; }

  void run(const KernelRun& run) const override {
    const float* const x = in<float>(run, 0);
    float* const y = out<float>(run, 0);
    if (columns_) {
      const ColumnEnd end{{y, scale_, kept_.walk(), 1, false}};
      return run_reduce(Column(), end, {x}, *columns_, run.workspace, run.queue);
    }
    kept_.for_each_part(kMostResults, [&](const Loops<2>& kept, const std::array<std::int64_t, 2>& from) {
      const bool vectors = takes_vectors(kept) && aligned<4>(x + from[0]);
      const auto start = [&]<int V, bool kKeptInside>() { start_part<V, kKeptInside>(kept, x + from[0], y + from[1], run); };
      if (kept_inside_)
        vectors ? start.template operator()<4, true>() : start.template operator()<1, true>();
      else
        vectors ? start.template operator()<4, false>() : start.template operator()<1, false>();
    });
  }

 private:
  // How results and terms are dealt out to threads.
  struct Geometry {
    int lanes = 1;
    std::int64_t part_size = 1;
    std::int64_t parts = 1;
    std::int64_t workspace = 0;
  };

  // What the reduce family would be given, where x is [batch, terms, results], terms in rows of the results, or terms alone.
  std::optional<ReduceShape> columns() const {
    if (summed_.depth() != 1) return std::nullopt;
    const std::int64_t terms = summed_.extent(0);
    if (kept_.depth() == 0) return ReduceShape{1, {terms, 1}, 1};
    const int inner = kept_.depth() - 1;
    const std::int64_t results = kept_.extent(inner);
    if (!kept_inside_ || inner > 1 || kept_.step(0, inner) != 1 || summed_.step(0, 0) != results) return std::nullopt;
    if (inner == 1 && kept_.step(0, 0) != terms * results) return std::nullopt;
    return ReduceShape{inner == 1 ? kept_.extent(0) : 1, {terms, results}, 1};
  }
  // Whether the reduce family is fast there: with many results there is no need of two stages, unless the columns are narrow.
  static bool columns_fit(const ReduceShape& shape) {
    constexpr std::int64_t kLong = 64, kNarrow = 32, kMostBlocks = 65535;
    const std::int64_t width = shape.sheet.channels;
    if (width >= (1 << 24) || shape.targets() >= kMostPositions || shape.sheet.positions < kLong) return false;
    if (ceil_divide(width, ReduceProgram<Column, 1>::kMostWide) * shape.batches > kMostBlocks) return false;
    return width < kNarrow || shape.targets() < std::int64_t{multiprocessors()} * 2048;
  }

  // Whether four results, or four terms, side by side can be loaded at once.
  bool takes_vectors(const Loops<2>& kept) const {
    bool fits = true;
    for (int i = 0; i < kept.depth(); ++i) {
      const bool inner = kept_inside_ && i == kept.depth() - 1;
      fits = fits && (inner ? kept.step(0, i) == 1 && kept.extent(i) % 4 == 0 : kept.step(0, i) % 4 == 0);
    }
    for (int i = 0; i < summed_.depth(); ++i) {
      const bool inner = !kept_inside_ && i == summed_.depth() - 1;
      fits = fits && (inner ? summed_.step(0, i) == 1 && summed_.extent(i) % 4 == 0 : summed_.step(0, i) % 4 == 0);
    }
    return fits && (kept_inside_ ? kept.depth() : summed_.depth()) > 0;
  }

  Geometry geometry(int v) const {
    constexpr int kUnroll = SumProgram<1, true>::kUnroll;
    const std::int64_t count = ceil_divide(kept_.positions(), kept_inside_ ? v : 1);
    const std::int64_t terms = ceil_divide(summed_.positions(), kept_inside_ ? 1 : v);
    const std::int64_t threads = std::int64_t{multiprocessors()} * 1024;
    Geometry found;
    // Where terms are side by side, as many threads read them, up to a row of 32.
    const std::int64_t side_by_side = kept_inside_ || summed_.depth() == 0 ? 1 : summed_.extent(summed_.depth() - 1) / v;
    while (found.lanes < 32 && found.lanes < side_by_side) found.lanes *= 2;
    const int most = kept_inside_ ? 32 : 256;
    while (found.lanes < most && found.lanes * 2 * kUnroll <= terms && count * found.lanes < threads) found.lanes *= 2;
    const std::int64_t blocks = ceil_divide(count, 256 / found.lanes);
    const std::int64_t worth = terms / (found.lanes * kUnroll * 4);  // parts that still have enough terms
    const std::int64_t wanted = std::int64_t{multiprocessors()} * 4 / blocks;
    found.part_size = ceil_divide(terms, std::max<std::int64_t>(1, std::min(worth, wanted)));
    found.parts = ceil_divide(terms, found.part_size);
    if (found.parts > 1) found.workspace = found.parts * count * (kept_inside_ ? v : 1) * size_of(DType::f64);
    return found;
  }

  template <int V, bool kKeptInside>
  void start_part(const Loops<2>& kept, const float* x, float* y, const KernelRun& run) const {
    const Geometry shape = geometry(V);
    const Loops<2> by_vectors = kept.by_vectors(kKeptInside ? V : 1);
    const int inner = kept.depth() - 1;
    Results results{y, scale_, by_vectors.walk(), kept.depth() > 0 ? kept.step(1, inner) : 1, false};
    if (kKeptInside && V > 1) {
      results.by_vectors = results.step == 1 && aligned<4>(y);
      for (int i = 0; i < inner; ++i) results.by_vectors = results.by_vectors && kept.step(1, i) % 4 == 0;
    }
    const Loops<1> terms = summed_.by_vectors(kKeptInside ? 1 : V);
    double* const partials = shape.parts > 1 ? reinterpret_cast<double*>(run.workspace) : nullptr;
    const SumProgram<V, kKeptInside> program{x,
                                             results,
                                             partials,
                                             terms.walk(),
                                             static_cast<std::uint32_t>(by_vectors.positions()),
                                             static_cast<std::uint32_t>(terms.positions()),
                                             static_cast<std::uint32_t>(shape.part_size),
                                             shape.lanes};
    launch(program, program.grid(), run.queue);
    if (shape.parts > 1)
      run_each(AddParts{partials, {y, scale_, kept.walk(), 1, false}, kept.positions(), shape.parts}, kept.positions(), run.queue);
  }

  Loops<2> kept_;    // operand 0 is x, operand 1 is y
  Loops<1> summed_;  // of x
  bool kept_inside_ = true;
  double scale_;
  std::optional<ReduceShape> columns_;  // where the reduce family takes the call
  std::int64_t workspace_ = 0;
};

std::unique_ptr<Kernel> make_sum_to(const Call& call, const StorageRule& storage) {
  return make_sums(call, storage, reduction_to(call.site.in(0), call.site.out(0)), 1);
}

}  // namespace

std::unique_ptr<Kernel> make_sums(const Call& call, const StorageRule& storage, const Reduction& reduction, double scale) {
  expect_card_call(call, storage);
  if (has_empty_input(call)) return make_zeros(call, storage);
  return std::make_unique<Sums>(call, storage, reduction, scale);
}

void cuda_sum_to(KernelTable& table) { table.add("sum_to", make_sum_to); }

}  // namespace outsize::OUTSIZE_PLACE
