#include "plan/tiling/pass_cost.h"

#include <algorithm>
#include <array>

#include "base/alignment.h"
#include "base/bytes.h"
#include "graph/opdef.h"
#include "graph/storage.h"
#include "ops/window.h"
#include "plan/reckon/lives.h"

namespace outsize {

namespace {

// The pieces of one tile, followed op by op.
class TileCost {
 public:
  TileCost(const PlanRequest& request, const Plan& plan, const PassTiles& tiles, const std::vector<std::int64_t>* workspace)
      : request_(request),
        plan_(plan),
        tiles_(tiles),
        graph_(request.graph),
        workspace_(workspace),
        last_use_(tiles.values().size(), -1) {
    const std::vector<OpId>& ops = tiles.pass().ops;
    for (std::size_t k = 0; k < ops.size(); ++k)
      for (ValueId input : graph_.op(ops[k]).inputs) last_use_[tiles_.slot(input)] = static_cast<int>(k);
  }

  PassCost of(const Dims& tile) const {
    PassCost cost;
    const std::vector<OpId>& ops = tiles_.pass().ops;
    std::vector<std::int64_t> ends(ops.size() + 1, 0);  // bytes that end with an op
    std::vector<bool> fetched(last_use_.size(), false);
    const bool ahead = tiles_.pass().ahead && tiles_.tiles() > 1;
    std::int64_t live = 0;
    std::int64_t kept = 0;  // with copies ahead: windows and what is stored, in two places each
    for (std::size_t k = 0; k < ops.size(); ++k) {
      const OpSite site{graph_, graph_.op(ops[k])};
      const Op& op = site.op;
      if (tiles_.driving_box(static_cast<int>(k), tile).empty()) continue;
      const Call call = tiles_.call_at(static_cast<int>(k), tile);
      const CallBoxes& boxes = call.boxes;
      std::int64_t during = 0;
      for (std::size_t j = 0; j < op.inputs.size(); ++j) {
        const ValueId input = op.inputs[j];
        const Box present = tiles_.boxes(input, tile).present;
        const bool external = tiles_.value_class(input) == ValueClass::external;
        const bool streamed = external && plan_.home_of(input) != Tier::device;
        const bool in_place = external && !streamed && boxes.in[j] == Box::whole(graph_.value(input).type.shape);
        if (streamed && !fetched[tiles_.slot(input)]) {
          fetched[tiles_.slot(input)] = true;
          if (ahead) {
            kept += 2 * bytes_of(input, present);
          } else {
            live += bytes_of(input, present);
            ends[static_cast<std::size_t>(last_use_[tiles_.slot(input)])] += bytes_of(input, present);
          }
          const Device& device = request_.profile.device;
          const Tier home = plan_.home_of(input);
          const auto bytes = static_cast<double>(bytes_of(input, present));
          if (home != Tier::source || !device.is_host()) cost.in_seconds += bytes / device.link_in;
          if (home != Tier::host) cost.disk_seconds += bytes / device.disk_in;
        }
        if (!in_place && (external ? !streamed || boxes.in[j] != present : boxes.in[j] != present))
          during += bytes_of(input, boxes.in[j]);
      }
      for (std::size_t o = 0; o < op.outputs.size(); ++o) {
        const ValueId output = op.outputs[o];
        const TileBoxes of = tiles_.boxes(output, tile);
        const bool reduced = tiles_.value_class(output) == ValueClass::reduced;
        if (reduced || boxes.out[o] != of.present) during += bytes_of(output, boxes.out[o]);
        if (reduced) continue;
        const int last = std::max(last_use_[tiles_.slot(output)], static_cast<int>(k));
        const Tier home = home_of(graph_, plan_, output);
        const bool stored = tiles_.leaves(output) && home != Tier::device;
        if (ahead && stored) {
          kept += 2 * bytes_of(output, of.present);
        } else if (!graph_.value(output).version_of) {  // which takes the place of the old one
          live += bytes_of(output, of.present);
          ends[static_cast<std::size_t>(last)] += bytes_of(output, of.present);
        }
        if (stored) cost.out_seconds += static_cast<double>(bytes_of(output, of.owned)) / request_.profile.device.link_out;
        if (stored && home == Tier::disk)
          cost.disk_seconds += static_cast<double>(bytes_of(output, of.owned)) / request_.profile.device.disk_out;
      }
      during += workspace_ ? (*workspace_)[k] : workspace_in_proportion(ops[k], call);
      cost.compute_seconds += request_.profile.seconds_of(call);
      cost.bytes = std::max(cost.bytes, live + during);
      live -= ends[k];
    }
    cost.bytes += kept;
    return cost;
  }

