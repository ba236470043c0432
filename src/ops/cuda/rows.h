#pragma once

#include <algorithm>
#include <array>

#include "ops/cuda/support.h"

// The rows family: y = f(x, what its row adds up to). A row is reduced by a group of threads, several rows a block where they are
// short, a block a row where they are long. What a thread reads first it keeps; what lies beyond it reads twice.
//
// A functor has
//   static constexpr int kInputs, kOutputs                       kOutputs may be 0: then only finish() says what comes out
//   struct Line;  Line line(std::int64_t row) const              what is known of a row before it is read, its label for instance
//   int visible(const Line& line) const                          columns from there on are not read, they are 0 then
//   struct Partial { void merge(const Partial& other); }         what elements add up to; a default-constructed one is neutral
//   void add(Partial& partial, const Batch& batch, const Line& line) const         any RowBatch
//   struct Row;  Row row(const Partial& all, const Line& line) const               what the elements of a row are made with
//   void write(const Vector<float, V>* x, int column, const Row& row, Vector<float, V>* y) const
//                                                                y[output] of V columns from x[input] of the same, V is 1 or 4
//   void finish(std::int64_t row, const Row& row) const          once a row
//   bool vectors() const                                         whether V may be 4, for what the functor reads by itself
// all of them but the last OUTSIZE_BOTH. PlainRows has those that many need not.
namespace outsize::OUTSIZE_PLACE {

// Where rows lie: element c of row r at (r / inner) · pitch + r % inner + c · inner.
struct RowShape {
  std::int64_t rows = 0;
  std::int64_t width = 0;  // elements a row
  std::int64_t pitch = 0;  // elements from a row to the next; from `inner` rows to the next so many
  std::int64_t inner = 1;  // rows that lie side by side, so that the elements of each are as far apart

  RowShape(std::int64_t row_count, std::int64_t row_width, std::int64_t side_by_side = 1)
      : rows(row_count), width(row_width), pitch(row_width * side_by_side), inner(side_by_side) {}
};

// Base of functors that know nothing of a row before it is read, read all of it, and write elements only.
struct PlainRows {
  struct Line {};
  OUTSIZE_BOTH Line line(std::int64_t) const { return {}; }
  template <class L>
  OUTSIZE_BOTH int visible(const L&) const {
    return 0x7FFFFFFF;
  }
  template <class Row>
  OUTSIZE_BOTH void finish(std::int64_t, const Row&) const {}
  bool vectors() const { return true; }
};

// What a thread holds of a row at once: K vectors of V neighbouring columns, of each input. Those that has() denies are beyond the
// row, and hold nothing.
template <int kInputs, int K, int V>
struct RowBatch {
  static constexpr int kVectors = K;
  static constexpr int kWide = V;
  Vector<float, V> x[K][kInputs];
  int first;  // column of the first vector
  int step;   // columns from one vector to the next
  int width;  // columns of the row

  OUTSIZE_BOTH int column(int k) const { return first + k * step; }
  OUTSIZE_BOTH bool has(int k) const { return column(k) < width; }
};

// Reduces rows: what the programs below have in common.
template <class F, int V>
struct RowReader {
  static constexpr int kThreads = 256;
  static constexpr int K = V == 4 ? 4 : 8;
  using Partial = typename F::Partial;
  using Line = typename F::Line;
  using Batch = RowBatch<F::kInputs, K, V>;

  F f;
  const float* in[F::kInputs];
  std::int64_t rows, pitch, inner;
  int width;
  int lanes;  // threads a row, a power of two; neighbours where the elements of a row are neighbours, `high` apart otherwise
  int high;   // rows a block

  RowReader(const F& functor, const std::array<const float*, F::kInputs>& inputs, const RowShape& shape)
      : f(functor), rows(shape.rows), pitch(shape.pitch), inner(shape.inner), width(static_cast<int>(shape.width)), lanes(1) {
    std::copy(inputs.begin(), inputs.end(), in);
    // Lanes that read a sector of 32 bytes, then as many as keep the row, or as give every multiprocessor work. Rows that lie side
    // by side are read side by side: they take few lanes each.
    constexpr int kLeast = 8 / V;
    const std::int64_t vectors = ceil_divide(width, V), enough = inner > 1 ? 8 : kThreads;
    const auto wants_more = [&] {
      return (inner == 1 && lanes < kLeast) || (lanes * K < vectors && lanes < enough) ||
             ceil_divide(rows, kThreads / lanes) < multiprocessors();
    };
    while (lanes < kThreads && lanes < vectors && wants_more()) lanes *= 2;
    high = kThreads / lanes;
  }

