#include "plan/planners/lrcnn.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "ops/window.h"
#include "plan/planners/sft_graph.h"
#include "plan/reckon/lives.h"

namespace outsize {

namespace {

// Elements of zˡ a row of pixels.
double row_elements(const RowStack& stack, std::int64_t l) {
  const RowLayer& layer = stack.layers[l];
  return static_cast<double>(stack.batch) * static_cast<double>(layer.width) * static_cast<double>(layer.channels);
}

// Σ ϱˡ over 1 ≤ l < L.
double inner_elements(const RowStack& stack) {
  double sum = 0;
  for (std::int64_t l = 1; l < stack.depth(); ++l) sum += static_cast<double>(elements_of(stack, l));
  return sum;
}

double last_elements(const RowStack& stack) { return static_cast<double>(elements_of(stack, stack.depth())); }

// Rows of zˡ that layer l + 1 reads for one row and again for the next.
std::int64_t shared_rows(const RowStack& stack, std::int64_t l) {
  const RowLayer& next = stack.layers[l + 1];
  return std::max<std::int64_t>(0, next.kernel - next.stride);
}

// By l, from the boundary in z^L down: `step(value, layer l + 1)`.
template <class Step>
Table<std::int64_t> from_last(const RowStack& stack, Step step) {
  Table<std::int64_t> rows(stack.layers.size(), 0);
  for (std::int64_t l = stack.depth(); l-- > 0;) rows[l] = step(rows[l + 1], stack.layers[l + 1]);
  return rows;
}

// The tallest of the rows of zˡ, by l.
Table<std::int64_t> tallest_rows(const Table<std::vector<std::int64_t>>& ends) {
  Table<std::int64_t> tallest;
  for (const std::vector<std::int64_t>& of : ends) {
    std::int64_t most = of.front();
    for (std::size_t r = 1; r < of.size(); ++r) most = std::max(most, of[r] - of[r - 1]);
    tallest.push_back(most);
  }
  return tallest;
}

}  // namespace

std::int64_t elements_of(const RowStack& stack, std::int64_t l) {
  const RowLayer& layer = stack.layers[l];
  return stack.batch * layer.height * layer.width * layer.channels;
}

Table<std::vector<std::int64_t>> shared_row_ends(const RowStack& stack, std::vector<std::int64_t> ends) {
  Table<std::vector<std::int64_t>> all(stack.layers.size());
  all.back() = std::move(ends);
  for (std::int64_t l = stack.depth(); l-- > 0;) {
    const RowLayer& next = stack.layers[l + 1];
    for (const std::int64_t end : all[l + 1])
      all[l].push_back(std::clamp<std::int64_t>((end - 1) * next.stride + next.kernel - next.padding, 0, stack.layers[l].height));
    all[l].back() = stack.layers[l].height;  // the last row also has what no window reads
  }
  return all;
}

std::vector<std::int64_t> even_row_ends(std::int64_t height, std::int64_t rows) {
  std::vector<std::int64_t> ends;
  for (std::int64_t r = 1; r <= rows; ++r) ends.push_back(height * r / rows);
  return ends;
}

Table<std::int64_t> overlapped_rows(const RowStack& stack) {
  return from_last(stack, [](std::int64_t rows, const RowLayer& next) { return (rows - 1) * next.stride + next.kernel; });
}

Table<std::int64_t> overlapped_above(const RowStack& stack) {
  return from_last(stack, [](std::int64_t rows, const RowLayer& next) { return next.stride * rows + next.padding; });
}

Table<std::int64_t> overlapped_below(const RowStack& stack) {
  return from_last(stack,
                   [](std::int64_t rows, const RowLayer& next) { return (rows - 1) * next.stride + next.kernel - next.padding; });
}

double forward_elements(const RowStack& stack, std::int64_t rows) {
  std::int64_t most = 0;
  for (std::int64_t l = 1; l < stack.depth(); ++l) most = std::max(most, elements_of(stack, l) + elements_of(stack, l + 1));
  return static_cast<double>(most) / static_cast<double>(rows) + last_elements(stack);
}

double backward_elements(const RowStack& stack, std::int64_t rows) {
  return inner_elements(stack) / static_cast<double>(rows) + last_elements(stack);
}

double shared_elements(const RowStack& stack, std::int64_t rows) {
  const Table<std::int64_t> tallest = tallest_rows(shared_row_ends(stack, even_row_ends(stack.layers.back().height, rows)));
  double sum = last_elements(stack);
  for (std::int64_t l = 1; l < stack.depth(); ++l)
    sum += row_elements(stack, l) * static_cast<double>(tallest[l] + (rows - 1) * shared_rows(stack, l));
  return sum;
}

double overlapped_elements(const RowStack& stack, std::int64_t rows) {
  const Table<std::int64_t> overlap = overlapped_rows(stack);
  double sum = inner_elements(stack);
  for (std::int64_t l = 1; l < stack.depth(); ++l)
    sum += static_cast<double>(rows - 1) * static_cast<double>(overlap[l]) * row_elements(stack, l);
  return sum / static_cast<double>(rows) + last_elements(stack);
}

std::int64_t fewest_rows(const std::function<double(std::int64_t)>& elements, std::int64_t most, std::int64_t bytes) {
  constexpr double kBytes = 4;  // of an element
  for (std::int64_t rows = 1; rows <= most; ++rows)
    if (elements(rows) * kBytes < static_cast<double>(bytes)) return rows;
  return 0;
}

std::int64_t most_shared_rows(const RowStack& stack) {
  const std::int64_t height = stack.layers.back().height;
  const auto serve = [&](std::int64_t rows) {
    const Table<std::int64_t> tallest = tallest_rows(shared_row_ends(stack, even_row_ends(height, rows)));
    for (std::int64_t l = 1; l < stack.depth(); ++l)
      if ((rows - 1) * shared_rows(stack, l) > tallest[l]) return false;
    return true;
  };
  // With more rows more are shared, and a row is no taller: all up to some number serve, none beyond.
  std::int64_t most = 1, too_many = height + 1;
  while (most + 1 < too_many) {
    const std::int64_t middle = most + (too_many - most) / 2;
    (serve(middle) ? most : too_many) = middle;
  }
  return most;
}

std::int64_t most_overlapped_rows(const RowStack& stack) {
  const std::int64_t overlap = overlapped_rows(stack)[0];
  if (overlap <= 0) return stack.layers.back().height;
  return std::clamp<std::int64_t>(stack.layers.front().height / overlap, 1, stack.layers.back().height);
}

RowStack row_stack(const Graph& graph, std::span<const Group> groups) {
  RowStack stack;
  const auto is_map = [&](ValueId value) { return value && outsize::is_map(graph.value(value).type.format); };
  const auto layer_of = [&](ValueId value) {
    const Dims& shape = graph.value(value).type.shape;
    RowLayer layer{.height = shape[2], .channels = shape[1]};
    layer.width = shape.product() / (shape[0] * shape[1] * shape[2]);
    return layer;
  };
  if (groups.empty() || !is_map(groups.front().input)) return stack;
  stack.batch = graph.value(groups.front().input).type.shape[0];
  stack.layers.push_back(layer_of(groups.front().input));
  for (const Group& group : groups) {
    if (!is_map(group.output)) break;
    RowLayer layer = layer_of(group.output);
    // Two single rows in the middle say where the window of all the group's ops begins, ends and moves to.
    const TileGraph nodes = tile_graph(graph, group.forward);
    Table<Table<bool>> divided;
    for (const TileNode& node : nodes) {
      divided.emplace_back(node.iterations.size(), false);
      if (node.iterations.size() > 2) divided.back()[2] = true;
    }
    const auto window_of = [&](std::int64_t row) {
      const TileSpaces<Interval> spaces = tile_ranges(nodes, divided, layer.height, row);
      Interval all{0, 0};
      for (std::int64_t n = 0; n < nodes.size(); ++n)
        for (std::int64_t i = 0; i < nodes[n].inputs.size(); ++i)
          if (nodes[n].inputs[i].source == TileInput::kOutside && nodes[n].inputs[i].extent.size() > 2)
            all = hull(all, spaces.inputs[n][i][2]);
      return all;
    };
    const std::int64_t middle = layer.height / 2;
    if (middle == 0) break;
    const Interval before = window_of(middle - 1), window = window_of(middle);
    layer.stride = window.lo - before.lo;
    if (layer.stride <= 0) break;
    layer.kernel = window.size();
    layer.padding = middle * layer.stride - window.lo;
    stack.layers.push_back(layer);
  }
  return stack;
}

namespace {

// The layers that passes run through, as the formulas see them.
class PassRows {
 public:
  PassRows(const Graph& graph, TiledChoice::Halo halo)
      : graph_(graph), halo_(halo), groups_(groups_of(graph)), group_of_(graph.op_count(), -1) {
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (const std::vector<OpId>* ops : {&groups_[g].forward, &groups_[g].backward})
        for (const OpId op : *ops) group_of_[op] = static_cast<std::int64_t>(g);
  }

