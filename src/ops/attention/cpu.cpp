#include <omp.h>

#include "ops/attention/attention.h"
#include "ops/attention/cpu_blocks.h"
#include "ops/attention/cpu_loops.h"
#include "ops/dropout/dropout.h"
#include "ops/registry.h"

// Flash attention (Dao et al. 2022): a block of queries meets one block of keys after the other, and nothing larger than a block of
// scores is ever stored. Blocks of q, k and v are copied into dense rows first: rows that lie a power of two apart would share the
// same few lines of the cache. Tasks write disjoint memory and sum in the order of the blocks, so that results do not depend on the
// number of threads.
namespace outsize {
namespace {

using namespace attention_loops;

// Some lanes that share work evenly, each with its own part of the workspace.
class Slots {
 public:
  explicit Slots(std::int64_t tasks) : tasks_(tasks), slots_(std::clamp<std::int64_t>(omp_get_max_threads(), 1, tasks)) {}
  std::int64_t count() const { return slots_; }
  // body(task, slot) for every task; neighbours go to different slots, for with causal masks later blocks are more work.
  template <class Body>
  void for_each_task(std::int64_t bytes, const Body& body) const {
    parallel_for(slots_, bytes, [&](std::int64_t slot) {
      for (std::int64_t task = slot; task < tasks_; task += slots_) body(task, slot);
    });
  }

 private:
  std::int64_t tasks_;
  std::int64_t slots_;
};

// The mask of a call: where its piece has more than one sample, head or query.
struct Mask {
  const float* data = nullptr;
  std::int64_t sample = 0;  // strides, 0 where it has one
  std::int64_t head = 0;
  std::int64_t query = 0;

  Mask() = default;
  Mask(const float* mask, const Box& box) : data(mask) {
    const std::int64_t rows = box.extent(3);
    query = box.extent(2) > 1 ? rows : 0;
    head = box.extent(1) > 1 ? box.extent(2) * rows : 0;
    sample = box.extent(0) > 1 ? box.extent(1) * box.extent(2) * rows : 0;
  }
};

// What forward and backward have in common: the blocks of scores of a call.
class Attention {
 public:
  // Of a call on this box of q.
  Attention(const AttentionShape& shape, const Box& q)
      : s_(shape), queries_(q.extent(1)), heads_(q.extent(2) / shape.width), padded_(whole_lines(shape.width)) {}

 protected:
  // One block of queries of one sample and head; positions count from the call's boxes, `global` from the value's.
  struct Place {
    std::int64_t sample;
    std::int64_t head;
    std::int64_t query;
    std::int64_t count;
    std::int64_t global_sample;
    std::int64_t global_query;
    std::int64_t global_head;
    std::int64_t lanes() const { return whole_lines(count); }
  };

  // The number of keys that any query of the block sees.
  std::int64_t keys_of(const Place& at) const { return s_.keys_of(at.global_query + at.count - 1); }
  // The element of q, k, v or y (`rows` a sample) where a row of the head begins.
  std::int64_t offset(const Place& at, std::int64_t rows, std::int64_t row) const {
    return (at.sample * rows + row) * features() + at.head * s_.width;
  }

  // Scores of a block of keys, with the mask; −∞ where a query does not see a key. `queries` is transposed and scaled.
  void score(const Place& at, std::int64_t key, std::int64_t keys, const float* key_rows, const float* queries, const Mask& mask,
             float* scores) const {
    multiply_blocks({keys, s_.width, at.lanes(), key_rows, padded_, 1, queries, kQueries, scores, kQueries, false});
    if (mask.data != nullptr) {
      const float* const data = mask.data + at.sample * mask.sample + at.head * mask.head + at.query * mask.query + key;
      if (mask.query != 0)
        add_per_query(data, mask.query, keys, scores, at.count);
      else
        add_per_key(data, keys, scores, at.lanes());
    }
    if (!s_.causal) return;
    for (std::int64_t j = 0; j < keys; ++j) {
      const std::int64_t first = key + j - (s_.keys - s_.queries) - at.global_query;  // the first query that sees this key
      if (first > 0) std::fill_n(scores + j * kQueries, std::min(first, at.count), kNoScore);
    }
  }

