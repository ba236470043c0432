#include "ops/attention/cuda_attention.h"
#include "ops/cuda/product.h"
#include "ops/cuda/scores.h"

// Attention made of matrix products, for as many samples and heads at once as the bytes of their scores allow, or for some of
// the queries of one. Heads lie inside the rows of q, k and v, so that products step over what belongs to other heads. All sums
// have a fixed order: scores, weights and results of a query belong to one product each, and the sums of keys take blocks of
// queries in order.
namespace outsize::OUTSIZE_PLACE {
namespace {

constexpr std::int64_t kWide = 4;  // elements that rows begin at a multiple of

// The bytes of scores that are worked on at once, if the call's operands have as many, and in any case; what numbers of queries are
// cut to; and, where queries see the keys before them only, in how many blocks the queries are then, each with the keys that it
// sees, and how many it has at least. Emulated, so few that small cases are cut in all ways.
#if defined(__CUDACC__)
constexpr std::int64_t kScoreBytes = std::int64_t{96} << 20;
constexpr std::int64_t kLeastScoreBytes = std::int64_t{24} << 20;
constexpr std::int64_t kQueryStep = 64;
constexpr std::int64_t kCausalBlocks = 4;
// Measured: of 8 samples of 1024 tokens, two blocks of queries take as long as one, and four take 1.3 times as long.
constexpr std::int64_t kLeastQueries = 1024;
#else
constexpr std::int64_t kScoreBytes = 1200;
constexpr std::int64_t kLeastScoreBytes = 700;
constexpr std::int64_t kQueryStep = 1;
constexpr std::int64_t kCausalBlocks = 3;
constexpr std::int64_t kLeastQueries = 1;
#endif

// The samples, heads, queries and keys that are worked on at once, and where they begin in the call. Keys begin at 0.
struct Extents {
  std::int64_t samples, heads, queries, keys;
  bool operator==(const Extents&) const = default;
};
struct Step {
  std::int64_t sample, head, query;
  std::size_t plan;  // index of the products for its extents
};

// Parts of at most `most` that are nearly the same.
std::int64_t even_parts(std::int64_t extent, std::int64_t most) { return ceil_divide(extent, ceil_divide(extent, most)); }

// A call cut into steps.
struct Tiling {
  std::int64_t samples, queries, heads;  // of the call
  std::int64_t stride;                   // elements from a row of scores to the next
  Extents most;                          // of a step
  std::vector<Extents> extents;          // that steps have
  std::vector<Step> steps;               // blocks of queries from the last to the first, so that the first sees all keys

  // `matrices`: of scores that a step has.
  Tiling(const AttentionShape& shape, const Box& q, std::int64_t matrices)
      : samples(q.extent(0)),
        queries(q.extent(1)),
        heads(q.extent(2) / shape.width),
        stride(ceil_divide(shape.keys, kWide) * kWide),
        most{1, 1, queries, shape.keys} {
    const std::int64_t row_bytes = matrices * stride * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t operands =
        2 * samples * (queries + shape.keys) * heads * shape.width * static_cast<std::int64_t>(sizeof(float));  // q, k, v, y
    const std::int64_t bytes = std::min(OUTSIZE_PLACE::score_bytes(), std::max(operands, kLeastScoreBytes));
    const std::int64_t rows = std::max<std::int64_t>(bytes / row_bytes, 1);
    // Where the box has all queries, none moves, and it is known which keys a block of them sees.
    const bool cut_keys = shape.causal && queries == shape.queries;
    const std::int64_t wanted = cut_keys ? std::max(ceil_divide(queries, causal_blocks()), kLeastQueries) : queries;
    most.queries = block_of(queries, std::min(rows, wanted));
    // A call of the library takes the samples of a head, or the heads of a sample: whichever are more come first.
    const std::int64_t pairs = std::max<std::int64_t>(rows / most.queries, 1);
    const bool samples_first = samples > heads;
    const auto take = [&](std::int64_t all, std::int64_t at_most) {
      return even_parts(all, std::clamp<std::int64_t>(at_most, 1, all));
    };
    if (samples_first) most.samples = take(samples, pairs);
    most.heads = take(heads, pairs / most.samples);
    if (!samples_first) most.samples = take(samples, pairs / most.heads);

    const std::int64_t key_step = cut_keys ? ceil_divide(shape.keys, causal_blocks()) : shape.keys;
    for (std::int64_t sample = 0; sample < samples; sample += most.samples)
      for (std::int64_t head = 0; head < heads; head += most.heads)
        for (std::int64_t query = (queries - 1) / most.queries * most.queries; query >= 0; query -= most.queries) {
          Extents own{std::min(most.samples, samples - sample), std::min(most.heads, heads - head),
                      std::min(most.queries, queries - query), shape.keys};
          if (cut_keys) {
            const std::int64_t seen = std::max<std::int64_t>(shape.keys_of(query + own.queries - 1), 1);
            own.keys = std::min(ceil_divide(seen, key_step) * key_step, shape.keys);
          }
          const auto found = std::ranges::find(extents, own);
          steps.push_back({sample, head, query, static_cast<std::size_t>(found - extents.begin())});
          if (found == extents.end()) extents.push_back(own);
        }
  }

