#include "ops/attention/cuda_fused.h"

// With the names of ScoresSoftmaxGrad: dS = P ∘ (F ∘ dy vᵀ − D), dq = scale · dS k, dk = scale · dSᵀ q, dv = (P ∘ F)ᵀ dy. One
// kernel for blocks of queries makes dq and D, one for blocks of keys dk and dv. Both make the weights P again: no sum is shared by
// blocks of threads, and each has a fixed order.
namespace outsize::OUTSIZE_PLACE {
namespace {

// What both kernels read.
struct BackwardInputs {
  const float* dy;
  const float* q;
  const float* k;
  const float* v;
  const float* y;
  const float* lse;
};

// The left factors that a block needs all the time, kRows for each warp: rounded in registers, or in shared memory.
template <bool kInRegisters, int kRows, int kWidth>
struct KeptFactors {
  Factor<kRows, kWidth> of[2];
};
template <int kRows, int kWidth>
struct KeptFactors<false, kRows, kWidth> {
  SharedFactor<kRows, kWidth> of[2];
};

// A warp has kRows rows of the block, a block kWarps warps. What these are multiplied with comes kStep rows at a time.
template <int kWidth, int kRows, int kWarps, int kStep, bool kInRegisters, bool kRoundWhereTheyLie>
struct BackwardBlock {
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kAll = kRows * kWarps;
  static constexpr int kKept = kInRegisters ? 0 : 2 * kAll * kWidth;  // floats
  static constexpr int kStage = 2 * kStep * kWidth;
  using Tile = SharedTile<kWidth, kRoundWhereTheyLie>;

  // Rows of two matrices (which: 0, 1) that come, in turns.
  template <class Block>
  OUTSIZE_BOTH static Tile coming(Block& block, int step, int which) {
    return {reinterpret_cast<float*>(block.shared()) + kKept + step % 2 * kStage + which * kStep * kWidth};
  }

  // Waits for what comes in this step, and rounds what is not rounded by each warp.
  template <class Block>
  OUTSIZE_BOTH static void wait(Block& block, int step) {
    block.template fetched<1>([&](int thread) {
      if constexpr (kRoundWhereTheyLie)
        for (int which = 0; which < 2; ++which) round_rows<kStep, kThreads>(thread, coming(block, step, which));
    });
  }

  // Loads rows of two matrices as the factors that stay, the first times `factor`.
  template <class Block>
  OUTSIZE_BOTH static void load(Block& block, Warp warp, KeptFactors<kInRegisters, kRows, kWidth>& factors, const float* first,
                                const float* second, float factor, std::int64_t stride, int rows, int columns) {
    OUTSIZE_UNROLL
    for (int which = 0; which < 2; ++which) {
      Fragment<kRows, kWidth> loaded;
      load_rows(warp, loaded, which == 0 ? first : second, stride, rows, columns);
      const Factor<kRows, kWidth> made = rounded(loaded, which == 0 ? factor : 1.0f);
      if constexpr (kInRegisters) {
        factors.of[which] = made;
      } else {
        factors.of[which] = {reinterpret_cast<float*>(block.shared()) + (which * kWarps + warp.number()) * kRows * kWidth};
        keep(warp, factors.of[which], made);
      }
    }
  }
};

template <int kWidth, int kRows, int kWarps, int kStep, bool kInRegisters, bool kRoundWhereTheyLie, int kBlocksOfCard>
struct FusedQueries {
  using Layout = BackwardBlock<kWidth, kRows, kWarps, kStep, kInRegisters, kRoundWhereTheyLie>;
  static constexpr int kThreads = Layout::kThreads;
  static constexpr int kBlocks = kBlocksOfCard;
  static constexpr int kAll = Layout::kAll;
  static constexpr std::int64_t kShared = (Layout::kKept + 2 * Layout::kStage) * sizeof(float);

  FusedCall call;
  BackwardInputs in;
  float* mean;  // D, as lse
  float* dq;

