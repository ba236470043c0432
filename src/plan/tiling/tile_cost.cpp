#include "plan/tiling/tile_cost.h"

#include <algorithm>
#include <numeric>

#include "base/alignment.h"
#include "base/bytes.h"
#include "graph/in_place.h"
#include "graph/storage.h"

namespace outsize {

namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

TileCosts::TileCosts(const PlanRequest& request, const Plan& plan, const PassTiles& tiles,
                     const std::vector<std::int64_t>* workspace)
    : request_(request),
      plan_(plan),
      tiles_(tiles),
      workspace_(workspace),
      ahead_(tiles.pass().ahead && tiles.tiles() > 1),
      order_(tiles.pass().ops.size()),
      walk_(tiles, plan, *this) {
  std::iota(order_.begin(), order_.end(), 0);
}

TileCosts::Cost TileCosts::of(const Dims& tile) {
  at_ = tile;
  cost_ = {};
  action_ = 0;
  pieces_.clear();
  calls_.clear();
  operands_.clear();
  change_.clear();
  walk_.run(tile, order_);
  choose_in_place();
  cost_.bytes = most_at_once();
  return cost_;
}

std::int64_t TileCosts::held(std::span<const Dims> tiles) const {
  std::int64_t bytes = 0;
  for (const ValueId value : tiles_.values()) {
    bytes += bytes_of(value, carry_slot(tiles_, value, tiles));
    const bool streamed = tiles_.value_class(value) == ValueClass::external && plan_.home_of(value) != Tier::device;
    if (ahead_ && streamed) bytes += 2 * bytes_of(value, window_place(tiles_, value, tiles));
  }
  return bytes;
}

std::int64_t TileCosts::bytes_of(ValueId value, const Box& box) const {
  if (box.empty()) return 0;
  return align_up(stored_bytes(request_.storage, tiles_.graph().value(value).type, box.shape()), kAlignment);
}

bool TileCosts::on_device(ValueId value) { return plan_.home_of(value) == Tier::device; }

// With copies ahead a window lies in its place, and that is counted by held().
std::int32_t TileCosts::loaded(ValueId value) {
  if (!ahead_) return -1;
  const Box present = tiles_.boxes(value, at_).present;
  count_load(value, present);
  pieces_.push_back({value, present, 0});
  return static_cast<std::int32_t>(pieces_.size()) - 1;
}

std::int32_t TileCosts::piece(ValueId value, const Box& box, const char*) {
  pieces_.push_back({value, box, bytes_of(value, box)});
  return static_cast<std::int32_t>(pieces_.size()) - 1;
}

void TileCosts::touch(const TileOperand& operand) {
  if (operand.in != TileOperand::In::piece) return;
  Piece& piece = pieces_[at(operand.piece)];
  if (piece.first < 0) piece.first = action_;
  piece.last = action_;
}

void TileCosts::count_load(ValueId value, const Box& box) {
  const Device& device = request_.profile.device;
  const Tier home = home_of(tiles_.graph(), plan_, value);
  const auto bytes = static_cast<double>(bytes_of(value, box));
  if (home != Tier::source || !device.is_host()) cost_.in_seconds += bytes / device.link_in;
  if (home != Tier::host) cost_.disk_seconds += bytes / device.disk_in;
}

void TileCosts::load(const TileOperand& from, const TileOperand& to) {
  count_load(from.value, from.box);
  touch(to);
  ++action_;
}

void TileCosts::store(const TileOperand& from, const TileOperand& to) {
  const Device& device = request_.profile.device;
  const auto bytes = static_cast<double>(bytes_of(to.value, to.box));
  cost_.out_seconds += bytes / device.link_out;
  if (home_of(tiles_.graph(), plan_, to.value) == Tier::disk) cost_.disk_seconds += bytes / device.disk_out;
  touch(from);
  ++action_;
}

void TileCosts::keep_stored(const TileOperand& from) {
  Piece& piece = pieces_[at(from.piece)];
  if (!ahead_) return;
  cost_.stored += piece.bytes;
  piece.bytes = 0;
}

void TileCosts::copy(const TileOperand& from, const TileOperand& to) {
  touch(from);
  touch(to);
  ++action_;
}

void TileCosts::combine(Combine, const TileOperand& from, const TileOperand& to) { copy(from, to); }

void TileCosts::zero(const TileOperand& to) {
  touch(to);
  ++action_;
}

void TileCosts::take_saved(const TileOperand& to) { zero(to); }

void TileCosts::call(int op_of_pass, const Call& call, std::span<const TileOperand> reads, std::span<const TileOperand> writes) {
  Made made{action_, op_of_pass, operands_.size(), operands_.size() + reads.size()};
  for (const std::span<const TileOperand> operands : {reads, writes})
    for (const TileOperand& operand : operands) {
      touch(operand);
      operands_.push_back(operand.in == TileOperand::In::piece && operand.box == operand.holds ? operand.piece : -1);
    }
  calls_.push_back(made);
  const std::int64_t workspace =
      workspace_ ? (*workspace_)[at(op_of_pass)] : workspace_in_proportion(tiles_.pass().ops[at(op_of_pass)], call);
  change_.resize(at(action_) + 2, 0);
  change_[at(action_)] += align_up(workspace, kAlignment);
  change_[at(action_) + 1] -= align_up(workspace, kAlignment);
  cost_.compute_seconds += request_.profile.seconds_of(call);
  ++action_;
}

// An output takes the bytes of an input that is used there for the last time, as in lowering.
void TileCosts::choose_in_place() {
  for (const Made& made : calls_) {
    const OpSite site{tiles_.graph(), tiles_.graph().op(tiles_.pass().ops[at(made.op_of_pass)])};
    const auto from = [&](const InPlacePair& pair) { return operands_[made.reads + at(pair.input)]; };
    const auto to = [&](const InPlacePair& pair) { return operands_[made.writes + at(pair.output)]; };
    const auto may = [&](const InPlacePair& pair) {
      if (from(pair) < 0 || to(pair) < 0) return false;
      const Piece &source = pieces_[at(from(pair))], &target = pieces_[at(to(pair))];
      return source.last == made.action && target.first == made.action && source.box == target.box &&
             source.bytes == target.bytes && target.in_place_of < 0;
    };
    for (const InPlacePair& pair : in_place_pairs(site, may)) pieces_[at(to(pair))].in_place_of = from(pair);
  }
}

std::int64_t TileCosts::most_at_once() {
  change_.resize(at(action_) + 1, 0);
  // A piece that takes the bytes of another is younger than that one.
  for (std::size_t p = pieces_.size(); p-- > 0;) {
    const Piece& piece = pieces_[p];
    if (piece.first < 0) continue;
    if (piece.in_place_of >= 0) {
      Piece& source = pieces_[at(piece.in_place_of)];
      source.last = std::max(source.last, piece.last);
      continue;
    }
    change_[at(piece.first)] += piece.bytes;
    change_[at(piece.last) + 1] -= piece.bytes;
  }
  std::int64_t live = 0, most = 0;
  for (const std::int64_t change : change_) most = std::max(most, live += change);
  return most;
}

std::int64_t TileCosts::workspace_in_proportion(OpId op, const Call& call) const {
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

}  // namespace outsize
