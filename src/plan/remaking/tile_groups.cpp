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
// Of the numbers of tiles that one is taken whose seconds are the fewest, where the whole limit in bytes is worth so many steps.
constexpr double kLimitInSteps = 0.3;

}  // namespace

TileGroups::TileGroups(const PlanRequest& request, const OpCosts& costs, std::vector<OpId> order, std::int64_t limit)
    : graph_(request.graph), channel_block_(request.storage.channel_block), order_(std::move(order)), micro_(request) {
  double step = 0;
  for (const double seconds : costs.seconds) step += seconds;
  seconds_a_byte_ = kLimitInSteps * step / static_cast<double>(limit);
}

// The update that alone reads a weight's gradient, where rows of the gradient are made and used up by themselves; else none.
OpId TileGroups::row_update(ValueId gradient) const {
  const Value& value = graph_.value(gradient);
  if (!value.producer || value.consumers.size() != 1 || graph_.is_output(gradient) || value.type.shape.rank() < 2) return {};
  const Op& maker = graph_.op(value.producer);
  const Op& update = graph_.op(value.consumers[0]);
  if (maker.outputs.size() != 1 || !maker.def->gathers_sums({graph_, maker})) return {};
  if (update.phase != Phase::update || update.updates.empty() || !update.def->can_gather({graph_, update})) return {};
  const auto is_read = [&](ValueId output) { return !graph_.value(output).consumers.empty(); };
  if (std::ranges::any_of(update.outputs, is_read)) return {};
  return graph_.value(update.outputs[0]).type.shape == value.type.shape ? value.consumers[0] : OpId();
}

// Whether a value can be made, and read by all of its readers, in tiles of rows.
bool TileGroups::is_cut_by_rows(ValueId id) const {
  const Value& value = graph_.value(id);
  if (!value.producer || value.version_of || value.consumers.empty() || graph_.is_output(id) || value.type.shape.rank() <= kRows)
    return false;
  const Op& maker = graph_.op(value.producer);
  if (maker.phase == Phase::update || !maker.def->can_gather({graph_, maker})) return false;
  return std::ranges::all_of(value.consumers, [&](OpId reader) { return graph_.op(reader).phase != Phase::update; });
}

bool TileGroups::may_be_within(ValueId value) const { return is_cut_by_rows(value); }

bool TileGroups::may_be_with(ValueId value) const {
  if (row_update(value)) return true;
  return is_cut_by_rows(value) && graph_.op(graph_.value(value).producer).phase == Phase::backward;
}

// What makes the values that an op reads in tiles, and what those read so, …
void TileGroups::add_makers(OpId op, const InTiles& in_tiles, std::set<OpId>& ops) const {
  for (const ValueId input : graph_.op(op).inputs) {
    if (!in_tiles.within.contains({input, op})) continue;
    const OpId maker = graph_.value(input).producer;
    if (ops.insert(maker).second) add_makers(maker, in_tiles, ops);
  }
}

// Whether anything reads a value as a whole, or would if it were there.
bool TileGroups::is_whole(ValueId value, const InTiles& in_tiles) const {
  if (in_tiles.with.contains(value)) return false;
  const std::vector<OpId>& readers = graph_.value(value).consumers;
  return readers.empty() || graph_.is_output(value) || !std::ranges::all_of(readers, [&](OpId reader) {
           return in_tiles.within.contains({value, reader});
         });
}

std::optional<Table<RunUnit>> TileGroups::units(const InTiles& in_tiles) {
  // By op, the one of its unit that stands for it.
  IdVector<OpId, OpId> stands_for;
  // Updates that are in no unit run as early as they can; ops that are within units of others alone have none of their own.
  IdVector<OpId, bool> has_unit;
  for (std::int64_t k = 0; k < graph_.op_count(); ++k) {
    stands_for.push_back(OpId(k));
    has_unit.push_back(graph_.op(OpId(k)).phase != Phase::update);
  }
  const auto leader = [&](OpId op) {
    while (stands_for[op] != op) op = stands_for[op];
    return op;
  };
  for (const ValueId value : in_tiles.with)
    for (const OpId reader : graph_.value(value).consumers) {
      stands_for[leader(reader)] = leader(graph_.value(value).producer);
      has_unit[reader] = true;
    }
  for (const auto& [value, reader] : in_tiles.within) {
    const Op& maker = graph_.op(graph_.value(value).producer);
    // What is made with all that read it is made once, and so are they.
    const auto is_with = [&](ValueId of) { return in_tiles.with.contains(of); };
    if (std::ranges::any_of(maker.inputs, is_with)) return std::nullopt;
    has_unit[graph_.value(value).producer] =
        std::ranges::any_of(maker.outputs, [&](ValueId of) { return is_with(of) || is_whole(of, in_tiles); });
  }
  IdVector<OpId, std::set<OpId>> members(graph_.op_count());
  // By leader, of what stands in the order: a unit stands where its last does.
  IdVector<OpId, std::size_t> left(graph_.op_count(), 0);
  for (const OpId op : order_) {
    if (!has_unit[op]) continue;
    members[leader(op)].insert(op);
    ++left[leader(op)];
  }
  Table<RunUnit> units;
  for (const OpId op : order_) {
    if (!has_unit[op] || --left[leader(op)] > 0) continue;
    const std::set<OpId>& own = members[leader(op)];
    std::set<OpId> all = own;
    for (const OpId member : own) add_makers(member, in_tiles, all);
    Members of{.ops = {all.begin(), all.end()}};
    for (const OpId member : of.ops)
      for (const ValueId output : graph_.op(member).outputs)
        if (is_whole(output, in_tiles)) (own.contains(member) ? of.makes : of.inner).push_back(output);
    if (of.ops.size() == 1) {
      units.push_back({of.ops});
      continue;
    }
    const std::optional<SplitRun>& tiles = tiles_of(of);
    if (!tiles) return std::nullopt;
    units.push_back({of.ops, tiles});
  }
  if (!put_in_order(units)) return std::nullopt;
  return units;
}