  struct State {
    KeptFactors<kInRegisters, kRows, kWidth> left;  // q, dy
    TurnedFragment<kRows, kWidth> sum;
    RowValues<kRows> lse, mean;
  };

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    const FusedCall::Place place = call.place(block.x());
    const Scores& scores = call.scores;
    const int first = place.part * kAll;
    const int last = (first + kAll < call.queries ? first + kAll : call.queries) - 1;
    const int steps = (scores.visible(last) + kStep - 1) / kStep;
    typename Block::template OwnOfWarp<State> states;
    const auto fetch_step = [&](int step) {
      block.fetch([&](int thread, Copies& copies) {
        if (step >= steps) return;
        const int key = step * kStep;
        const std::int64_t at = place.of_keys + key * call.features;
        const int rows = scores.keys - key;
        fetch_rows<kStep, kThreads>(copies, thread, Layout::coming(block, step, 0), in.k + at, call.features, rows, scores.width);
        fetch_rows<kStep, kThreads>(copies, thread, Layout::coming(block, step, 1), in.v + at, call.features, rows, scores.width);
      });
    };
    fetch_step(0);
    block.each_warp([&](Warp warp) {
      State& own = states[warp.number()];
      const int query = first + warp.number() * kRows;
      begin(warp, own, place, query);
      const std::int64_t at = place.of_queries + query * call.features;
      Layout::load(block, warp, own.left, in.q + at, in.dy + at, call.factor(), call.features, call.queries - query, scores.width);
    });
    for (int step = 0; step < steps; ++step) {
      fetch_step(step + 1);
      Layout::wait(block, step);
      block.each_warp([&](Warp warp) {
        add(warp, states[warp.number()], place, first + warp.number() * kRows, step * kStep, Layout::coming(block, step, 0),
            Layout::coming(block, step, 1));
      });
    }
    block.each_warp([&](Warp warp) {
      State& own = states[warp.number()];
      const int query = first + warp.number() * kRows;
      own.sum.scale(warp, scores.scale);
      own.sum.store_rows(warp, dq + place.of_queries + query * call.features, call.features, call.queries - query, scores.width);
    });
  }

 private:
  // What is known of each query before its keys.
  OUTSIZE_BOTH void begin(Warp warp, State& own, const FusedCall::Place& place, int query) const {
    const std::int64_t at = place.of_queries + query * call.features;
    Fragment<kRows, kWidth> dy, y;
    load_rows(warp, dy, in.dy + at, call.features, call.queries - query, call.scores.width);
    load_rows(warp, y, in.y + at, call.features, call.queries - query, call.scores.width);
    OUTSIZE_UNROLL
    for (int i = 0; i < own.mean.kHeldRows; ++i) own.mean.of[i] = 0;
    each_quad(dy, [&](int i, int j, Vector<float, 4>& quad) {
      OUTSIZE_UNROLL
      for (int c = 0; c < 4; ++c) own.mean.of[i] += quad.of[c] * y.of[i][j].of[c];
    });
    row_sum(warp, own.mean);
    OUTSIZE_UNROLL
    for (int i = 0; i < own.mean.kHeldRows; ++i) {
      const int row = query + held_row(warp, i);
      own.lse.of[i] = row < call.queries ? in.lse[place.of_rows + row] * kLog2OfE : 0.0f;
      if (row < call.queries && speaks_for_rows(warp)) mean[place.of_rows + row] = own.mean.of[i];
    }
    own.sum.clear();
  }

  OUTSIZE_BOTH void add(Warp warp, State& own, const FusedCall::Place& place, int query, int key, typename Layout::Tile keys,
                        typename Layout::Tile values) const {
    const Scores& scores = call.scores;
    Fragment<kRows, kStep> weights, products;
    weights.clear();
    multiply(warp, weights, own.left.of[0], across(keys));
    products.clear();
    multiply(warp, products, own.left.of[1], across(values));
    call.template score<false>(warp, weights, place, query, key);
    if (scores.dropout.key != nullptr)
      each_quad(products, [&](int i, int j, Vector<float, 4>& quad) {
        const std::uint32_t bits = call.kept(place, query + held_row(warp, i), key + held_column(warp, j));
        OUTSIZE_UNROLL
        for (int c = 0; c < 4; ++c) quad.of[c] *= ((bits >> c) & 1) != 0 ? scores.dropout.kept : 0.0f;
      });
    each_quad(weights, [&](int i, int j, Vector<float, 4>& quad) {
      OUTSIZE_UNROLL
      for (int c = 0; c < 4; ++c)
        quad.of[c] = power_of_two(quad.of[c] - own.lse.of[i]) * (products.of[i][j].of[c] - own.mean.of[i]);
    });
    if (!call.all_seen(query, key + kStep))
      each_quad(weights, [&](int i, int j, Vector<float, 4>& quad) {
        const int visible = scores.visible(query + held_row(warp, i)) - key - held_column(warp, j);
        OUTSIZE_UNROLL
        for (int c = 0; c < 4; ++c) quad.of[c] = c < visible ? quad.of[c] : 0.0f;
      });
    multiply(warp, own.sum, rounded(weights), straight(keys));
  }
};

template <int kWidth, int kRows, int kWarps, int kStep, bool kInRegisters, bool kRoundWhereTheyLie, int kBlocksOfCard>
struct FusedKeys {
  using Layout = BackwardBlock<kWidth, kRows, kWarps, kStep, kInRegisters, kRoundWhereTheyLie>;
  static constexpr int kThreads = Layout::kThreads;
  static constexpr int kBlocks = kBlocksOfCard;
  static constexpr int kAll = Layout::kAll;
  static constexpr int kRowFloats = Layout::kKept + 2 * Layout::kStage;  // in front of lse and D of the queries that come
  static constexpr std::int64_t kShared = (kRowFloats + 4 * kStep) * sizeof(float);

