#include "plan/tiling/pass_cost.h"

#include <algorithm>

#include "base/bytes.h"
#include "ops/window.h"
#include "plan/reckon/lives.h"
#include "plan/tiling/tile_cost.h"

namespace outsize {

std::vector<std::vector<std::int64_t>> cuts_of(const Dims& shape, const Dims& extents) {
  std::vector<std::vector<std::int64_t>> cuts(static_cast<std::size_t>(shape.rank()));
  for (int dim = 0; dim < shape.rank(); ++dim)
    for (std::int64_t cut = extents[dim]; cut < shape[dim]; cut += extents[dim]) cuts[static_cast<std::size_t>(dim)].push_back(cut);
  return cuts;
}

namespace {

// Only the tiles that are looked at are cut out of a pass, the first, a middle and the last along each dimension: all between them
// are one. No window reaches from sample to sample, so that tiles of as many samples are alike and the first stands for them.
struct FewTiles {
  struct Looked {
    std::int64_t tile = 0;
    std::int64_t times = 1;
  };
  Pass pass;
  std::vector<std::vector<Looked>> looked;  // by dimension

  FewTiles(const PassRoles& roles, const Dims& extents) : pass(roles.pass()) {
    const Dims& shape = roles.graph().value(pass.driver).type.shape;
    pass.cuts.assign(static_cast<std::size_t>(shape.rank()), {});
    looked.resize(static_cast<std::size_t>(shape.rank()));
    for (int dim = 0; dim < shape.rank(); ++dim) {
      const std::size_t d = static_cast<std::size_t>(dim);
      std::vector<std::int64_t>& cuts = pass.cuts[d];
      const std::int64_t size = extents[dim], count = (shape[dim] + size - 1) / size;
      const std::int64_t middle = dim == 0 ? 0 : count / 2 * size, last = (count - 1) * size;
      for (const std::int64_t cut : {size, middle, middle + size, last})
        if (count > 1 && cut > 0 && cut < shape[dim] && (cuts.empty() || cut > cuts.back())) cuts.push_back(cut);
      const auto tile_from = [&](std::int64_t cut) { return std::lower_bound(cuts.begin(), cuts.end(), cut) - cuts.begin() + 1; };
      if (dim == 0) {
        const std::int64_t full = std::max<std::int64_t>(1, shape[dim] / size);
        looked[d].push_back({0, full});
        if (count > full) looked[d].push_back({tile_from(last), 1});
        continue;
      }
      looked[d].push_back({0, 1});
      if (count > 2) looked[d].push_back({tile_from(middle), count - 2});
      if (count > 1) looked[d].push_back({tile_from(last), 1});
    }
  }