  // Of the rows that are carried, which wait beside the tile.
  std::int64_t carried(const Dims& tile) const {
    std::int64_t bytes = 0;
    for (ValueId value : tiles_.values())
      if (tiles_.shared(value)) bytes += bytes_of(value, tiles_.boxes(value, tile).carry);
    return bytes;
  }

 private:
  std::int64_t workspace_in_proportion(OpId op, const Call& call) const {
    if (!request_.costs) return 0;
    const std::int64_t whole = request_.costs->workspace[op];
    if (whole == 0) return 0;
    double part = 0, all = 0;
    for (std::size_t j = 0; j < call.boxes.in.size(); ++j) {
      part += static_cast<double>(call.boxes.in[j].elements());
      all += static_cast<double>(call.site.in(static_cast<int>(j)).elements());
    }
    return static_cast<std::int64_t>(static_cast<double>(whole) * part / all);
  }
  std::int64_t bytes_of(ValueId value, const Box& box) const {
    if (box.empty()) return 0;
    return align_up(stored_bytes(request_.storage, graph_.value(value).type, box.shape()), kAlignment);
  }

  const PlanRequest& request_;
  const Plan& plan_;
  const PassTiles& tiles_;
  const Graph& graph_;
  const std::vector<std::int64_t>* workspace_;
  std::vector<int> last_use_;  // by slot: the last op of the pass that reads it
};

}  // namespace

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
  const TileCost one(request, plan, tiles, workspace);
  PassCost total;
  std::int64_t carried = 0;
  Dims index = Dims::filled(shape.rank(), 0);
  for (bool more = true; more;) {
    Dims tile;
    double times = 1;
    for (int dim = 0; dim < shape.rank(); ++dim) {
      const FewTiles::Looked& at_dim = few.looked[static_cast<std::size_t>(dim)][static_cast<std::size_t>(index[dim])];
      tile.push_back(at_dim.tile);
      times *= static_cast<double>(at_dim.times);
    }
    const PassCost cost = one.of(tile);
    total.bytes = std::max(total.bytes, cost.bytes);
    carried = std::max(carried, one.carried(tile));
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
  total.bytes += carried;
  double count = 1;  // of tiles
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
  const TileCost one(request, plan, tiles, workspace);
  return one.of(few.typical()).bytes + one.carried(few.typical());
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
  const std::vector<IdVector<ValueId, bool>> later = values_read_later(graph, plan);
  for (std::size_t s = 0; s < steps; ++s) {
    if (const auto* run = std::get_if<RunStep>(&plan.steps[s])) {
      for (ValueId value : graph.op(run->op).inputs) read(value, s);
      for (ValueId value : graph.op(run->op).outputs) make(value, s);
    }
    const auto* step = std::get_if<PassStep>(&plan.steps[s]);
    if (!step) continue;
    const Pass& pass = plan.passes[static_cast<std::size_t>(step->pass)];
    std::vector<ValueId> made;
    for (OpId id : pass.ops) made.insert(made.end(), graph.op(id).outputs.begin(), graph.op(id).outputs.end());
    const auto earlier = [](ValueId a, ValueId b) { return a.index < b.index; };
    std::sort(made.begin(), made.end(), earlier);
    for (OpId id : pass.ops)
      for (ValueId input : graph.op(id).inputs)
        if (!std::binary_search(made.begin(), made.end(), input, earlier)) read(input, s);
    for (ValueId value : made)
      if (later[static_cast<std::size_t>(step->pass)][value]) make(value, s);
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