  FusedCall call;
  BackwardInputs in;
  const float* mean;
  float* dk;
  float* dv;

  struct State {
    KeptFactors<kInRegisters, kRows, kWidth> left;  // k, v
    TurnedFragment<kRows, kWidth> dk, dv;
  };

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    const FusedCall::Place place = call.place(block.x());
    const Scores& scores = call.scores;
    const int first = place.part * kAll;
    // Queries before this one see none of the keys.
    const int begin = call.first_query(first) / kStep * kStep;
    const int steps = (call.queries - begin + kStep - 1) / kStep;
    const auto rows = [&](int step, int which) {
      return reinterpret_cast<float*>(block.shared()) + kRowFloats + (step % 2 * 2 + which) * kStep;
    };
    typename Block::template OwnOfWarp<State> states;
    const auto fetch_step = [&](int step) {
      block.fetch([&](int thread, Copies& copies) {
        if (step >= steps) return;
        const int query = begin + step * kStep, count = call.queries - query;
        const std::int64_t at = place.of_queries + query * call.features;
        fetch_rows<kStep, kThreads>(copies, thread, Layout::coming(block, step, 0), in.q + at, call.features, count, scores.width);
        fetch_rows<kStep, kThreads>(copies, thread, Layout::coming(block, step, 1), in.dy + at, call.features, count, scores.width);
        static_assert(2 * kStep <= kThreads);
        if (thread < 2 * kStep) {
          const int which = thread / kStep, row = thread % kStep;
          const float* const from = (which == 0 ? in.lse : mean) + place.of_rows;
          copies.floats<1>(rows(step, which) + row, row < count ? from + query + row : from, row < count);
        }
      });
    };
    fetch_step(0);
    block.each_warp([&](Warp warp) {
      State& own = states[warp.number()];
      const int key = first + warp.number() * kRows;
      const std::int64_t at = place.of_keys + key * call.features;
      Layout::load(block, warp, own.left, in.k + at, in.v + at, call.factor(), call.features, scores.keys - key, scores.width);
      own.dk.clear();
      own.dv.clear();
    });
    for (int step = 0; step < steps; ++step) {
      fetch_step(step + 1);
      Layout::wait(block, step);
      block.each_warp([&](Warp warp) {
        add(warp, states[warp.number()], place, begin + step * kStep, first + warp.number() * kRows, Layout::coming(block, step, 0),
            Layout::coming(block, step, 1), rows(step, 0), rows(step, 1));
      });
    }
    block.each_warp([&](Warp warp) {
      State& own = states[warp.number()];
      const int key = first + warp.number() * kRows, count = scores.keys - key;
      const std::int64_t at = place.of_keys + key * call.features;
      own.dk.scale(warp, scores.scale);
      own.dk.store_rows(warp, dk + at, call.features, count, scores.width);
      own.dv.store_rows(warp, dv + at, call.features, count, scores.width);
    });
  }

