#include "ops/attention/cuda_fused.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// A warp has kRows queries, a block kWarps warps; keys come kKeys at a time, and are rounded where they lie or by each warp.
// kWidth: features of a head, as they are stored here.
template <int kWidth, int kRows, int kWarps, int kKeys, bool kRoundWhereTheyLie, int kBlocksOfCard>
struct FusedForward {
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kBlocks = kBlocksOfCard;
  static constexpr int kQueries = kRows * kWarps;
  static constexpr std::int64_t kShared = std::int64_t{4} * kKeys * kWidth * sizeof(float);  // keys and values, twice

  using Tile = SharedTile<kWidth, kRoundWhereTheyLie>;

  FusedCall call;
  const float* q;
  const float* k;
  const float* v;
  float* y;
  float* lse;

  // What a warp keeps of its queries: the sums relative to 2^most, and of the weights each lane its own.
  struct State {
    Factor<kRows, kWidth> q;
    TurnedFragment<kRows, kWidth> sum;
    RowValues<kRows> most, total;
  };

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    const FusedCall::Place place = call.place(block.x());
    const Scores& scores = call.scores;
    const int first = place.part * kQueries;
    const int last = (first + kQueries < call.queries ? first + kQueries : call.queries) - 1;
    const int steps = (scores.visible(last) + kKeys - 1) / kKeys;
    const auto tile = [&](int step, int which) {
      return Tile{reinterpret_cast<float*>(block.shared()) + (step % 2 * 2 + which) * kKeys * kWidth};
    };
    typename Block::template OwnOfWarp<State> states;
    const auto fetch_step = [&](int step) {
      block.fetch([&](int thread, Copies& copies) {
        if (step >= steps) return;
        const int key = step * kKeys;
        const std::int64_t at = place.of_keys + key * call.features;
        fetch_rows<kKeys, kThreads>(copies, thread, tile(step, 0), k + at, call.features, scores.keys - key, scores.width);
        fetch_rows<kKeys, kThreads>(copies, thread, tile(step, 1), v + at, call.features, scores.keys - key, scores.width);
      });
    };
    fetch_step(0);
    block.each_warp([&](Warp warp) {
      State& own = states[warp.number()];
      const int query = first + warp.number() * kRows;
      Fragment<kRows, kWidth> loaded;
      load_rows(warp, loaded, q + place.of_queries + query * call.features, call.features, call.queries - query, scores.width);
      own.q = rounded(loaded, call.factor());
      own.sum.clear();
      OUTSIZE_UNROLL
      for (int i = 0; i < own.most.kHeldRows; ++i) {
        own.most.of[i] = -INFINITY;
        own.total.of[i] = 0;
      }
    });
    for (int step = 0; step < steps; ++step) {
      fetch_step(step + 1);
      block.template fetched<1>([&](int thread) {
        if constexpr (kRoundWhereTheyLie)
          for (int which = 0; which < 2; ++which) round_rows<kKeys, kThreads>(thread, tile(step, which));
      });
      block.each_warp([&](Warp warp) {
        add(warp, states[warp.number()], place, first + warp.number() * kRows, step * kKeys, tile(step, 0), tile(step, 1));
      });
    }
    block.each_warp([&](Warp warp) { finish(warp, states[warp.number()], place, first + warp.number() * kRows); });
  }

 private:
  // Adds what the queries from `query` on take from the keys from `key` on.
  OUTSIZE_BOTH void add(Warp warp, State& own, const FusedCall::Place& place, int query, int key, Tile keys, Tile values) const {
    const Scores& scores = call.scores;
    Fragment<kRows, kKeys> weights;
    weights.clear();
    multiply(warp, weights, own.q, across(keys));
    call.template score<false>(warp, weights, place, query, key);
    if (!call.all_seen(query, key + kKeys))
      each_quad(weights, [&](int i, int j, Vector<float, 4>& quad) {
        const int visible = scores.visible(query + held_row(warp, i)) - key - held_column(warp, j);
        OUTSIZE_UNROLL
        for (int c = 0; c < 4; ++c) quad.of[c] = c < visible ? quad.of[c] : -INFINITY;
      });

    RowValues<kRows> most = own.most;
    each_quad(weights, [&](int i, int, Vector<float, 4>& quad) {
      OUTSIZE_UNROLL
      for (int c = 0; c < 4; ++c) most.of[i] = fmaxf(most.of[i], quad.of[c]);
    });
    row_maximum(warp, most);
    RowValues<kRows> base, shrink;
    OUTSIZE_UNROLL
    for (int i = 0; i < most.kHeldRows; ++i) {
      base.of[i] = most.of[i] == -INFINITY ? 0.0f : most.of[i];
      shrink.of[i] = power_of_two(own.most.of[i] - base.of[i]);
      own.most.of[i] = most.of[i];
      own.total.of[i] *= shrink.of[i];
    }
    own.sum.scale(warp, shrink);
    each_quad(weights, [&](int i, int, Vector<float, 4>& quad) {
      OUTSIZE_UNROLL
      for (int c = 0; c < 4; ++c) {
        quad.of[c] = power_of_two(quad.of[c] - base.of[i]);
        own.total.of[i] += quad.of[c];
      }
    });
    if (scores.dropout.key != nullptr)
      each_quad(weights, [&](int i, int j, Vector<float, 4>& quad) {
        const std::uint32_t bits = call.kept(place, query + held_row(warp, i), key + held_column(warp, j));
        OUTSIZE_UNROLL
        for (int c = 0; c < 4; ++c) quad.of[c] *= ((bits >> c) & 1) != 0 ? scores.dropout.kept : 0.0f;
      });
    multiply(warp, own.sum, rounded(weights), straight(values));
  }

  OUTSIZE_BOTH void finish(Warp warp, State& own, const FusedCall::Place& place, int query) const {
    row_sum(warp, own.total);
    RowValues<kRows> inverse;
    OUTSIZE_UNROLL
    for (int i = 0; i < own.total.kHeldRows; ++i) {
      // A NaN makes the total NaN; where it is 0 the query sees no key, or −∞ only.
      const bool nothing = own.total.of[i] == 0;
      inverse.of[i] = nothing ? 0.0f : 1 / own.total.of[i];
      const int row = query + held_row(warp, i);
      if (row < call.queries && speaks_for_rows(warp))
        lse[place.of_rows + row] = nothing ? 0.0f : (own.most.of[i] + log2f(own.total.of[i])) * kLogOf2;
    }
    own.sum.scale(warp, inverse);
    own.sum.store_rows(warp, y + place.of_queries + query * call.features, call.features, call.queries - query, call.scores.width);
  }
};