  OUTSIZE_BOTH int lane_of(int thread) const { return inner == 1 ? thread & (lanes - 1) : thread / high; }
  OUTSIZE_BOTH int row_of(int thread) const { return inner == 1 ? thread / lanes : thread & (high - 1); }
  // The thread of lane 0 of the same row.
  OUTSIZE_BOTH int leader_of(int thread) const { return inner == 1 ? thread & ~(lanes - 1) : thread & (high - 1); }

  OUTSIZE_BOTH std::int64_t begin(std::int64_t row) const { return inner == 1 ? row * pitch : row / inner * pitch + row % inner; }
  // Columns that a row's threads take at once.
  OUTSIZE_BOTH int stride() const { return K * V * lanes; }

  OUTSIZE_BOTH void read(Batch& batch, std::int64_t at, int first, int visible) const {
    batch.first = first;
    batch.step = V * lanes;
    batch.width = width;
    OUTSIZE_UNROLL
    for (int k = 0; k < K; ++k) {
      const int column = batch.column(k);
      OUTSIZE_UNROLL
      for (int i = 0; i < F::kInputs; ++i) {
        if (column < width && column < visible)
          batch.x[k][i] = load<V>(in[i] + at + column * inner);
        else
          batch.x[k][i] = {};
      }
    }
  }

  // What a thread's elements of a row add up to; the first batch stays in `kept`.
  OUTSIZE_BOTH Partial reduce(std::int64_t row, int thread, const Line& line, Batch& kept) const {
    Partial all;
    const std::int64_t at = begin(row);
    const int visible = f.visible(line);
    int first = lane_of(thread) * V;
    read(kept, at, first, visible);
    f.add(all, kept, line);
    for (first += stride(); first < width && first < visible; first += stride()) {
      Batch more;
      read(more, at, first, visible);
      f.add(all, more, line);
    }
    return all;
  }

  // Merges what the lanes of each row have to that of lane 0, in a fixed order.
  template <class Block>
  OUTSIZE_BOTH void merge(Block& block, Partial* shared) const {
    const int step = inner == 1 ? 1 : high;
    for (int left = lanes; left > 1; left = (left + 3) / 4) {
      const int quarter = (left + 3) / 4;
      block.each([&](int thread) {
        const int lane = lane_of(thread);
        if (lane >= quarter) return;
        for (int other = lane + quarter; other < left; other += quarter)
          shared[thread].merge(shared[thread + (other - lane) * step]);
      });
    }
  }
};

template <class F, int V>
struct RowsProgram {
  using Reader = RowReader<F, V>;
  static constexpr int kThreads = Reader::kThreads;
  static constexpr int kBlocks = F::kInputs > 1 ? 3 : 4;

  Reader reader;
  float* out[F::kOutputs > 0 ? F::kOutputs : 1];

  Grid grid() const {
    return {ceil_divide(reader.rows, reader.high), 1, static_cast<std::int64_t>(kThreads * sizeof(typename F::Partial))};
  }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    struct Kept {
      typename Reader::Batch batch;
      typename F::Line line;
    };
    typename Block::template Own<Kept> own;
    auto* const shared = reinterpret_cast<typename F::Partial*>(block.shared());
    block.each([&](int thread) {
      const std::int64_t row = block.x() * reader.high + reader.row_of(thread);
      if (row >= reader.rows) return;
      Kept& kept = own[thread];
      kept.line = reader.f.line(row);
      shared[thread] = reader.reduce(row, thread, kept.line, kept.batch);
    });
    // Rows beyond the last have nothing: what is merged for them nobody reads.
    reader.merge(block, shared);
    block.last([&](int thread) {
      const std::int64_t row = block.x() * reader.high + reader.row_of(thread);
      if (row >= reader.rows) return;
      Kept& kept = own[thread];
      const typename F::Row made = reader.f.row(shared[reader.leader_of(thread)], kept.line);
      if (reader.lane_of(thread) == 0) reader.f.finish(row, made);
      if constexpr (F::kOutputs > 0) {
        const std::int64_t at = reader.begin(row);
        write(kept.batch, at, made);
        for (int first = reader.lane_of(thread) * V + reader.stride(); first < reader.width; first += reader.stride()) {
          typename Reader::Batch batch;
          reader.read(batch, at, first, reader.f.visible(kept.line));
          write(batch, at, made);
        }
      }
    });
  }