 private:
  // Adds what the keys from `key` on have from the queries from `query` on. Rows of the fragments are keys, columns queries.
  OUTSIZE_BOTH void add(Warp warp, State& own, const FusedCall::Place& place, int query, int key, typename Layout::Tile queries,
                        typename Layout::Tile gradients, const float* lse, const float* means) const {
    const Scores& scores = call.scores;
    Fragment<kRows, kStep> weights, products;
    weights.clear();
    multiply(warp, weights, own.left.of[0], across(queries));
    products.clear();
    multiply(warp, products, own.left.of[1], across(gradients));
    call.template score<true>(warp, weights, place, query, key);
    each_quad(weights, [&](int, int j, Vector<float, 4>& quad) {
      const Vector<float, 4> sums = load<4>(lse + held_column(warp, j));
      OUTSIZE_UNROLL
      for (int c = 0; c < 4; ++c) quad.of[c] = power_of_two(quad.of[c] - sums.of[c] * kLog2OfE);
    });
    const bool all_seen = call.all_seen(query, key + kRows) && query + kStep <= call.queries;
    if (!all_seen)
      each_quad(weights, [&](int i, int j, Vector<float, 4>& quad) {
        OUTSIZE_UNROLL
        for (int c = 0; c < 4; ++c)
          quad.of[c] = call.sees(query + held_column(warp, j) + c, key + held_row(warp, i)) ? quad.of[c] : 0.0f;
      });
    if (scores.dropout.key == nullptr) {
      each_quad(products, [&](int i, int j, Vector<float, 4>& quad) {
        const Vector<float, 4> mean_of = load<4>(means + held_column(warp, j));
        OUTSIZE_UNROLL
        for (int c = 0; c < 4; ++c) quad.of[c] = weights.of[i][j].of[c] * (quad.of[c] - mean_of.of[c]);
      });
    } else {
      const FragmentBits<kRows, kStep> kept(warp, [&](int row, int column) { return call.kept(place, query + column, key + row); });
      each_quad(products, [&](int i, int j, Vector<float, 4>& quad) {
        const Vector<float, 4> mean_of = load<4>(means + held_column(warp, j));
        OUTSIZE_UNROLL
        for (int c = 0; c < 4; ++c) {
          const float factor = kept(i, j, c) ? scores.dropout.kept : 0.0f;
          quad.of[c] = weights.of[i][j].of[c] * (factor * quad.of[c] - mean_of.of[c]);
          weights.of[i][j].of[c] *= factor;
        }
      });
    }
    if (!all_seen)
      each_quad(products, [&](int i, int j, Vector<float, 4>& quad) {
        OUTSIZE_UNROLL
        for (int c = 0; c < 4; ++c)
          quad.of[c] = call.sees(query + held_column(warp, j) + c, key + held_row(warp, i)) ? quad.of[c] : 0.0f;
      });
    multiply(warp, own.dv, rounded(weights), straight(gradients));
    multiply(warp, own.dk, rounded(products), straight(queries));
  }
};

// Puts one of the two kernels into the stream; `mean` is the workspace.
using Launch = void (*)(const AttentionShape& shape, const KernelRun& run, float* mean);

BackwardInputs inputs_of(const KernelRun& run) {
  const BackwardInputs inputs{in<float>(run, 0), in<float>(run, 1), in<float>(run, 2),
                              in<float>(run, 3), in<float>(run, 4), in<float>(run, 5)};
  OUTSIZE_CHECK(aligned<4>(inputs.dy, inputs.q, inputs.k, inputs.v, inputs.y));
  return inputs;
}

template <class Program>
void launch_queries(const AttentionShape& shape, const KernelRun& run, float* mean) {
  static_assert(Program::kShared <= kMostShared);
  const Scores scores = scores_of(shape, run, run.in_boxes[0]);
  const Program program{FusedCall(scores, scores.call_queries, Program::kAll, run.in_boxes[0].extent(0), true), inputs_of(run),
                        mean, out<float>(run, 0)};
  OUTSIZE_CHECK(aligned<4>(program.dq) && scores.vectors());
  launch(program, {program.call.blocks(), 1, Program::kShared}, run.queue);
}

template <class Program>
void launch_keys(const AttentionShape& shape, const KernelRun& run, float* mean) {
  static_assert(Program::kShared <= kMostShared);
  const Scores scores = scores_of(shape, run, run.in_boxes[0]);
  const Program program{FusedCall(scores, scores.keys, Program::kAll, run.in_boxes[0].extent(0), false), inputs_of(run), mean,
                        out<float>(run, 1), out<float>(run, 2)};
  OUTSIZE_CHECK(aligned<4>(program.dk, program.dv));
  launch(program, {program.call.blocks(), 1, Program::kShared}, run.queue);
}

