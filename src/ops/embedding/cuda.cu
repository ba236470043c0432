#include "ops/cuda/sort.h"
#include "ops/plain_rows.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// How the threads of a block lie over rows of vectors: `wide` of them, a power of two, side by side, `high` rows of them.
template <int V>
struct RowThreads {
  static constexpr int kThreads = 256;

  std::int64_t width;  // elements of a row
  int wide = 1;
  int high = kThreads;

  explicit RowThreads(std::int64_t elements) : width(elements) {
    while (wide < kThreads && wide * V < width) wide *= 2;
    high = kThreads / wide;
  }
  // Blocks side by side.
  std::int64_t across() const { return ceil_divide(width, std::int64_t{wide} * V); }
};

// Row i of y is the row of the table that id i names, or zeros.
template <int V>
struct GatherProgram {
  static constexpr int kThreads = RowThreads<V>::kThreads;
  static constexpr int kBlocks = 4;
  static constexpr int kRows = 4;  // that a thread has in flight

  RowThreads<V> threads;
  const std::int32_t* ids;
  const float* table;
  float* y;
  std::int64_t count, entries;

  Grid grid() const { return {ceil_divide(count, threads.high * kRows), threads.across(), 0}; }
  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    block.last([&](int thread) {
      const std::int64_t column = (block.y() * threads.wide + thread % threads.wide) * V;
      if (column >= threads.width) return;
      const std::int64_t first = block.x() * threads.high * kRows + thread / threads.wide;
      Vector<float, V> rows[kRows];
      OUTSIZE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const std::int64_t i = first + r * threads.high;
        const std::int64_t id = i < count ? ids[i] : -1;
        if (id >= 0 && id < entries)
          rows[r] = load<V>(table + id * threads.width + column);
        else
          rows[r] = {};
      }
      OUTSIZE_UNROLL
      for (int r = 0; r < kRows; ++r)
        if (const std::int64_t i = first + r * threads.high; i < count) store(y + i * threads.width + column, rows[r]);
    });
  }
};

// An id as it is sorted: those outside the table come last.
struct EntryOf {
  const std::int32_t* ids;
  std::uint32_t entries;
  OUTSIZE_BOTH std::uint32_t operator()(std::uint32_t i) const {
    const auto id = static_cast<std::uint32_t>(ids[i]);
    return id < entries ? id : entries;
  }
};

// The rows of dy in the order of their entries, in chunks. A run of rows of one entry that lies within a chunk is added up there,
// in order. Where it goes on, each chunk has a part of it: that of the run that began before at 2 · chunk of `parts`, that of the
// run which begins in it at 2 · chunk + 1.
struct Chunks {
  SortElements rows;
  std::uint32_t count;    // rows
  std::uint32_t entries;  // of the table
  std::uint32_t size;     // rows a chunk

  OUTSIZE_BOTH std::uint32_t begin(std::int64_t chunk) const { return static_cast<std::uint32_t>(chunk) * size; }
  OUTSIZE_BOTH std::uint32_t end(std::int64_t chunk) const { return count - begin(chunk) < size ? count : begin(chunk) + size; }
  // Whether row i begins a run, and whether it ends one.
  OUTSIZE_BOTH bool begins(std::uint32_t i) const { return i == 0 || rows.keys[i - 1] != rows.keys[i]; }
  OUTSIZE_BOTH bool ends(std::uint32_t i) const { return i + 1 == count || rows.keys[i + 1] != rows.keys[i]; }
};

template <int V>
struct AddChunksProgram {
  static constexpr int kThreads = RowThreads<V>::kThreads;
  static constexpr int kBlocks = 4;
  static constexpr int kRows = 4;  // that a thread has in flight

  RowThreads<V> threads;
  Chunks chunks;
  std::int64_t chunk_count;
  const float* dy;
  float* dtable;
  float* parts;

  Grid grid() const { return {ceil_divide(chunk_count, threads.high), threads.across(), 0}; }
  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    block.last([&](int thread) {
      const std::int64_t column = (block.y() * threads.wide + thread % threads.wide) * V;
      const std::int64_t chunk = block.x() * threads.high + thread / threads.wide;
      if (column >= threads.width || chunk >= chunk_count) return;
      const std::uint32_t begin = chunks.begin(chunk), end = chunks.end(chunk);
      bool before = !chunks.begins(begin);  // whether the run began before the chunk
      Vector<float, V> sum{};
      for (std::uint32_t first = begin; first < end && chunks.rows.keys[first] < chunks.entries; first += kRows) {
        Vector<float, V> rows[kRows];
        OUTSIZE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const std::uint32_t i = first + r < end ? first + r : end - 1;
          rows[r] = load<V>(dy + std::int64_t{chunks.rows.places[i]} * threads.width + column);
        }
        OUTSIZE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const std::uint32_t i = first + r;
          if (i >= end) continue;
          OUTSIZE_UNROLL
          for (int j = 0; j < V; ++j) sum.of[j] += rows[r].of[j];
          const bool ends = chunks.ends(i);
          if (!ends && i + 1 < end) continue;
          const std::uint32_t entry = chunks.rows.keys[i];
          if (entry < chunks.entries) {
            if (before)
              store(parts + 2 * chunk * threads.width + column, sum);
            else
              store(ends ? dtable + entry * threads.width + column : parts + (2 * chunk + 1) * threads.width + column, sum);
          }
          before = false;
          sum = {};
        }
      }
    });
  }
};

