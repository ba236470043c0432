#pragma once

#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "plan/reckon/split_runs.h"
#include "plan/tiling/alike.h"
#include "plan/tiling/pass_cost.h"

namespace outsize {

// Along one dimension of a value, or of what drives an op.
struct Pieces {
  int dim = 0;
  std::int64_t count = 1;

  bool split() const { return count > 1; }
  auto operator<=>(const Pieces&) const = default;
};

// How a run goes in pieces.
struct PieceForm {
  bool ahead = false;  // windows of a piece are loaded while the piece before runs (Pass::ahead)
  ValueId driver;      // what the pieces are of; none: as driver_of() has it
};

// What ops cost piece by piece.
class MicroOps {
 public:
  explicit MicroOps(const PlanRequest& request) : request_(request), graph_(request.graph), like_(alike_ops(request)) {}

  // Where values wait that pieces are read of.
  void stream(ValueId value) { plan_.home[value] = Tier::host; }
  void forget(ValueId value) { plan_.home.erase(value); }
  bool streams(ValueId value) const { return plan_.home.contains(value); }

  // Whether the op can run in pieces along dimension 0 (samples), 1 (tokens of [N, T, C]) or 2 (rows of a map) of what drives it.
  bool can_cut(OpId op, int dim);
  // About what the op costs so, as values are streamed now: reckoned once for all ops that are alike.
  const PassCost& cost(OpId op, const Pieces& pieces);
  // The run of these ops, one after the other in each piece, with the workspace that the backend says it needs. `leaves`: whether
  // something after it reads a value.
  SplitRun run(const std::vector<OpId>& ops, const Pieces& pieces, const std::function<bool(ValueId)>& leaves,
               const PieceForm& form = {});

 private:
  ValueId driver(OpId op) const;
  Dims extents(ValueId driver, const Pieces& pieces) const;

  const PlanRequest& request_;
  const Graph& graph_;
  Plan plan_;  // of which only homes are looked at
  std::map<std::pair<std::int64_t, int>, bool> can_cut_;
  const IdVector<OpId, std::int32_t> like_;
  std::map<std::tuple<std::int32_t, Pieces, std::uint64_t>, PassCost> costs_;
};

}  // namespace outsize