struct Choice {
  Launch launch;
  std::string name;
};
std::string kinds(bool in_registers, bool round_where_they_lie) {
  return fmt::format("{}{}", in_registers ? "" : ", shared", round_where_they_lie ? ", rounded once" : "");
}

template <int kWidth, int kRows, int kWarps, int kStep, bool kInRegisters, bool kRoundWhereTheyLie, int kBlocks>
Choice queries() {
  return {launch_queries<FusedQueries<kWidth, kRows, kWarps, kStep, kInRegisters, kRoundWhereTheyLie, kBlocks>>,
          fmt::format("{} x {} queries, {} keys{}", kWarps, kRows, kStep, kinds(kInRegisters, kRoundWhereTheyLie))};
}
template <int kWidth, int kRows, int kWarps, int kStep, bool kInRegisters, bool kRoundWhereTheyLie, int kBlocks>
Choice keys() {
  return {launch_keys<FusedKeys<kWidth, kRows, kWarps, kStep, kInRegisters, kRoundWhereTheyLie, kBlocks>>,
          fmt::format("{} x {} keys, {} queries{}", kWarps, kRows, kStep, kinds(kInRegisters, kRoundWhereTheyLie))};
}

class FusedBackwardKernel final : public Kernel {
 public:
  FusedBackwardKernel(const AttentionShape& shape, const Box& q, Choice queries, Choice keys)
      : s_(shape),
        workspace_bytes_(part_bytes(q.elements() / shape.width * static_cast<std::int64_t>(sizeof(float)))),
        queries_(std::move(queries)),
        keys_(std::move(keys)) {}
  std::string name() const override { return fmt::format("fused {} + {}", queries_.name, keys_.name); }
  std::int64_t workspace_bytes() const override { return workspace_bytes_; }
  void run(const KernelRun& run) const override {
    float* const mean = reinterpret_cast<float*>(run.workspace);
    queries_.launch(s_, run, mean);
    keys_.launch(s_, run, mean);
  }

 private:
  AttentionShape s_;
  std::int64_t workspace_bytes_;
  Choice queries_, keys_;
};

Choice choose(int wanted, std::initializer_list<Choice> from) {
  const auto at = static_cast<std::size_t>(wanted);
  return *(from.begin() + (at < from.size() ? at : 0));
}

Choice choose_queries(std::int64_t width) {
  const int wanted = fused_attention().queries;
  if (width <= 32) return choose(wanted, {queries<32, 16, 4, 64, true, false, 2>(), queries<32, 32, 4, 32, true, true, 2>()});
  if (width <= 64)
    return choose(wanted, {queries<64, 16, 4, 64, true, false, 2>(), queries<64, 16, 4, 32, true, false, 3>(),
                           queries<64, 16, 8, 64, true, false, 1>(), queries<64, 16, 8, 64, true, true, 1>(),
                           queries<64, 16, 8, 32, true, true, 1>(), queries<64, 32, 4, 32, false, false, 2>(),
                           queries<64, 32, 4, 32, false, true, 2>()});
  return choose(wanted, {queries<128, 16, 4, 16, false, false, 2>(), queries<128, 16, 4, 16, false, true, 2>()});
}

Choice choose_keys(std::int64_t width) {
  const int wanted = fused_attention().keys;
  if (width <= 32) return choose(wanted, {keys<32, 16, 4, 64, true, false, 2>(), keys<32, 32, 4, 32, true, true, 2>()});
  if (width <= 64)
    return choose(wanted, {keys<64, 16, 4, 32, true, false, 2>(), keys<64, 16, 4, 64, true, false, 2>(),
                           keys<64, 16, 8, 32, true, false, 1>(), keys<64, 16, 8, 32, true, true, 1>(),
                           keys<64, 32, 4, 32, false, false, 2>(), keys<64, 32, 4, 32, false, true, 2>()});
  return choose(wanted, {keys<128, 16, 4, 16, false, false, 2>(), keys<128, 16, 4, 16, false, true, 2>()});
}

}  // namespace

std::unique_ptr<Kernel> make_fused_backward(const AttentionShape& shape, const Box& q) {
  return std::make_unique<FusedBackwardKernel>(shape, q, choose_queries(shape.width), choose_keys(shape.width));
}

}  // namespace outsize::OUTSIZE_PLACE