 private:
  OUTSIZE_BOTH void write(const typename Reader::Batch& batch, std::int64_t at, const typename F::Row& made) const {
    OUTSIZE_UNROLL
    for (int k = 0; k < Reader::K; ++k) {
      if (!batch.has(k)) continue;
      Vector<float, V> y[F::kOutputs > 0 ? F::kOutputs : 1];
      reader.f.write(batch.x[k], batch.column(k), made, y);
      OUTSIZE_UNROLL
      for (int i = 0; i < F::kOutputs; ++i) store(out[i] + at + batch.column(k) * reader.inner, y[i]);
    }
  }
};

// Whether rows may be read in vectors of 4 columns.
template <class... Pointers>
bool rows_fit_vectors(const RowShape& shape, Pointers... pointers) {
  return shape.inner == 1 && shape.width % 4 == 0 && shape.pitch % 4 == 0 && aligned<4>(pointers...);
}

// Puts y = f(x, what a row adds up to) into the stream, and finish() of every row. Inputs and outputs may be the same memory: an
// element is read before it is written, by the thread that writes it.
template <class F>
void run_rows(const F& f, const std::array<const float*, F::kInputs>& in, const std::array<float*, F::kOutputs>& out,
              const RowShape& shape, void* queue) {
  if (shape.rows == 0 || shape.width == 0) return;
  OUTSIZE_CHECK(shape.width < kMostPositions);
  bool vectors = f.vectors() && rows_fit_vectors(shape);
  for (const float* pointer : in) vectors = vectors && aligned<4>(pointer);
  for (const float* pointer : out) vectors = vectors && aligned<4>(pointer);
  const auto start = [&]<int V>() {
    RowsProgram<F, V> program{RowReader<F, V>(f, in, shape), {}};
    std::copy(out.begin(), out.end(), program.out);
    launch(program, program.grid(), queue);
  };
  vectors ? start.template operator()<4>() : start.template operator()<1>();
}

// Adds up a number a row, which a functor with kOutputs = 0 gives by
//   double total(const Row& row) const
// to one a block: blocks take rows in turn, and add them in their order.
template <class F, int V>
struct RowTotalsProgram {
  using Reader = RowReader<F, V>;
  static constexpr int kThreads = Reader::kThreads;
  static constexpr int kBlocks = 4;

  Reader reader;
  double* totals;  // of the blocks

  static std::int64_t most_blocks() { return std::int64_t{multiprocessors()} * kBlocks; }
  Grid grid() const {
    return {std::min(ceil_divide(reader.rows, reader.high), most_blocks()), 1,
            static_cast<std::int64_t>(kThreads * std::max(sizeof(typename F::Partial), sizeof(double)))};
  }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    typename Block::template Own<typename F::Line> lines;
    typename Block::template Own<double> total;
    auto* const shared = reinterpret_cast<typename F::Partial*>(block.shared());
    block.each([&](int thread) { total[thread] = 0; });
    for (std::int64_t first = block.x() * reader.high; first < reader.rows; first += block.blocks_along_x() * reader.high) {
      block.each([&](int thread) {
        const std::int64_t row = first + reader.row_of(thread);
        if (row >= reader.rows) return;
        lines[thread] = reader.f.line(row);
        typename Reader::Batch batch;
        shared[thread] = reader.reduce(row, thread, lines[thread], batch);
      });
      reader.merge(block, shared);
      block.each([&](int thread) {
        if (reader.lane_of(thread) == 0 && first + reader.row_of(thread) < reader.rows)
          total[thread] += reader.f.total(reader.f.row(shared[thread], lines[thread]));
      });
    }
    double* const sums = reinterpret_cast<double*>(block.shared());
    block.each([&](int thread) { sums[thread] = total[thread]; });
    add_in_order(block, sums);
    block.last([&](int thread) {
      if (thread == 0) totals[block.x()] = sums[0];
    });
  }

  // Adds up a number a thread to that of thread 0.
  template <class Block>
  OUTSIZE_BOTH static void add_in_order(Block& block, double* sums) {
    for (int left = kThreads; left > 1; left /= 4)
      block.each([&](int thread) {
        const int quarter = left / 4;
        if (thread < quarter) sums[thread] += sums[thread + quarter] + sums[thread + 2 * quarter] + sums[thread + 3 * quarter];
      });
  }
};

