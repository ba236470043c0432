#include "plan/planners/sft_graph.h"

#include <algorithm>
#include <queue>
#include <set>

#include "base/id_vector.h"
#include "graph/opdef.h"

namespace outsize {

namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }

// To find after how many elements the windows of an op repeat, it is asked about elements in the middle.
constexpr std::int64_t kProbes = 17;
constexpr std::int64_t kMostPeriod = 8;

// What an op reads of a dimension for single elements of an output's dimension, as one function of ranges.
class WindowProbe {
 public:
  WindowProbe(const OpSite& site, int input, int input_dim, int output_dim) {
    const Dims& out = site.out(0).shape;
    const std::int64_t extent = site.in(input).shape[input_dim];
    const std::int64_t first = std::max<std::int64_t>(0, out[output_dim] / 2 - kProbes / 2);
    for (std::int64_t m = first; m < std::min(out[output_dim], first + kProbes); ++m) {
      Box box = Box::whole(out);
      box.set(output_dim, {m, m + 1});
      const Interval read = site.op.def->gather(site, box).in[input][input_dim];
      pointwise_ = pointwise_ && extent == out[output_dim] && read == Interval{m, m + 1};
      read_.push_back({m, read});
    }
    // One that ends at the border may have been clipped, but not if it is as large as any: where a map is hardly larger than a
    // window, all of them end there.
    std::int64_t largest = 0;
    for (const Read& read : read_) largest = std::max(largest, read.range.size());
    std::erase_if(read_,
                  [&](const Read& read) { return (read.range.lo == 0 || read.range.hi == extent) && read.range.size() < largest; });
  }

  std::optional<TileWindow> window() const {
    if (pointwise_) return TileWindow{};
    for (std::int64_t period = 1; period <= kMostPeriod; ++period)
      if (const std::optional<TileWindow> found = with_period(period)) return found;
    return std::nullopt;
  }

 private:
  struct Read {
    std::int64_t element;
    Interval range;
  };

  std::optional<TileWindow> with_period(std::int64_t period) const {
    if (std::ssize(read_) <= period) return std::nullopt;
    TileWindow window;
    window.denominator = period;
    window.numerator = read_[period].range.lo - read_[0].range.lo;
    std::int64_t most_low = std::numeric_limits<std::int64_t>::max(), least_high = std::numeric_limits<std::int64_t>::min();
    for (const auto& [element, range] : read_) {
      most_low = std::min(most_low, range.lo * period + period - 1 - element * window.numerator);
      least_high = std::max(least_high, (range.hi - 1) * period + 1 - (element + 1) * window.numerator);
    }
    window.low = most_low;
    window.high = least_high;
    for (const auto& [element, range] : read_)
      if (window.range({element, element + 1}) != range) return std::nullopt;
    return window;
  }

  std::vector<Read> read_;
  bool pointwise_ = true;
};

// The dimension of an input that a cut along one of output 0 cuts, or nothing where there is none or several.
std::optional<int> dim_cut(const OpSite& site, int input, int output_dim) {
  const Dims& out = site.out(0).shape;
  const Dims& in = site.in(input).shape;
  if (out[output_dim] == 1) return std::nullopt;
  Box box = Box::whole(out);
  // All that is read of it: a stride may leave rows at the end that nothing reads.
  const Box all = site.op.def->gather(site, box).in[input];
  box.set(output_dim, {out[output_dim] / 2, out[output_dim] / 2 + 1});
  const Box read = site.op.def->gather(site, box).in[input];
  std::optional<int> found;
  for (int dim = 0; dim < in.rank(); ++dim) {
    if (read[dim] == all[dim]) continue;
    if (found) return std::nullopt;
    found = dim;
  }
  return found;
}

Table<std::int64_t> as_table(const Dims& dims) {
  Table<std::int64_t> all;
  for (int dim = 0; dim < dims.rank(); ++dim) all.push_back(dims[dim]);
  return all;
}

