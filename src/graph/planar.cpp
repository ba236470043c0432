#include "graph/planar.h"

#include <algorithm>

#include "graph/opdef.h"

namespace outsize {

void make_planar(Graph& graph, ValueId id) {
  Value& input = graph.value(id);
  const auto takes = [&](OpId reader) {
    const Op& op = graph.op(reader);
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (op.inputs[i] == id && !op.def->takes_planar({graph, op}, static_cast<int>(i))) return false;
    return true;
  };
  if (input.type.format == Format::map && std::ranges::all_of(input.consumers, takes)) input.type.format = Format::planar;
}

}  // namespace outsize
