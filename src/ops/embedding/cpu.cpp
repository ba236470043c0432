#include <cstring>

#include "ops/cpu_support.h"
#include "ops/plain_rows.h"
#include "ops/registry.h"

namespace outsize {
namespace {

const std::int32_t* i32(const std::byte* data) { return reinterpret_cast<const std::int32_t*>(data); }

struct Extents {
  std::int64_t ids;
  std::int64_t entries;  // of the table
  std::int64_t width;    // of a row
};

class Embedding final : public Kernel {
 public:
  explicit Embedding(const Extents& extents) : e_(extents) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const std::int32_t* const ids = i32(run.in[0]);
    const float* const table = f32(run.in[1]);
    float* const y = f32(run.out[0]);
    const std::size_t bytes = static_cast<std::size_t>(e_.width) * sizeof(float);
    parallel_for(e_.ids, 2 * e_.ids * e_.width * 4, [&](std::int64_t i) {
      const std::int64_t id = ids[i];
      if (id >= 0 && id < e_.entries)
        std::memcpy(y + i * e_.width, table + id * e_.width, bytes);
      else
        std::memset(y + i * e_.width, 0, bytes);
    });
  }

 private:
  Extents e_;
};

OUTSIZE_CLONES void add_row(const float* from, float* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

// The rows of dy are sorted by id first, as one chain for every entry of the table in the order of the rows: so entries can be
// summed by any thread, always in the same order.
class EmbeddingGrad final : public Kernel {
 public:
  explicit EmbeddingGrad(const Extents& extents) : e_(extents) {
    first_ = workspace_.book(e_.entries * kIndexBytes);
    next_ = workspace_.book(e_.ids * kIndexBytes);
  }
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }
  void run(const KernelRun& run) const override {
    const float* const dy = f32(run.in[0]);
    const std::int32_t* const ids = i32(run.in[1]);
    float* const dtable = f32(run.out[0]);
    auto* const first = reinterpret_cast<std::int64_t*>(run.workspace + first_);
    auto* const next = reinterpret_cast<std::int64_t*>(run.workspace + next_);
    std::fill_n(first, e_.entries, kNone);
    for (std::int64_t i = e_.ids - 1; i >= 0; --i) {
      const std::int64_t id = ids[i];
      if (id < 0 || id >= e_.entries) continue;
      next[i] = first[id];
      first[id] = i;
    }
    parallel_for(e_.entries, e_.entries * e_.width * 4, [&](std::int64_t entry) {
      float* const row = dtable + entry * e_.width;
      std::int64_t i = first[entry];
      if (i == kNone) {
        std::memset(row, 0, static_cast<std::size_t>(e_.width) * sizeof(float));
        return;
      }
      std::memcpy(row, dy + i * e_.width, static_cast<std::size_t>(e_.width) * sizeof(float));
      for (i = next[i]; i != kNone; i = next[i]) add_row(dy + i * e_.width, row, e_.width);
    });
  }

 private:
  static constexpr std::int64_t kNone = -1;
  static constexpr std::int64_t kIndexBytes = sizeof(std::int64_t);

  Extents e_;
  Workspace workspace_;
  std::int64_t first_ = 0;
  std::int64_t next_ = 0;
};

std::unique_ptr<Kernel> make_forward(const Call& call, const StorageRule&) {
  require_f32(call);
  const Box& table = call.boxes.in[1];
  return std::make_unique<Embedding>(Extents{call.boxes.in[0].elements(), table.extent(0), table.extent(1)});
}

std::unique_ptr<Kernel> make_grad(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  const Box& table = call.boxes.out[0];
  return std::make_unique<EmbeddingGrad>(Extents{call.boxes.in[1].elements(), table.extent(0), table.extent(1)});
}

}  // namespace

void cpu_embedding(KernelTable& table) {
  table.add("embedding", make_forward);
  table.add("embedding_grad", make_grad);
}

}  // namespace outsize
