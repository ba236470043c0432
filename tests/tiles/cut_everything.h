#pragma once

#include <algorithm>

#include "plan/tiles/tiles.h"
#include "plan/tiling/regions.h"
#include "plan/tiling/tiled.h"

namespace outsize {

// How the passes of a plan compute what two tiles need: as docs/tiles.md has it.
enum class Form : std::uint8_t { gathered, pushed, shared };

// A plan that cuts all that can be cut of a step: maps into rows and, in every third pass, samples; what is no map into samples,
// or tokens.
// Whatever can wait in host memory does. Passes that cannot be pushed, or not from rows, are gathered.
inline Plan cut_everything(const Graph& graph, Form form, Cut cut) {
  Tiling tiling{{}, IdVector<ValueId, bool>(graph.value_count()), {}};
  for (std::int64_t op = 0; op < graph.op_count(); ++op) tiling.tiled.push_back(can_tile(graph, OpId(op), cut));
  tiling.stored = stored_in_phase(graph, tiling);
  Plan plan = plan_of(graph, tiling, "test");
  const auto rows = [&](ValueId map) { return graph.value(map).type.shape[2]; };
  std::int64_t turn = 0;
  for (Pass& pass : plan.passes) {
    if (form == Form::pushed)
      if (std::optional<Pass> pushed = with_pushed_gradients(graph, pass); pushed && rows(pushed->driver) > 1)
        pass = std::move(*pushed);
    if (form == Form::shared) pass = with_shared_rows(graph, pass);
    const Dims& shape = graph.value(pass.driver).type.shape;
    pass.cuts.resize(static_cast<std::size_t>(shape.rank()));
    if (++turn % 3 == 0 || cut == Cut::samples) pass.cuts[0] = {1};
    if (cut == Cut::samples) continue;
    const int dim = cut == Cut::tokens ? 1 : 2;
    const std::int64_t height = std::max<std::int64_t>(1, shape[dim] / 3);
    for (std::int64_t row = height; row < shape[dim]; row += height) pass.cuts[static_cast<std::size_t>(dim)].push_back(row);
  }
  for (ValueId value : streamable(graph, plan, values_read_later(graph, plan))) plan.home[value] = Tier::host;
  return plan;
}

}  // namespace outsize