  std::int64_t score_bytes() const {
    return part_bytes(most.samples * most.heads * most.queries * stride * static_cast<std::int64_t>(sizeof(float)));
  }
  std::int64_t features(const AttentionShape& shape) const { return heads * shape.width; }

 private:
  // Queries of a block: nearly the same number in each, at most `most_queries`; whole steps where there is more than one block.
  static std::int64_t block_of(std::int64_t extent, std::int64_t most_queries) {
    const std::int64_t each = even_parts(extent, most_queries);
    if (each == extent || most_queries < kQueryStep) return each;
    return std::min(ceil_divide(each, kQueryStep), most_queries / kQueryStep) * kQueryStep;
  }
};

// What the products of a step are between: rows of q (dy, y, dq), rows of k (v, dk, dv), and matrices of scores.
enum class Operand { queries, keys, scores };

// One of the products of a step. `transposed`: of which the rows are taken as columns.
struct Factor {
  Operand operand;
  bool transposed = false;
};

// result = left · right for all samples and heads of a step.
Product make_product(const AttentionShape& shape, const Tiling& tiling, const Extents& extents, Operand result, Factor left,
                     Factor right, bool tf32) {
  const auto rows = [&](Operand operand) { return operand == Operand::keys ? extents.keys : extents.queries; };
  const auto columns = [&](Operand operand) { return operand == Operand::scores ? extents.keys : shape.width; };
  const auto row_stride = [&](Operand operand) { return operand == Operand::scores ? tiling.stride : tiling.features(shape); };
  const auto head_stride = [&](Operand operand) {
    return operand == Operand::scores ? extents.queries * tiling.stride : shape.width;
  };
  const auto sample_stride = [&](Operand operand) {
    if (operand == Operand::scores) return extents.heads * extents.queries * tiling.stride;
    return (operand == Operand::keys ? shape.keys : tiling.queries) * tiling.features(shape);
  };
  const auto strides = [&](const auto& stride, std::int64_t count) {
    return ProductBatch{count, stride(left.operand), stride(right.operand), stride(result)};
  };
  return Product({.rows = rows(result),
                  .inner = left.transposed ? rows(left.operand) : columns(left.operand),
                  .columns = columns(result),
                  .a = {row_stride(left.operand), left.transposed},
                  .b = {row_stride(right.operand), right.transposed},
                  .c = {row_stride(result), false},
                  .batches = {strides(head_stride, extents.heads), strides(sample_stride, extents.samples)}},
                 tf32);
}

// What forward and backward have in common.
class AttentionSteps : public Kernel {
 public:
  std::string name() const override { return name_; }
  std::int64_t workspace_bytes() const override { return workspace_bytes_; }