  // Of the most common kind.
  Dims typical() const {
    Dims tile;
    for (const std::vector<Looked>& of : looked) tile.push_back(of[of.size() == 3 ? 1 : 0].tile);
    return tile;
  }
};

}  // namespace

std::vector<std::int64_t> workspace_of_pass(const PlanRequest& request, TileLines& lines, const Dims& extents) {
  const FewTiles few(*lines.roles(), extents);
  const PassTiles tiles(lines, few.pass);
  const Dims middle = few.typical();
  std::vector<std::int64_t> workspace(few.pass.ops.size(), 0);
  for (std::size_t k = 0; k < workspace.size(); ++k)
    if (const int op = static_cast<int>(k); request.workspace && !tiles.driving_box(op, middle).empty())
      workspace[k] = request.workspace(tiles.call_at(op, middle));
  return workspace;
}

namespace {

// What ops and copies take that run beside each other, each as much longer as the device says, until the shorter is done.
double seconds_beside(const Device& device, double ops, double copies) {
  const double slow_ops = ops * device.kernel_overlap, slow_copies = copies * device.copy_overlap;
  return slow_ops > slow_copies ? slow_copies + ops - slow_copies / device.kernel_overlap
                                : slow_ops + copies - slow_ops / device.copy_overlap;
}

}  // namespace

PassCost cost_of_pass(const PlanRequest& request, const Plan& plan, TileLines& lines, const Dims& extents,
                      const std::vector<std::int64_t>* workspace) {
  const Dims& shape = request.graph.value(lines.roles()->pass().driver).type.shape;
  const FewTiles few(*lines.roles(), extents);
  const PassTiles tiles(lines, few.pass);
  TileCosts costs(request, plan, tiles, workspace);
  PassCost total;
  std::int64_t stored = 0;
  std::vector<Dims> looked;
  Dims index = Dims::filled(shape.rank(), 0);
  for (bool more = true; more;) {
    Dims tile;
    double times = 1;
    for (int dim = 0; dim < shape.rank(); ++dim) {
      const FewTiles::Looked& at_dim = few.looked[static_cast<std::size_t>(dim)][static_cast<std::size_t>(index[dim])];
      tile.push_back(at_dim.tile);
      times *= static_cast<double>(at_dim.times);
    }
    const TileCosts::Cost cost = costs.of(tile);
    looked.push_back(tile);
    total.bytes = std::max(total.bytes, cost.bytes);
    stored = std::max(stored, cost.stored);
    total.compute_seconds += cost.compute_seconds * times;
    total.in_seconds += cost.in_seconds * times;
    total.out_seconds += cost.out_seconds * times;
    total.disk_seconds += cost.disk_seconds * times;
    more = false;
    for (int dim = 0; dim < shape.rank() && !more; ++dim) {
      more = ++index[dim] < static_cast<std::int64_t>(few.looked[static_cast<std::size_t>(dim)].size());
      if (!more) index[dim] = 0;
    }
  }
  total.bytes += costs.held(looked) + 2 * stored;  // of the tile, and of the one before
  double count = 1;                                // of tiles
  for (int dim = 0; dim < shape.rank(); ++dim) count *= static_cast<double>(ceil_div(shape[dim], extents[dim]));
  const Device& device = request.profile.device;
  const double link = device.full_duplex ? std::max(total.in_seconds, total.out_seconds) : total.copy_seconds();
  const double one_by_one = total.compute_seconds + total.copy_seconds() + total.disk_seconds;
  const double at_once = std::max(seconds_beside(device, total.compute_seconds, link), total.disk_seconds);
  total.seconds = few.pass.ahead ? at_once + std::max(0.0, one_by_one - at_once) / count : one_by_one;
  return total;
}

std::int64_t typical_bytes(const PlanRequest& request, const Plan& plan, TileLines& lines, const Dims& extents,
                           const std::vector<std::int64_t>* workspace) {
  const FewTiles few(*lines.roles(), extents);
  const PassTiles tiles(lines, few.pass);
  TileCosts costs(request, plan, tiles, workspace);
  const Dims tile = few.typical();
  const TileCosts::Cost cost = costs.of(tile);
  return cost.bytes + 2 * cost.stored + costs.held({&tile, 1});
}

std::vector<std::int64_t> resident_bytes(const PlanRequest& request, const Plan& plan, Tier tier,
                                         const std::vector<Takeover>& takeovers) {
  const Graph& graph = request.graph;
  const std::size_t steps = plan.steps.size();
  if (steps == 0) return {};
  constexpr std::int64_t kNever = -1;
  // By value, its newest stay: it begins with the step that makes it, or makes it again.
  IdVector<ValueId, std::int64_t> first(graph.value_count(), kNever), last(first);
  std::vector<std::int64_t> change(steps + 1, 0);
  const auto lives_here = [&](ValueId id) { return plan.home_of(id) == tier && !graph.value(id).version_of; };
  const auto end_stay = [&](ValueId id) {
    if (first[id] == kNever || !lives_here(id)) return;
    const std::int64_t bytes = packed_bytes(request, id);
    change[static_cast<std::size_t>(first[id])] += bytes;
    change[static_cast<std::size_t>(last[id]) + 1] -= bytes;
  };
  const auto read = [&](ValueId value, std::size_t step) { last[value] = static_cast<std::int64_t>(step); };
  const auto make = [&](ValueId value, std::size_t step) {
    end_stay(value);
    first[value] = last[value] = static_cast<std::int64_t>(step);
  };
  for (std::int64_t v = 0; v < graph.value_count(); ++v)
    if (const Value& value = graph.value(ValueId(v)); !value.producer || value.persistent()) first[ValueId(v)] = 0;
  const std::vector<IdSet<ValueId>> later = values_read_later(graph, plan);
  IdVector<ValueId, std::int64_t> made_in(graph.value_count(), kNever);  // by value: the last step with a pass that makes it
  for (std::size_t s = 0; s < steps; ++s) {
    if (const auto* run = std::get_if<RunStep>(&plan.steps[s])) {
      for (ValueId value : graph.op(run->op).inputs) read(value, s);
      for (ValueId value : graph.op(run->op).outputs) make(value, s);
    }
    const auto* step = std::get_if<PassStep>(&plan.steps[s]);
    if (!step) continue;
    const Pass& pass = plan.passes[static_cast<std::size_t>(step->pass)];
    const auto here = static_cast<std::int64_t>(s);
    for (OpId id : pass.ops)
      for (ValueId output : graph.op(id).outputs) made_in[output] = here;
    for (OpId id : pass.ops)
      for (ValueId input : graph.op(id).inputs)
        if (made_in[input] != here) read(input, s);
    for (ValueId value : later[static_cast<std::size_t>(step->pass)].ids())
      if (made_in[value] == here) make(value, s);
  }
  for (std::int64_t v = 0; v < graph.value_count(); ++v) {
    const ValueId id(v);
    // What nothing reads waits to the end, as persistent values and results do.
    if (last[id] == kNever || graph.value(id).persistent() || graph.is_output(id)) read(id, steps - 1);
    end_stay(id);
  }
  for (const auto& [from, to] : takeovers) {
    if (plan.home_of(from) != tier || plan.home_of(to) != tier || last[from] != first[to]) continue;
    const auto pass = static_cast<std::size_t>(first[to]);
    change[pass] -= packed_bytes(request, to);
    change[pass + 1] += packed_bytes(request, to);
  }
  std::vector<std::int64_t> resident(steps, 0);
  std::int64_t sum = 0;
  for (std::size_t s = 0; s < steps; ++s) resident[s] = sum += change[s];
  return resident;
}

}  // namespace outsize