  void draw(const Draw& from, const Place& at, std::int64_t key, std::int64_t keys, float* factors) const {
    draw_factors(from, s_.place(at.global_sample, at.global_head, at.global_query) + key, s_.keys, keys, factors, at.lanes());
  }

  Draw draw_of(const KernelRun& run) const {
    if (s_.key < 0) return {};
    const auto* const key = reinterpret_cast<const std::uint32_t*>(run.in[static_cast<std::size_t>(s_.key)]);
    return {key[0],
            key[1],
            key[2],
            s_.stream,
            static_cast<std::uint32_t>(dropout_threshold(s_.dropout)),
            static_cast<float>(1 / (1 - s_.dropout))};
  }
  Mask mask_of(const KernelRun& run) const {
    if (s_.mask < 0) return {};
    const auto mask = static_cast<std::size_t>(s_.mask);
    return {f32(run.in[mask]), run.in_boxes[mask]};
  }

  std::int64_t features() const { return heads_ * s_.width; }
  // Where the block of these samples, heads and queries of the call lies in the value.
  Place place(const Box& q, std::int64_t sample, std::int64_t head, std::int64_t query) const {
    return {
        sample, head, query, std::min(kQueries, queries_ - query), q.lo[0] + sample, q.lo[1] + query, q.lo[2] / s_.width + head};
  }

  static std::int64_t floats(std::int64_t count) { return count * size_of(DType::f32); }

  AttentionShape s_;
  std::int64_t queries_;  // of the call
  std::int64_t heads_;    // of the call
  std::int64_t padded_;   // the width of a head in whole lines
};

class AttentionForward final : public Kernel, Attention {
 public:
  AttentionForward(const AttentionShape& shape, const Box& q)
      : Attention(shape, q), blocks_(chunks_of(queries_, kQueries)), slots_(q.extent(0) * heads_ * blocks_) {
    query_rows_ = part_.book(floats(kQueries * padded_));
    queries_t_ = part_.book(floats(kQueries * shape.width));
    key_rows_ = part_.book(floats(kKeys * padded_));
    value_rows_ = part_.book(floats(kKeys * padded_));
    scores_ = part_.book(floats(kKeys * kQueries));
    factors_ = part_.book(shape.key < 0 ? 0 : floats(kKeys * kQueries));
    result_ = part_.book(floats(kQueries * padded_));
  }
  std::string name() const override { return "flash loops"; }
  std::int64_t workspace_bytes() const override { return part_.bytes() * slots_.count(); }

  void run(const KernelRun& run) const override {
    const Mask mask = mask_of(run);
    const Draw from = draw_of(run);
    slots_.for_each_task(kParallelBytes, [&](std::int64_t task, std::int64_t slot) {
      const Place at = place(run.out_boxes[0], task / blocks_ / heads_, task / blocks_ % heads_, task % blocks_ * kQueries);
      run_block(run, at, mask, from, run.workspace + slot * part_.bytes());
    });
  }