// Adds up what the blocks have: end(sum) by one thread.
template <class E>
struct AddTotalsProgram {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 1;

  E end;
  const double* totals;
  std::int64_t count;

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    double* const sums = reinterpret_cast<double*>(block.shared());
    block.each([&](int thread) {
      double sum = 0;
      for (std::int64_t i = thread; i < count; i += kThreads) sum += totals[i];
      sums[thread] = sum;
    });
    for (int half = kThreads / 2; half > 0; half /= 2)
      block.each([&](int thread) {
        if (thread < half) sums[thread] += sums[thread + half];
      });
    block.last([&](int thread) {
      if (thread == 0) end(sums[0]);
    });
  }
};

// The bytes of workspace that run_row_totals() takes.
template <class F>
std::int64_t row_totals_workspace() {
  return RowTotalsProgram<F, 1>::most_blocks() * static_cast<std::int64_t>(sizeof(double));
}

// Puts end(the sum of f.total() over all rows) into the stream; the order of the additions is fixed by the shape and the card.
// E: void operator()(double sum) const, OUTSIZE_BOTH.
template <class F, class E>
void run_row_totals(const F& f, const E& end, const std::array<const float*, F::kInputs>& in, const RowShape& shape,
                    std::byte* workspace, void* queue) {
  static_assert(F::kOutputs == 0);
  OUTSIZE_CHECK(shape.width < kMostPositions);
  double* const totals = reinterpret_cast<double*>(workspace);
  bool vectors = f.vectors() && rows_fit_vectors(shape);
  for (const float* pointer : in) vectors = vectors && aligned<4>(pointer);
  std::int64_t blocks = 0;
  const auto start = [&]<int V>() {
    const RowTotalsProgram<F, V> program{RowReader<F, V>(f, in, shape), totals};
    launch(program, program.grid(), queue);
    blocks = program.grid().x;
  };
  if (shape.rows > 0 && shape.width > 0) vectors ? start.template operator()<4>() : start.template operator()<1>();
  launch(AddTotalsProgram<E>{end, totals, blocks},
         {1, 1, AddTotalsProgram<E>::kThreads * static_cast<std::int64_t>(sizeof(double))}, queue);
}

// Σ e^x as its largest x and the sum relative to that: nothing overflows. A NaN makes the sum NaN, so does an x of +∞.
struct ExponentialSum {
  float most = -INFINITY;
  double sum = 0;

  OUTSIZE_BOTH void merge(const ExponentialSum& other) {
    const bool higher = other.most > most;
    const float low = higher ? most : other.most, high = higher ? other.most : most;
    const float factor = low == -INFINITY ? 0.0f : expf(low - high);  // of the sum that is relative to `low`
    sum = higher ? sum * factor + other.sum : sum + other.sum * factor;
    most = high;
  }
  // Adds elements; those that are −∞ add nothing.
  template <int N>
  OUTSIZE_BOTH void add(const float (&x)[N]) {
    float high = -INFINITY;
    OUTSIZE_UNROLL
    for (int i = 0; i < N; ++i) high = x[i] > high ? x[i] : high;
    const float base = high == -INFINITY ? 0.0f : high;
    float relative = 0;
    OUTSIZE_UNROLL
    for (int i = 0; i < N; ++i) relative += expf(x[i] - base);
    merge({high, relative});
  }
  // Whether nothing was added but −∞.
  OUTSIZE_BOTH bool nothing() const { return most == -INFINITY && sum == 0; }
  OUTSIZE_BOTH double log_sum() const { return most + log(sum); }
};

// The elements of a batch of one input's, −∞ where it has none.
template <class Batch>
OUTSIZE_BOTH void elements_or_nothing(const Batch& batch, int input, float (&x)[Batch::kVectors * Batch::kWide]) {
  OUTSIZE_UNROLL
  for (int k = 0; k < Batch::kVectors; ++k) {
    OUTSIZE_UNROLL
    for (int j = 0; j < Batch::kWide; ++j) x[k * Batch::kWide + j] = batch.has(k) ? batch.x[k][input].of[j] : -INFINITY;
  }
}

}  // namespace outsize::OUTSIZE_PLACE