  // The stated bound: more rows do not serve.
  std::int64_t most(const Pass& pass) { return layers_of(pass).most; }

  // N_FP or N_BP: the fewest rows within the bound that the sums of elements say fit `bytes` , or the bound.
  std::int64_t fewest(const Pass& pass, std::int64_t bytes) {
    const Layers& layers = layers_of(pass);
    if (bytes <= 0 || layers.stack.depth() <= 0) return 1;
    const bool backward = graph_.op(pass.ops.back()).phase == Phase::backward;
    const std::int64_t rows = fewest_rows(
        [&](std::int64_t n) {
          if (!backward) return forward_elements(layers.stack, n);
          return halo_ == TiledChoice::Halo::share ? shared_elements(layers.stack, n) : overlapped_elements(layers.stack, n);
        },
        layers.most, bytes);
    return rows == 0 ? layers.most : rows;
  }

 private:
  struct Layers {
    RowStack stack;
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
  };

  const Layers& layers_of(const Pass& pass) {
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = -1;
    for (const OpId op : pass.ops) {
      if (group_of_[op] < 0) continue;
      first = std::min(first, group_of_[op]);
      last = std::max(last, group_of_[op]);
    }
    const auto [known, is_new] = known_.try_emplace({first, last});
    Layers& layers = known->second;
    if (is_new && last >= 0) {
      layers.stack = row_stack(graph_, std::span(groups_).subspan(first, last - first + 1));
      if (layers.stack.depth() > 0)
        layers.most = halo_ == TiledChoice::Halo::share ? most_shared_rows(layers.stack) : most_overlapped_rows(layers.stack);
    }
    return layers;
  }