 private:
  void run_block(const KernelRun& run, const Place& at, const Mask& mask, const Draw& from, std::byte* workspace) const {
    const auto part = [&](std::int64_t offset) { return f32(workspace + offset); };
    float* const query_rows = part(query_rows_);
    float* const queries = part(queries_t_);
    float* const key_rows = part(key_rows_);
    float* const value_rows = part(value_rows_);
    float* const scores = part(scores_);
    float* const result = part(result_);
    const std::int64_t stride = features();
    pack_rows(f32(run.in[0]) + offset(at, queries_, at.query), stride, at.count, s_.width, static_cast<float>(s_.scale), query_rows,
              padded_);
    transpose(query_rows, at.count, s_.width, padded_, queries, at.lanes());
    alignas(64) float most[kQueries], sum[kQueries], correction[kQueries];
    std::fill_n(most, kQueries, kNoScore);
    std::fill_n(sum, kQueries, 0.0f);
    std::fill_n(result, at.count * padded_, 0.0f);

    const std::int64_t all_keys = keys_of(at);
    for (std::int64_t key = 0; key < all_keys; key += kKeys) {
      const std::int64_t keys = std::min(kKeys, all_keys - key);
      pack_rows(f32(run.in[1]) + offset(at, s_.keys, key), stride, keys, s_.width, 1, key_rows, padded_);
      pack_rows(f32(run.in[2]) + offset(at, s_.keys, key), stride, keys, s_.width, 1, value_rows, padded_);
      score(at, key, keys, key_rows, queries, mask, scores);
      accumulate_softmax(scores, keys, at.lanes(), most, sum, correction);
      if (s_.key >= 0) {
        draw(from, at, key, keys, part(factors_));
        multiply_elements(part(factors_), keys, scores, at.lanes());
      }
      if (key > 0)
        for (std::int64_t i = 0; i < at.count; ++i) scale_row(result + i * padded_, correction[i], padded_);
      multiply_blocks({at.count, keys, padded_, scores, 1, kQueries, value_rows, padded_, result, padded_, true});
    }

    float* const y = f32(run.out[0]) + offset(at, queries_, at.query);
    float* const lse = f32(run.out[1]) + (at.sample * heads_ + at.head) * queries_ + at.query;
    for (std::int64_t i = 0; i < at.count; ++i) {
      const bool any = sum[i] != 0;  // a NaN counts
      pack_rows(result + i * padded_, padded_, 1, s_.width, any ? 1 / sum[i] : 0.0f, y + i * stride, s_.width);
      lse[i] = any ? most[i] + std::log(sum[i]) : 0.0f;
    }
  }

  std::int64_t blocks_;
  Slots slots_;
  Workspace part_;  // of one slot
  std::int64_t query_rows_, queries_t_, key_rows_, value_rows_, scores_, factors_, result_;
};

// A task is a sample's head: keys gather from all blocks of queries, queries from all blocks of keys.
class AttentionBackward final : public Kernel, Attention {
 public:
  AttentionBackward(const AttentionShape& shape, const Box& q) : Attention(shape, q), slots_(q.extent(0) * heads_) {
    for (std::int64_t* rows : {&query_rows_, &dy_rows_, &dq_rows_}) *rows = part_.book(floats(kQueries * padded_));
    for (std::int64_t* lanes : {&queries_t_, &dy_t_}) *lanes = part_.book(floats(kQueries * shape.width));
    for (std::int64_t* rows : {&key_rows_, &value_rows_, &sums_}) *rows = part_.book(floats(kKeys * padded_));
    for (std::int64_t* block : {&scores_, &products_}) *block = part_.book(floats(kKeys * kQueries));
    factors_ = part_.book(shape.key < 0 ? 0 : floats(kKeys * kQueries));
  }
  std::string name() const override { return "flash loops"; }
  std::int64_t workspace_bytes() const override { return part_.bytes() * slots_.count(); }

  void run(const KernelRun& run) const override {
    const Mask mask = mask_of(run);
    const Draw from = draw_of(run);
    slots_.for_each_task(kParallelBytes, [&](std::int64_t task, std::int64_t slot) {
      const std::int64_t sample = task / heads_, head = task % heads_;
      const Place first = place(run.in_boxes[0], sample, head, 0);
      for (std::size_t output : {1, 2})
        for (std::int64_t j = 0; j < s_.keys; ++j) std::fill_n(f32(run.out[output]) + offset(first, s_.keys, j), s_.width, 0.0f);
      for (std::int64_t query = 0; query < queries_; query += kQueries)
        run_block(run, place(run.in_boxes[0], sample, head, query), mask, from, run.workspace + slot * part_.bytes());
    });
  }