 protected:
  AttentionSteps(const AttentionShape& shape, const Box& q, std::int64_t matrices)
      : s_(shape), t_(shape, q, matrices), products_at_(matrices * t_.score_bytes()) {
    OUTSIZE_CHECK(shape.keys < (std::int64_t{1} << 30));
  }

  // Books the workspace of a product, which follows the scores, and adds its name.
  void book(const Product& product) {
    workspace_bytes_ = std::max(workspace_bytes_, products_at_ + product.workspace_bytes());
    if (const std::string own = product.name(); name_.find(own) == std::string::npos) name_ += (name_.empty() ? "" : "+") + own;
  }
  std::byte* product_workspace(const KernelRun& run) const { return run.workspace + products_at_; }
  float* matrix(const KernelRun& run, int i) const { return reinterpret_cast<float*>(run.workspace + i * t_.score_bytes()); }

  // Where a step begins in the rows of q, and in those of k.
  std::int64_t query_offset(const Step& step) const {
    return (step.sample * t_.queries + step.query) * t_.features(s_) + step.head * s_.width;
  }
  std::int64_t key_offset(const Step& step) const { return step.sample * s_.keys * t_.features(s_) + step.head * s_.width; }

  // The scores of a call on this box of q, of which its steps have parts.
  Scores scores(const KernelRun& run, const Box& q) const {
    const auto mask = static_cast<std::size_t>(s_.mask);
    return {s_, q, s_.mask < 0 ? nullptr : in<float>(run, s_.mask), s_.mask < 0 ? Box() : run.in_boxes[mask],
            s_.key < 0 ? nullptr : in<std::uint32_t>(run, s_.key)};
  }
  // Puts a functor of the rows family into the stream for the rows of a step, in place: make(scores of the step) gives it.
  template <class Make, std::size_t kMatrices>
  void run_step(const Make& make, const Scores& all, const Step& step, const std::array<float*, kMatrices>& matrices,
                void* queue) const {
    const Extents& extents = t_.extents[step.plan];
    // Whole vectors, where nothing but the scores is read with them: no query sees what lies behind the last key.
    RowShape shape(extents.samples * extents.heads * extents.queries,
                   all.mask == nullptr ? ceil_divide(extents.keys, kWide) * kWide : extents.keys);
    shape.pitch = t_.stride;
    std::array<const float*, kMatrices> read;
    std::ranges::copy(matrices, read.begin());
    run_rows(make(all.part(step.sample, step.head, step.query, extents.heads, extents.queries)), read, matrices, shape, queue);
  }

  AttentionShape s_;
  Tiling t_;

 private:
  std::int64_t products_at_;
  std::int64_t workspace_bytes_ = 0;
  std::string name_;
};

class AttentionForward final : public AttentionSteps {
 public:
  AttentionForward(const AttentionShape& shape, const Box& q, bool tf32) : AttentionSteps(shape, q, 1) {
    using enum Operand;
    for (const Extents& extents : t_.extents) {
      const Plan& plan = plans_.emplace_back(make_product(s_, t_, extents, scores, {queries}, {keys, true}, tf32),
                                             make_product(s_, t_, extents, queries, {scores}, {keys}, tf32));
      book(plan.scores);
      book(plan.values);
    }
  }

  void run(const KernelRun& run) const override {
    const float* const q = in<float>(run, 0);
    const float* const k = in<float>(run, 1);
    const float* const v = in<float>(run, 2);
    float* const weights = matrix(run, 0);
    const Scores all = scores(run, run.out_boxes[0]);
    for (const Step& step : t_.steps) {
      const Plan& plan = plans_[step.plan];
      const std::int64_t at_query = query_offset(step), at_key = key_offset(step);
      plan.scores.run({q + at_query, k + at_key, weights}, false, product_workspace(run), run.queue);
      run_step([&](const Scores& own) { return ScoresSoftmax(own, out<float>(run, 1)); }, all, step, std::array{weights},
               run.queue);
      plan.values.run({weights, v + at_key, out<float>(run, 0) + at_query}, false, product_workspace(run), run.queue);
    }
  }

