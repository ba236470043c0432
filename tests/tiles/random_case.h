#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include "graph/opdef.h"
#include "graph/step_graph.h"
#include "plan/tiles/tiles.h"
#include "plan/tiling/regions.h"
#include "plan/tiling/tiled.h"
#include "plan/tiling/weights.h"
#include "random_graph.h"
#include "random_tokens.h"

namespace outsize {

inline std::int64_t from_environment(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

// How often a kind of pass was asked for, and how often refused.
struct Count {
  std::int64_t asked = 0, refused = 0;
  std::map<std::string, std::int64_t> why;  // with the first seed
};

// Cuts along channels and heads, which many an op takes whole.
inline constexpr const char* kChannels = "channels";

// One random training step, and a plan that cuts it into passes and tiles at random.
class Case {
 public:
  Case(std::uint64_t seed, std::map<std::string, Count>& counts) : seed_(seed), random_(seed), counts_(counts) {}

  StepGraph graph() {
    TrainingOptions options{.gradients = !one_in(4)};
    const bool tokens = one_in(6);
    cut_ = !tokens && !one_in(8) ? Cut::space : tokens && !one_in(3) ? Cut::tokens : Cut::samples;
    const Graph forward = tokens ? RandomTokens(random_).make() : RandomGraph(random_).make();
    if (one_in(8)) options.clip_norm = 0.1;
    if (one_in(4)) {
      options.optimizer = Optimizer::adam;
      options.eps = 1;  // large: a gradient that is 0 but for rounding is to move nothing
    }
    return make_training_graph(forward, options);
  }

  Plan plan(const Graph& graph) {
    Plan plan = plan_of(graph, tiling(graph), "test");
    if (one_in(2)) {
      std::vector<ValueId> weights = splittable_weights(graph, plan);
      std::erase_if(weights, [&](ValueId) { return one_in(3); });
      split_weights(graph, plan, weights);
    }
    for (auto& [value, home] : plan.home) home = static_cast<Tier>(below(3));
    const std::vector<IdSet<ValueId>> later = values_read_later(graph, plan);
    for (std::size_t p = 0; p < plan.passes.size(); ++p) form(graph, plan, p, later[p]);
    for (ValueId value : streamable(graph, plan, later)) plan.home[value] = home(graph, value);
    return plan;
  }

  bool one_in(std::int64_t count) { return below(count) == 0; }

 private:
  std::int64_t below(std::int64_t count) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count)); }

  // Anywhere: an input also at its source; what is reduced over tiles not on disk, where nothing adds up.
  Tier home(const Graph& graph, ValueId value) {
    const OpId producer = graph.value(value).producer;
    if (!producer) return static_cast<Tier>(below(4));
    const Op& op = graph.op(producer);
    return static_cast<Tier>(below(op.def->can_gather({graph, op}) ? 3 : 2));
  }

  // Ops that are tiled: all that can be, those of the first layers, or any.
  Tiling tiling(const Graph& graph) {
    Tiling tiling;
    const std::int64_t kind = below(3), end = below(graph.op_count()) + 1;
    const bool few = one_in(2);
    for (std::int64_t o = 0; o < graph.op_count(); ++o) {
      const Op& op = graph.op(OpId(o));
      const std::int64_t layer = op.forward ? op.forward.index : o;
      const bool chosen = kind == 0 || (kind == 1 && layer < end) || (kind == 2 && (few ? one_in(3) : !one_in(4)));
      tiling.tiled.push_back(chosen && can_tile(graph, OpId(o), cut_));
    }
    const std::int64_t cuts = one_in(2) ? 0 : below(4) + 1, stored = below(6);
    tiling.stored.resize(graph.value_count());
    for (std::int64_t v = 0; v < graph.value_count(); ++v) {
      tiling.cuts.push_back(cuts > 0 && below(cuts + 1) == 0);
      tiling.stored[ValueId(v)] = stored == 1                ? Stored::always
                                  : stored == 2 && one_in(2) ? Stored::always
                                  : stored == 3              ? static_cast<Stored>(below(4))
                                                             : Stored::never;
    }
    if (stored >= 4) tiling.stored = stored_in_phase(graph, tiling, static_cast<Stored>(below(4)));
    return tiling;
  }

  // The dimensions of the driver that may be cut: samples, and space or tokens; one of space where rows are carried.
  std::vector<int> dims_to_cut(const Dims& shape, bool one_spatial) {
    std::vector<int> dims{0};
    if (cut_ == Cut::tokens && shape.rank() > 1) dims.push_back(1);
    const int only = shape.rank() > 2 ? 2 + static_cast<int>(below(shape.rank() - 2)) : 0;
    for (int dim = 2; cut_ == Cut::space && dim < shape.rank(); ++dim)
      if (!one_spatial || dim == only) dims.push_back(dim);
    return dims;
  }

  // Boundaries between tiles of some of these dimensions: anywhere, or every so many rows, so that tiles repeat.
  void cut(const Graph& graph, Pass& pass, const std::vector<int>& dims) {
    const Dims& shape = graph.value(pass.driver).type.shape;
    pass.cuts.resize(static_cast<std::size_t>(shape.rank()));
    for (const int dim : dims) {
      if (one_in(3)) continue;
      const std::int64_t every = one_in(2) ? below(4) + 1 : 0, often = below(3) + 2;
      for (std::int64_t row = 1; row < shape[dim]; ++row)
        if (every > 0 ? row % every == 0 : one_in(often)) pass.cuts[static_cast<std::size_t>(dim)].push_back(row);
    }
  }

  void form(const Graph& graph, Plan& plan, std::size_t p, const IdSet<ValueId>& later) {
    Pass& pass = plan.passes[p];
    const bool of_weights = weight_dim(graph, plan, pass) >= 0;
    const std::int64_t kind = of_weights ? 0 : below(7);
    Pass tried = pass;
    std::string name = of_weights ? "weights" : "overlap";
    bool one_spatial = false;
    if (kind == 1 || kind == 2) {
      tried = with_shared_rows(graph, pass);
      if (kind == 2) std::erase_if(tried.share, [&](ValueId) { return one_in(2); });
      name = kind == 1 ? "share all" : "share some";
    }
    if (kind >= 3)
      if (std::optional<Pass> pushed = with_pushed_gradients(graph, pass)) {
        tried = std::move(*pushed);
        name = "push";
        if (kind == 4) {
          name = "push, down";
          tried.descending = true;
        }
        if (kind == 5) {
          name = "share down";
          one_spatial = true;
          share_down(graph, plan, p, tried);
        }
        if (kind == 6) {
          name = "share up";
          one_spatial = true;
          share_up(graph, tried);
        }
      }
    tried.ahead = one_in(2);
    const Dims& shape = graph.value(tried.driver).type.shape;
    cut(graph, tried, of_weights ? std::vector{0, 1} : dims_to_cut(shape, one_spatial));
    // Channels or heads besides: where an op takes them whole, the pass stays as it is.
    const int channels = cut_ == Cut::tokens ? 2 : 1;
    if (!of_weights && channels < shape.rank() && one_in(4)) {
      Pass more = tried;
      cut(graph, more, {channels});
      if (take(graph, kChannels, std::move(more), later, pass)) return;
    }
    take(graph, name, std::move(tried), later, pass);
  }

  // Whether the pass can be tiled so; if so, it is.
  bool take(const Graph& graph, const std::string& name, Pass tried, const IdSet<ValueId>& later, Pass& pass) {
    Count& count = counts_[name];
    ++count.asked;
    try {
      const PassTiles tiles(graph, tried, later);
      pass = std::move(tried);
      return true;
    } catch (const UserError& error) {
      ++count.refused;
      count.why.insert({error.what(), static_cast<std::int64_t>(seed_)});
      return false;
    }
  }

  // Tiles from the last to the first: rows of what is made again were saved by an earlier pass.
  void share_down(const Graph& graph, const Plan& plan, std::size_t p, Pass& pass) {
    pass.descending = true;
    pass.saved_in = static_cast<Tier>(below(3));
    const auto makes = [&](const Pass& one, ValueId value) {
      const OpId producer = graph.value(value).producer;
      return std::find(one.ops.begin(), one.ops.end(), producer) != one.ops.end();
    };
    std::vector<ValueId> again;
    for (OpId id : pass.ops) {
      const Op& op = graph.op(id);
      if (!op.def->can_gather({graph, op})) continue;
      for (ValueId output : op.outputs) {
        if (graph.value(output).type.format != Format::map || one_in(3)) continue;
        const ValueId of = graph.value(output).gradient_of;
        if (op.phase == Phase::forward)
          again.push_back(output);
        else if (of && !makes(pass, of) && graph.value(of).producer)
          pass.share.push_back(of);
      }
    }
    for (std::size_t earlier = 0; earlier < p && !again.empty(); ++earlier) {
      const Pass& saving = plan.passes[earlier];
      std::vector<ValueId> saved;
      for (ValueId value : again)
        if (makes(saving, value)) saved.push_back(value);
      if (saved.empty()) continue;
      pass.saved_by = saving.name;
      pass.share.insert(pass.share.end(), saved.begin(), saved.end());
      break;
    }
  }

  void share_up(const Graph& graph, Pass& pass) {
    pass.gather_gradients = true;
    for (OpId id : pass.ops) {
      const Op& op = graph.op(id);
      if (op.phase != Phase::forward || !op.def->can_gather({graph, op})) continue;
      for (ValueId output : op.outputs)
        if (graph.value(output).type.format == Format::map && !one_in(3)) pass.share.push_back(output);
    }
  }

  Cut cut_ = Cut::space;
  const std::uint64_t seed_;
  std::mt19937_64 random_;
  std::map<std::string, Count>& counts_;
};

}  // namespace outsize
