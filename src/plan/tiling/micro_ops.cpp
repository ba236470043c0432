#include "plan/tiling/micro_ops.h"

#include <algorithm>
#include <array>
#include <set>

#include "plan/tiling/regions.h"
#include "plan/tiling/tiled.h"

namespace outsize {

bool MicroOps::can_cut(OpId op, int dim) {
  const auto [known, fresh] = can_cut_.try_emplace({op.index, dim}, false);
  constexpr std::array kCuts{Cut::samples, Cut::tokens, Cut::space};
  if (fresh && can_tile(graph_, op, kCuts.at(dim))) {
    const Dims& shape = graph_.value(driver(op)).type.shape;
    known->second = shape.rank() > dim && shape[dim] > 1;
  }
  return known->second;
}

const PassCost& MicroOps::cost(OpId op, const Pieces& pieces) {
  std::uint64_t streamed = 0, bit = 1;
  for (const std::vector<ValueId>* values : {&graph_.op(op).inputs, &graph_.op(op).outputs})
    for (ValueId value : *values) {
      if (streams(value)) streamed |= bit;
      bit <<= 1;
    }
  const auto [known, fresh] = costs_.try_emplace({like_[op], pieces, streamed});
  if (fresh) {
    Pass pass;
    pass.ops = {op};
    pass.driver = driver(op);
    TileLines lines(std::make_shared<const PassRoles>(graph_, pass, IdSet<ValueId>(graph_.op(op).outputs)));
    known->second = cost_of_pass(request_, plan_, lines, extents(pass.driver, pieces));
  }
  return known->second;
}

SplitRun MicroOps::run(const std::vector<OpId>& ops, const Pieces& pieces, const std::function<bool(ValueId)>& leaves,
                       const PieceForm& form) {
  SplitRun made;
  made.pass.ahead = form.ahead;
  made.pass.ops = ops;
  made.pass.driver = form.driver ? form.driver : driver_of(graph_, ops, leaves);
  std::set<ValueId> here, read;
  for (OpId id : ops) {
    for (ValueId input : graph_.op(id).inputs)
      if (!here.contains(input) && read.insert(input).second) made.reads.push_back(input);
    for (ValueId output : graph_.op(id).outputs) {
      here.insert(output);
      if (leaves(output)) made.makes.push_back(output);
    }
  }
  const Dims size = extents(made.pass.driver, pieces);
  made.pass.cuts = cuts_of(graph_.value(made.pass.driver).type.shape, size);
  TileLines lines(std::make_shared<const PassRoles>(graph_, made.pass, IdSet<ValueId>(made.makes)));
  const std::vector<std::int64_t> workspace = workspace_of_pass(request_, lines, size);
  const PassCost cost = cost_of_pass(request_, plan_, lines, size, request_.workspace ? &workspace : nullptr);
  made.bytes = cost.bytes;
  made.seconds = form.ahead ? cost.seconds : std::max(cost.compute_seconds, cost.copy_seconds());
  made.copy_seconds = cost.copy_seconds();
  return made;
}

ValueId MicroOps::driver(OpId op) const {
  return driver_of(graph_, {op}, [](ValueId) { return true; });
}

Dims MicroOps::extents(ValueId driver, const Pieces& pieces) const {
  Dims size = graph_.value(driver).type.shape;
  size[pieces.dim] = (size[pieces.dim] + pieces.count - 1) / pieces.count;
  return size;
}

}  // namespace outsize