 private:
  struct Plan {
    Product scores;
    Product values;
  };
  std::vector<Plan> plans_;
};

// With the names of ScoresSoftmaxGrad: dv = (P ∘ F)ᵀ dy, dS = scale · P ∘ (F ∘ dy vᵀ − D), dq = dS k, dk = dSᵀ q.
class AttentionBackward final : public AttentionSteps {
 public:
  AttentionBackward(const AttentionShape& shape, const Box& q, bool tf32) : AttentionSteps(shape, q, 2) {
    using enum Operand;
    for (const Extents& extents : t_.extents) {
      const Plan& plan = plans_.emplace_back(make_product(s_, t_, extents, scores, {queries}, {keys, true}, tf32),
                                             make_product(s_, t_, extents, queries, {scores}, {keys}, tf32),
                                             make_product(s_, t_, extents, keys, {scores, true}, {queries}, tf32));
      for (const Product* product : {&plan.scores, &plan.queries, &plan.keys}) book(*product);
    }
  }

  void run(const KernelRun& run) const override {
    const float* const dy = in<float>(run, 0);
    const float* const q = in<float>(run, 1);
    const float* const k = in<float>(run, 2);
    const float* const v = in<float>(run, 3);
    const float* const y = in<float>(run, 4);
    float* const weights = matrix(run, 0);
    float* const products = matrix(run, 1);
    std::byte* const workspace = product_workspace(run);
    const Scores all = scores(run, run.in_boxes[0]);
    for (const Step& step : t_.steps) {
      const Plan& plan = plans_[step.plan];
      const std::int64_t at_query = query_offset(step), at_key = key_offset(step);
      // The last queries come first, and see all keys.
      const bool add = step.query + t_.extents[step.plan].queries < t_.queries;
      plan.scores.run({q + at_query, k + at_key, weights}, false, workspace, run.queue);
      plan.scores.run({dy + at_query, v + at_key, products}, false, workspace, run.queue);
      run_step([&](const Scores& own) { return ScoresSoftmaxGrad(own, in<float>(run, 5), dy, y); }, all, step,
               std::array{weights, products}, run.queue);
      plan.keys.run({weights, dy + at_query, out<float>(run, 2) + at_key}, add, workspace, run.queue);
      plan.queries.run({products, k + at_key, out<float>(run, 0) + at_query}, false, workspace, run.queue);
      plan.keys.run({products, q + at_query, out<float>(run, 1) + at_key}, add, workspace, run.queue);
    }
  }

 private:
  // By what comes out.
  struct Plan {
    Product scores;
    Product queries;
    Product keys;
  };
  std::vector<Plan> plans_;
};

template <bool kTf32>
std::unique_ptr<Kernel> make_forward(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  if (has_empty_input(call)) return make_zeros(call, storage);
  return std::make_unique<AttentionForward>(attention_shape(call.site), call.boxes.in[0], kTf32);
}

template <bool kTf32>
std::unique_ptr<Kernel> make_backward(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  if (has_empty_input(call)) return make_zeros(call, storage);
  return std::make_unique<AttentionBackward>(attention_grad_shape(call.site), call.boxes.in[0], kTf32);
}

}  // namespace

std::int64_t& score_bytes() {
  static std::int64_t bytes = kScoreBytes;
  return bytes;
}

std::int64_t& causal_blocks() {
  static std::int64_t blocks = kCausalBlocks;
  return blocks;
}

void cuda_attention(KernelTable& table) {
  table.add("attention", table.tf32 ? make_forward<true> : make_forward<false>);
  table.add("attention_grad", table.tf32 ? make_backward<true> : make_backward<false>);
}

}  // namespace outsize::OUTSIZE_PLACE