  const Graph& graph_;
  const TiledChoice::Halo halo_;
  const std::vector<Group> groups_;
  IdVector<OpId, std::int64_t> group_of_;                          // by op; −1: none
  std::map<std::pair<std::int64_t, std::int64_t>, Layers> known_;  // by first and last group
};

bool has_rows(const PassTrial& trial) { return trial.driver().format == Format::map; }

// So many rows of the whole batch.
bool fits_rows(PassTrial& trial, std::int64_t rows) {
  Dims extents = trial.driver().shape;
  extents[2] = ceil_div(extents[2], rows);
  return trial.fits(extents);
}

// The fewest rows of the whole batch that fit. Where the search begins is a guess: the bytes of the tiles decide.
bool cut_to_fewest_rows(PassTrial& trial, std::int64_t guess) {
  const std::int64_t most = trial.driver().shape[2];
  std::int64_t not_fits = 0, fits = most + 1;
  for (std::int64_t rows = std::clamp<std::int64_t>(guess, 1, most), step = 1;; step *= 2) {
    const bool fitted = fits_rows(trial, rows);
    (fitted ? fits : not_fits) = rows;
    const std::int64_t next = std::clamp<std::int64_t>(fitted ? rows - step : rows + step, 1, most);
    if (next == rows || next <= not_fits || next >= fits) break;
    rows = next;
  }
  while (not_fits + 1 < fits) {
    const std::int64_t middle = not_fits + (fits - not_fits) / 2;
    (fits_rows(trial, middle) ? fits : not_fits) = middle;
  }
  return fits <= most && fits_rows(trial, fits);
}

// Why the graph cannot be cut into as many rows as were asked for; empty: it can, or none were.
std::string misfit(const PlanRequest& request) {
  if (!request.options.has(kLrcnnRows)) return {};
  std::int64_t tallest = 0;
  for (const Value& value : request.graph.values())
    if (value.type.format == Format::map) tallest = std::max(tallest, value.type.shape[2]);
  const std::int64_t rows = request.options.integer(kLrcnnRows);
  if (tallest == 0) return fmt::format("rows={}, but it has no maps that could be cut into rows", rows);
  return rows > tallest ? fmt::format("rows={}, but its tallest map has {}", rows, tallest) : std::string();
}

}  // namespace

Planned<Plan> plan_lrcnn(const PlanRequest& request, std::string_view planner, TiledChoice::Halo halo, bool checkpoints) {
  if (std::string reason = misfit(request); !reason.empty()) return refusal_of(request, planner, std::move(reason));
  TiledSearch search{.halo = halo, .checkpoints = checkpoints, .remake = remake_of(request.options)};
  if (request.options.has(kLrcnnLayers)) search.layers = request.options.integer(kLrcnnLayers);
  if (request.options.has(kLrcnnStream)) {
    const std::string_view stream = request.options.word(kLrcnnStream);
    search.stream = stream == "none"     ? TiledChoice::Stream::none
                    : stream == "inputs" ? TiledChoice::Stream::inputs
                                         : TiledChoice::Stream::all;
  }
  if (request.options.has(kLrcnnRows)) {
    const std::int64_t rows = request.options.integer(kLrcnnRows);
    search.whole = false;
    search.cut = [rows](PassTrial& trial) { return has_rows(trial) ? fits_rows(trial, rows) : cut_to_fastest(trial); };
    return fastest_tiled_plan(request, planner, search);
  }
  PassRows rows(request.graph, halo);
  CutPass cut = cut_to_fastest;
  if (request.options.word(kLrcnnCut) == "rows")
    cut = [&rows](PassTrial& trial) {
      return has_rows(trial) ? cut_to_fewest_rows(trial, rows.fewest(trial.pass(), trial.limit())) : cut_to_fastest(trial);
    };
  search.cut = [&](PassTrial& trial) {
    if (!cut(trial)) return false;
    if (!has_rows(trial)) return true;
    return ceil_div(trial.driver().shape[2], trial.extents()[2]) <= rows.most(trial.pass());
  };
  Planned<Plan> plan = fastest_tiled_plan(request, planner, search);
  if (plan) return plan;
  search.cut = cut;  // the bounds are of efficiency: beyond them is better than not at all
  return fastest_tiled_plan(request, planner, search);
}

}  // namespace outsize