// Adds up the parts of each run that goes on after the chunk it begins in.
template <int V>
struct AddPartsProgram {
  static constexpr int kThreads = RowThreads<V>::kThreads;
  static constexpr int kBlocks = 4;

  RowThreads<V> threads;
  Chunks chunks;
  std::int64_t chunk_count;
  float* dtable;
  const float* parts;

  Grid grid() const { return {ceil_divide(chunk_count, threads.high), threads.across(), 0}; }
  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    block.last([&](int thread) {
      const std::int64_t column = (block.y() * threads.wide + thread % threads.wide) * V;
      std::int64_t chunk = block.x() * threads.high + thread / threads.wide;
      if (column >= threads.width || chunk >= chunk_count) return;
      const std::uint32_t begin = chunks.begin(chunk), last = chunks.end(chunk) - 1;
      const std::uint32_t entry = chunks.rows.keys[last];
      if (entry >= chunks.entries || chunks.ends(last)) return;
      if (chunks.rows.keys[begin] == entry && !chunks.begins(begin)) return;  // it began before: not this chunk's
      double sum[V] = {};
      add(sum, load<V>(parts + (2 * chunk + 1) * threads.width + column));
      do {
        ++chunk;
        add(sum, load<V>(parts + 2 * chunk * threads.width + column));
      } while (chunk + 1 < chunk_count && chunks.rows.keys[chunks.end(chunk)] == entry);
      Vector<float, V> result;
      OUTSIZE_UNROLL
      for (int j = 0; j < V; ++j) result.of[j] = static_cast<float>(sum[j]);
      store(dtable + entry * threads.width + column, result);
    });
  }

 private:
  OUTSIZE_BOTH static void add(double (&sum)[V], const Vector<float, V>& part) {
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) sum[j] += part.of[j];
  }
};

// What the gradient of a call is made with.
struct GradShape {
  std::int64_t ids, entries, width;
  std::uint32_t chunk;  // rows
  Sort sort;

  explicit GradShape(const Call& call)
      : ids(call.boxes.in[1].elements()),
        entries(call.boxes.out[0].extent(0)),
        width(call.boxes.out[0].extent(1)),
        chunk(kMostRows),
        sort(ids, entries) {
    // Shorter where that gives every multiprocessor work.
    const RowThreads<4> threads(width);
    while (chunk > kFewRows && chunks() * threads.across() < 8 * std::int64_t{multiprocessors()} * threads.high) chunk /= 2;
  }
  std::int64_t chunks() const { return ceil_divide(ids, chunk); }
  std::int64_t workspace_bytes() const { return sort.workspace_bytes() + 2 * chunks() * width * size_of(DType::f32); }

 private:
  static constexpr std::uint32_t kFewRows = 16, kMostRows = 128;
};

template <int V>
void run_grad(const GradShape& shape, const KernelRun& run) {
  const auto count = static_cast<std::uint32_t>(shape.ids), entries = static_cast<std::uint32_t>(shape.entries);
  const float* const dy = in<float>(run, 0);
  float* const dtable = out<float>(run, 0);
  float* const parts = reinterpret_cast<float*>(run.workspace + shape.sort.workspace_bytes());
  const SortElements rows = shape.sort.run(EntryOf{in<std::int32_t>(run, 1), entries}, run.workspace, run.queue);
  fill_zero(dtable, shape.entries * shape.width * size_of(DType::f32), run.queue);
  const Chunks chunks{rows, count, entries, shape.chunk};
  const RowThreads<V> threads(shape.width);
  const AddChunksProgram<V> in_chunks{threads, chunks, shape.chunks(), dy, dtable, parts};
  launch(in_chunks, in_chunks.grid(), run.queue);
  const AddPartsProgram<V> beyond{threads, chunks, shape.chunks(), dtable, parts};
  launch(beyond, beyond.grid(), run.queue);
}

std::unique_ptr<Kernel> make_forward(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const std::int64_t count = call.boxes.in[0].elements(), entries = call.boxes.in[1].extent(0), width = call.boxes.in[1].extent(1);
  if (call.boxes.out[0].empty()) return make_nothing();
  return make_kernel("gather", 0, [=](const KernelRun& run) {
    const float* const table = in<float>(run, 1);
    float* const y = out<float>(run, 0);
    const auto start = [&]<int V>() {
      const GatherProgram<V> program{RowThreads<V>(width), in<std::int32_t>(run, 0), table, y, count, entries};
      launch(program, program.grid(), run.queue);
    };
    width % 4 == 0 && aligned<4>(table, y) ? start.template operator()<4>() : start.template operator()<1>();
  });
}

std::unique_ptr<Kernel> make_grad(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  if (has_empty_input(call)) return make_zeros(call, storage);
  const GradShape shape(call);
  return make_kernel("sorted rows", shape.workspace_bytes(), [=](const KernelRun& run) {
    const bool vectors = shape.width % 4 == 0 && aligned<4>(in<float>(run, 0), out<float>(run, 0));
    vectors ? run_grad<4>(shape, run) : run_grad<1>(shape, run);
  });
}

}  // namespace

void cuda_embedding(KernelTable& table) {
  table.add("embedding", make_forward);
  table.add("embedding_grad", make_grad);
}

}  // namespace outsize::OUTSIZE_PLACE