 private:
  void run_block(const KernelRun& run, const Place& at, const Mask& mask, const Draw& from, std::byte* workspace) const {
    const auto part = [&](std::int64_t offset) { return f32(workspace + offset); };
    float* const query_rows = part(query_rows_);
    float* const queries = part(queries_t_);
    float* const dy_rows = part(dy_rows_);
    float* const dy_lanes = part(dy_t_);
    float* const dq_rows = part(dq_rows_);
    float* const key_rows = part(key_rows_);
    float* const value_rows = part(value_rows_);
    float* const weights = part(scores_);
    float* const products = part(products_);
    float* const sums = part(sums_);
    const float scale = static_cast<float>(s_.scale);
    const std::int64_t stride = features();
    const std::int64_t first = offset(at, queries_, at.query);

    pack_rows(f32(run.in[1]) + first, stride, at.count, s_.width, scale, query_rows, padded_);
    transpose(query_rows, at.count, s_.width, padded_, queries, at.lanes());
    pack_rows(f32(run.in[0]) + first, stride, at.count, s_.width, 1, dy_rows, padded_);
    transpose(dy_rows, at.count, s_.width, padded_, dy_lanes, at.lanes());
    alignas(64) float lse[kQueries] = {}, means[kQueries] = {};
    std::copy_n(f32(run.in[5]) + (at.sample * heads_ + at.head) * queries_ + at.query, at.count, lse);
    for (std::int64_t i = 0; i < at.count; ++i)
      means[i] = dot(dy_rows + i * padded_, f32(run.in[4]) + first + i * stride, s_.width);
    std::fill_n(dq_rows, at.count * padded_, 0.0f);

    const std::int64_t all_keys = keys_of(at);
    for (std::int64_t key = 0; key < all_keys; key += kKeys) {
      const std::int64_t keys = std::min(kKeys, all_keys - key);
      const std::int64_t key_offset = offset(at, s_.keys, key);
      pack_rows(f32(run.in[2]) + key_offset, stride, keys, s_.width, 1, key_rows, padded_);
      pack_rows(f32(run.in[3]) + key_offset, stride, keys, s_.width, 1, value_rows, padded_);
      score(at, key, keys, key_rows, queries, mask, weights);
      softmax_again(weights, keys, at.lanes(), lse);
      multiply_blocks({keys, s_.width, at.lanes(), value_rows, padded_, 1, dy_lanes, kQueries, products, kQueries, false});
      if (s_.key >= 0) {
        draw(from, at, key, keys, part(factors_));
        multiply_elements(part(factors_), keys, products, at.lanes());
      }
      score_gradient(weights, means, keys, products, at.lanes());
      if (s_.key >= 0) multiply_elements(part(factors_), keys, weights, at.lanes());

      multiply_blocks({keys, at.count, padded_, weights, kQueries, 1, dy_rows, padded_, sums, padded_, false});
      add_rows(sums, padded_, keys, s_.width, 1, f32(run.out[2]) + key_offset, stride);
      multiply_blocks({keys, at.count, padded_, products, kQueries, 1, query_rows, padded_, sums, padded_, false});
      add_rows(sums, padded_, keys, s_.width, 1, f32(run.out[1]) + key_offset, stride);
      multiply_blocks({at.count, keys, padded_, products, 1, kQueries, key_rows, padded_, dq_rows, padded_, true});
    }
    float* const dq = f32(run.out[0]) + first;
    for (std::int64_t i = 0; i < at.count; ++i)
      pack_rows(dq_rows + i * padded_, padded_, 1, s_.width, scale, dq + i * stride, s_.width);
  }

  Slots slots_;
  Workspace part_;  // of one slot
  std::int64_t query_rows_, dy_rows_, dq_rows_, queries_t_, dy_t_, key_rows_, value_rows_, sums_, scores_, products_, factors_;
};

std::unique_ptr<Kernel> make_forward(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  return std::make_unique<AttentionForward>(attention_shape(call.site), call.boxes.in[0]);
}

std::unique_ptr<Kernel> make_backward(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  return std::make_unique<AttentionBackward>(attention_grad_shape(call.site), call.boxes.in[0]);
}

}  // namespace

void cpu_attention(KernelTable& table) {
  table.add("attention", make_forward);
  table.add("attention_grad", make_backward);
}

}  // namespace outsize