// A node whose iteration space is output 0's, and a reduced dimension for each of an input that is read whole.
TileNode gathering_node(const OpSite& site, const Table<int>& inputs) {
  TileNode node;
  node.iterations = as_table(site.out(0).shape);
  for (std::int32_t dim = 0; dim < node.iterations.size(); ++dim) node.to_output.push_back(dim);
  for (const int input : inputs) {
    TileInput edge;
    edge.extent = as_table(site.in(input).shape);
    edge.windows.resize(edge.extent.size());
    Table<bool> found(edge.extent.size(), false);
    for (int out = 0; out < site.out(0).shape.rank(); ++out) {
      const std::optional<int> dim = dim_cut(site, input, out);
      if (!dim) continue;
      const std::optional<TileWindow> window = WindowProbe(site, input, *dim, out).window();
      if (!window) continue;
      edge.windows[*dim] = *window;
      edge.windows[*dim].iteration = out;
      found[*dim] = true;
    }
    for (std::int64_t dim = 0; dim < found.size(); ++dim) {
      if (found[dim]) continue;
      edge.windows[dim].iteration = static_cast<std::int32_t>(node.iterations.size());
      node.iterations.push_back(edge.extent[dim]);
      node.to_output.push_back(TileNode::kReduced);
    }
    node.inputs.push_back(std::move(edge));
  }
  return node;
}

// A node that runs over the elements of what drives its reduction; other inputs of that shape are read likewise, the rest whole.
TileNode reducing_node(const OpSite& site, const Table<int>& inputs) {
  TileNode node;
  const Dims& driver = site.in(site.op.def->push_driver(site)).shape;
  node.iterations = as_table(driver);
  node.combines = true;
  for (const int input : inputs) {
    TileInput edge;
    edge.extent = as_table(site.in(input).shape);
    edge.windows.resize(edge.extent.size());
    for (std::int64_t dim = 0; dim < edge.extent.size(); ++dim) {
      if (site.in(input).shape == driver) {
        edge.windows[dim].iteration = static_cast<std::int32_t>(dim);
        continue;
      }
      edge.windows[dim].iteration = static_cast<std::int32_t>(node.iterations.size());
      node.iterations.push_back(edge.extent[dim]);
    }
    node.inputs.push_back(std::move(edge));
  }
  node.to_output.assign(node.iterations.size(), TileNode::kReduced);
  return node;
}

std::int64_t joined(std::int64_t a, std::int64_t b) { return std::max(a, b); }
Interval joined(Interval a, Interval b) { return hull(a, b); }
std::int64_t read_by(const TileWindow& window, std::int64_t size, std::int64_t extent) {
  return std::min(window.size(size), extent);
}
Interval read_by(const TileWindow& window, Interval range, std::int64_t extent) {
  return intersect(window.range(range), {0, extent});
}

// Listing 4. `part(extent)` is what a leaf takes of a dimension that is divided, `whole(extent)` the whole of one.
template <class Extent, class Part, class Whole>
TileSpaces<Extent> propagate(const TileGraph& graph, const Table<Table<bool>>& divided, Part part, Whole whole) {
  TileSpaces<Extent> spaces;
  spaces.iterations.resize(graph.size());
  spaces.inputs.resize(graph.size());
  Table<Table<Extent>> needed(graph.size());  // of a node's output, by dimension; empty: nothing reads it
  for (std::int64_t n = graph.size(); n-- > 0;) {
    const TileNode& node = graph[n];
    Table<Extent>& space = spaces.iterations[n];
    for (std::int64_t i = 0; i < node.iterations.size(); ++i) {
      if (needed[n].empty())
        space.push_back(divided[n][i] ? part(node.iterations[i]) : whole(node.iterations[i]));
      else
        space.push_back(node.to_output[i] == TileNode::kReduced ? whole(node.iterations[i]) : needed[n][node.to_output[i]]);
    }
    for (const TileInput& input : node.inputs) {
      Table<Extent> read;
      for (std::int64_t dim = 0; dim < input.windows.size(); ++dim)
        read.push_back(read_by(input.windows[dim], space[input.windows[dim].iteration], input.extent[dim]));
      if (input.source != TileInput::kOutside) {
        Table<Extent>& wanted = needed[input.source];
        if (wanted.empty())
          wanted = read;
        else
          for (std::int64_t dim = 0; dim < read.size(); ++dim) wanted[dim] = joined(wanted[dim], read[dim]);
      }
      spaces.inputs[n].push_back(std::move(read));
    }
  }
  return spaces;
}

}  // namespace

Interval TileWindow::range(Interval of) const {
  return {floor_div(of.lo * numerator + low, denominator), ceil_div(of.hi * numerator + high, denominator)};
}

