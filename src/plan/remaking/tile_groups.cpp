#include "plan/remaking/tile_groups.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "graph/opdef.h"

namespace outsize {

namespace {

// Tiles are rows of maps, so many of them.
constexpr int kRows = 2;
constexpr std::array<std::int64_t, 4> kCounts{4, 8, 16, 32};
// More tiles are taken, as they need less room, where they take at most so many times as long.
constexpr double kSlower = 1.02;

}  // namespace

TileGroups::TileGroups(const PlanRequest& request, const OpCosts& costs, std::vector<OpId> order)
    : graph_(request.graph), costs_(costs), order_(std::move(order)), micro_(request) {}

bool TileGroups::by_forward(ValueId value) const { return graph_.op(graph_.value(value).producer).phase == Phase::forward; }

bool TileGroups::may_be(ValueId id) const {
  const Value& value = graph_.value(id);
  if (!value.producer || value.version_of || value.consumers.empty() || graph_.is_output(id) || value.type.shape.rank() <= kRows)
    return false;
  const Op& maker = graph_.op(value.producer);
  if (maker.phase == Phase::update || (maker.phase == Phase::forward && maker.outputs.size() != 1)) return false;
  if (!maker.def->can_gather({graph_, maker})) return false;
  const auto reads_in_tiles = [&](OpId reader) { return graph_.op(reader).phase != Phase::update; };
  return std::ranges::all_of(value.consumers, reads_in_tiles);
}

// What makes the results of forward that an op reads in tiles, and what those read so, …
void TileGroups::add_makers(OpId op, const std::set<ValueId>& in_tiles, std::set<OpId>& ops) const {
  for (const ValueId input : graph_.op(op).inputs) {
    if (!in_tiles.contains(input) || !by_forward(input)) continue;
    const OpId maker = graph_.value(input).producer;
    if (ops.insert(maker).second) add_makers(maker, in_tiles, ops);
  }
}

std::optional<Table<RunUnit>> TileGroups::units(const std::set<ValueId>& in_tiles) {
  // By op, the one of its unit that stands for it.
  IdVector<OpId, OpId> stands_for;
  for (std::int64_t k = 0; k < graph_.op_count(); ++k) stands_for.push_back(OpId(k));
  const auto leader = [&](OpId op) {
    while (stands_for[op] != op) op = stands_for[op];
    return op;
  };
  std::set<OpId> only_within;  // units of others
  for (const ValueId value : in_tiles) {
    const OpId maker = graph_.value(value).producer;
    if (by_forward(value))
      only_within.insert(maker);
    else
      for (const OpId reader : graph_.value(value).consumers) stands_for[leader(reader)] = leader(maker);
  }
  IdVector<OpId, std::set<OpId>> members(graph_.op_count());
  for (const OpId op : order_) {
    if (graph_.op(op).phase == Phase::update || only_within.contains(op)) continue;
    members[leader(op)].insert(op);
    add_makers(op, in_tiles, members[leader(op)]);
  }
  Table<RunUnit> units;
  IdVector<OpId, std::size_t> left(graph_.op_count(),
                                   0);  // by leader, of what stands in the order: a unit stands where its last does
  for (const OpId op : order_)
    if (graph_.op(op).phase != Phase::update && !only_within.contains(op)) ++left[leader(op)];
  for (const OpId op : order_) {
    if (graph_.op(op).phase == Phase::update || only_within.contains(op) || --left[leader(op)] > 0) continue;
    Members of;
    of.first.assign(members[leader(op)].begin(), members[leader(op)].end());
    for (const OpId member : of.first)
      for (const ValueId output : graph_.op(member).outputs)
        if (!in_tiles.contains(output)) of.second.push_back(output);
    if (of.first.size() == 1) {
      units.push_back({of.first});
      continue;
    }
    const std::optional<SplitRun>& tiles = tiles_of(of);
    if (!tiles) return std::nullopt;
    units.push_back({of.first, tiles});
  }
  if (!is_in_order(units)) return std::nullopt;
  return units;
}

const std::optional<SplitRun>& TileGroups::tiles_of(const Members& members) {
  const auto [known, fresh] = known_.try_emplace(members);
  const auto& [ops, leaving] = members;
  if (!fresh || !std::ranges::all_of(ops, [&](OpId op) { return micro_.can_cut(op, kRows); })) return known->second;
  const auto leaves = [&](ValueId value) { return std::ranges::find(leaving, value) != leaving.end(); };
  double least = std::numeric_limits<double>::infinity();
  for (const std::int64_t count : kCounts) {
    try {
      SplitRun made = micro_.run(ops, {kRows, count}, leaves);
      if (made.seconds > least * kSlower) continue;
      least = std::min(least, made.seconds);
      known->second = std::move(made);
    } catch (const UserError&) {  // these ops cannot be one pass
      break;
    }
  }
  return known->second;
}

bool TileGroups::is_in_order(const Table<RunUnit>& units) const {
  IdVector<ValueId, bool> made(graph_.value_count(), false);
  for (std::int64_t v = 0; v < made.size(); ++v) made[ValueId(v)] = !graph_.value(ValueId(v)).producer;
  for (const RunUnit& unit : units) {
    const auto there = [&](ValueId input) { return made[input] || !graph_.value(input).producer; };
    if (!std::ranges::all_of(unit.tiles ? unit.tiles->reads : graph_.op(unit.ops.back()).inputs, there)) return false;
    for (const ValueId output : unit.tiles ? unit.tiles->makes : graph_.op(unit.ops.back()).outputs) made[output] = true;
  }
  return true;
}

}  // namespace outsize