template <class Program>
class FusedForwardKernel final : public Kernel {
 public:
  FusedForwardKernel(const AttentionShape& shape, std::string name) : s_(shape), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::int64_t workspace_bytes() const override { return 0; }
  void run(const KernelRun& run) const override {
    const Scores scores = scores_of(s_, run, run.out_boxes[0]);
    const Program program{FusedCall(scores, scores.call_queries, Program::kQueries, run.out_boxes[0].extent(0), true),
                          in<float>(run, 0),
                          in<float>(run, 1),
                          in<float>(run, 2),
                          out<float>(run, 0),
                          out<float>(run, 1)};
    OUTSIZE_CHECK(aligned<4>(program.q, program.k, program.v, program.y) && scores.vectors());
    launch(program, {program.call.blocks(), 1, Program::kShared}, run.queue);
  }

 private:
  AttentionShape s_;
  std::string name_;
};

template <int kWidth, int kRows, int kWarps, int kKeys, bool kRoundWhereTheyLie, int kBlocks>
std::unique_ptr<Kernel> make(const AttentionShape& shape) {
  using Program = FusedForward<kWidth, kRows, kWarps, kKeys, kRoundWhereTheyLie, kBlocks>;
  static_assert(Program::kShared <= kMostShared);
  return std::make_unique<FusedForwardKernel<Program>>(
      shape, fmt::format("fused {} x {} queries, {} keys{}", kWarps, kRows, kKeys, kRoundWhereTheyLie ? ", rounded once" : ""));
}

}  // namespace

std::unique_ptr<Kernel> make_fused_forward(const AttentionShape& shape) {
  using Make = std::unique_ptr<Kernel> (*)(const AttentionShape& shape);
  const auto choose = [&](std::initializer_list<Make> from) {
    const auto wanted = static_cast<std::size_t>(fused_attention().forward);
    return *(from.begin() + (wanted < from.size() ? wanted : 0));
  };
  if (shape.width <= 32) return choose({make<32, 32, 4, 64, false, 2>, make<32, 16, 8, 64, true, 2>})(shape);
  if (shape.width <= 64)
    return choose({make<64, 32, 4, 64, false, 2>, make<64, 32, 4, 32, false, 2>, make<64, 32, 4, 32, true, 2>,
                   make<64, 32, 4, 64, true, 2>, make<64, 16, 8, 64, false, 1>, make<64, 16, 8, 32, false, 2>,
                   make<64, 16, 8, 32, true, 2>, make<64, 16, 4, 64, false, 3>})(shape);
  return choose({make<128, 16, 4, 32, false, 2>, make<128, 16, 8, 32, true, 1>})(shape);
}

}  // namespace outsize::OUTSIZE_PLACE