TileGraph tile_graph(const Graph& graph, std::span<const OpId> ops) {
  TileGraph nodes;
  IdVector<ValueId, std::int32_t> makers(graph.value_count(), TileInput::kOutside);
  for (const OpId id : ops) {
    const OpSite site{graph, graph.op(id)};
    Table<int> inputs;
    for (int i = 0; i < site.inputs(); ++i)
      if (!graph.value(site.op.inputs[i]).persistent()) inputs.push_back(i);
    TileNode node = site.op.def->can_gather(site) ? gathering_node(site, inputs) : reducing_node(site, inputs);
    for (std::int64_t k = 0; k < inputs.size(); ++k) node.inputs[k].source = makers[site.op.inputs[inputs[k]]];
    for (const ValueId output : site.op.outputs) makers[output] = static_cast<std::int32_t>(nodes.size());
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::vector<std::int32_t> ft_dims(const TileGraph& graph) {
  std::vector<std::int32_t> found;
  if (graph.empty()) return found;
  const auto last = static_cast<std::int32_t>(graph.size()) - 1;
  struct Read {
    std::int32_t node;
    const TileInput* input;
  };
  Table<std::vector<Read>> readers(graph.size());
  for (std::int64_t n = 0; n < graph.size(); ++n)
    for (const TileInput& input : graph[n].inputs)
      if (input.source != TileInput::kOutside) readers[input.source].push_back({static_cast<std::int32_t>(n), &input});
  struct Cut {  // of what a node reads
    Read read;
    std::int64_t dim;
  };
  for (const TileInput& parent : graph.front().inputs)
    for (std::int64_t dim = 0; dim < parent.windows.size(); ++dim) {
      bool all = true;
      std::int32_t end = TileNode::kReduced;
      std::queue<Cut> cuts({{{0, &parent}, dim}});
      std::set<std::pair<const TileInput*, std::int64_t>> seen;  // branches meet: each is followed from there once
      for (; all && !cuts.empty(); cuts.pop()) {
        const auto [read, along] = cuts.front();
        if (!seen.insert({read.input, along}).second) continue;
        const TileNode& node = graph[read.node];
        const std::int32_t iteration = read.input->windows[along].iteration;
        const std::int32_t out = node.combines ? iteration : node.to_output[iteration];
        all = out != TileNode::kReduced;
        if (!all) break;
        if (read.node == last) {
          all = end == TileNode::kReduced || end == out;
          end = out;
        }
        if (node.combines) continue;
        for (const Read& next : readers[read.node])
          if (next.input->windows.size() > out) cuts.push({next, out});
      }
      if (all && end != TileNode::kReduced && std::find(found.begin(), found.end(), end) == found.end()) found.push_back(end);
    }
  std::sort(found.begin(), found.end());
  return found;
}

TileSpaces<std::int64_t> tile_sizes(const TileGraph& graph, const Table<Table<bool>>& divided, std::int64_t tiles) {
  return propagate<std::int64_t>(
      graph, divided, [&](std::int64_t extent) { return ceil_div(extent, tiles); }, [](std::int64_t extent) { return extent; });
}

TileSpaces<Interval> tile_ranges(const TileGraph& graph, const Table<Table<bool>>& divided, std::int64_t tiles,
                                 std::int64_t index) {
  return propagate<Interval>(
      graph, divided,
      [&](std::int64_t extent) {
        const std::int64_t part = ceil_div(extent, tiles);
        return Interval{std::min(extent, index * part), std::min(extent, (index + 1) * part)};
      },
      [](std::int64_t extent) {
        return Interval{0, extent};
      });
}

std::optional<std::vector<TileSegment>> find_segments(const Followers& followers, const Table<bool>& must_tile) {
  const auto count = static_cast<std::int32_t>(followers.size());
  const Table<std::int32_t> post_dominators = immediate_post_dominators(followers);
  std::vector<TileSegment> segments;
  Table<std::int32_t> segment_of(followers.size(), -1);
  for (std::int32_t first = 0; first < count; ++first) {
    if (!must_tile[first]) continue;
    std::int32_t end = first;
    std::queue<std::int32_t> open({first});
    for (; !open.empty(); open.pop()) {
      const std::int32_t dominator = post_dominators[open.front()];
      if (dominator <= end) continue;
      const std::int32_t old = end;
      end = dominator;
      while (end < count && must_tile[end]) ++end;
      if (end == count) return std::nullopt;
      for (std::int32_t node = old; node < end; ++node) open.push(node);
    }
    for (std::int32_t node = first; node <= end; ++node) segment_of[node] = static_cast<std::int32_t>(segments.size());
    segments.push_back({first, end});
    first = end;
  }
  for (std::int32_t node = 0; node < count; ++node) {
    const std::int32_t own = segment_of[node];
    const bool stored = own < 0 || segments[own].last == node;
    for (const std::int32_t reader : followers[node])
      if (!stored && segment_of[reader] != own) return std::nullopt;
  }
  return segments;
}

}  // namespace outsize