// The ways to cut a unit, from few tiles to many.
std::vector<std::pair<Pieces, PieceForm>> TileGroups::ways_to_cut(const Members& members) {
  const std::vector<OpId>& ops = members.ops;
  std::vector<std::pair<Pieces, PieceForm>> ways;
  if (const Op& last = graph_.op(ops.back()); last.phase == Phase::update) {
    const std::int64_t rows = graph_.value(last.outputs[0]).type.shape[0];
    for (const std::int64_t count : kCounts)
      if (rows % (count * channel_block_) == 0) ways.push_back({{0, count}, {.driver = last.outputs[0]}});
  } else if (std::ranges::all_of(ops, [&](OpId op) { return micro_.can_cut(op, kRows); })) {
    for (const std::int64_t count : kCounts) ways.push_back({{kRows, count}, {}});
  }
  return ways;
}

const std::optional<SplitRun>& TileGroups::tiles_of(const Members& members) {
  const auto [known, fresh] = known_.try_emplace(members);
  if (!fresh) return known->second;
  const auto leaves = [&](ValueId value) { return std::ranges::find(members.makes, value) != members.makes.end(); };
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [pieces, form] : ways_to_cut(members)) {
    try {
      SplitRun made = micro_.run(members.ops, pieces, leaves, form);
      made.pass.inner = members.inner;
      const double cost = made.seconds + seconds_a_byte_ * static_cast<double>(made.bytes);
      if (cost > least) continue;
      least = cost;
      known->second = std::move(made);
    } catch (const UserError&) {  // these ops cannot be one pass
      break;
    }
  }
  return known->second;
}

// A unit that updates a weight runs behind all others that read the weight, and behind all that read what is made with it, for
// which that might have to be made again.
std::vector<OpId> TileGroups::runs_before(const RunUnit& unit, const Table<RunUnit>& units) const {
  const Op& update = graph_.op(unit.ops.back());
  if (unit.ops.size() == 1 || update.phase != Phase::update) return {};
  IdVector<OpId, bool> with_weight(graph_.op_count(), false);  // that read it, or of forward what is made with it
  for (const InPlacePair& pair : update.updates)
    for (const OpId reader : graph_.value(update.inputs[pair.input]).consumers) with_weight[reader] = true;
  for (std::int64_t op = 0; op < graph_.op_count(); ++op)
    for (const ValueId input : graph_.op(OpId(op)).inputs)
      if (const OpId maker = graph_.value(input).producer; maker && with_weight[maker] && graph_.op(maker).phase == Phase::forward)
        with_weight[OpId(op)] = true;
  const auto reads = [&](OpId op) { return with_weight[op] && graph_.op(op).phase != Phase::update; };
  const auto is_forward = [&](OpId op) { return graph_.op(op).phase == Phase::forward; };
  std::vector<OpId> before;
  for (const RunUnit& other : units)
    if (other.ops != unit.ops && std::ranges::any_of(other.ops, reads) && !std::ranges::all_of(other.ops, is_forward))
      before.push_back(other.ops.back());
  return before;
}

// Puts units behind those that they must run behind. Returns whether that can be.
bool TileGroups::put_in_order(Table<RunUnit>& units) const {
  for (RunUnit& unit : units) unit.behind = runs_before(unit, units);
  IdVector<OpId, bool> placed(graph_.op_count(), false);  // by the last op of a unit
  Table<RunUnit> ordered;
  std::vector<RunUnit> waiting;
  const auto place = [&](RunUnit& unit) {
    if (!std::ranges::all_of(unit.behind, [&](OpId op) { return placed[op]; })) return false;
    placed[unit.ops.back()] = true;
    ordered.push_back(std::move(unit));
    return true;
  };
  for (RunUnit& unit : units) {
    if (!place(unit)) {
      waiting.push_back(std::move(unit));
      continue;
    }
    for (std::size_t k = 0; k < waiting.size();) {
      if (!place(waiting[k])) {
        ++k;
        continue;
      }
      waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(k));
      k = 0;
    }
  }
  units = std::move(ordered);
  return waiting.empty() && is_in_order(units);
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
