#include "graph/reshaped.h"

#include "base/id_vector.h"
#include "base/positions.h"
#include "graph/opdef.h"

namespace outsize {

namespace {

// The shape of labels or targets once x has changed from `was` to `is`.
Dims following(Dims y, const Dims& was, const Dims& is) {
  if (y.rank() == 0 || was.rank() != is.rank()) return y;
  if (y[0] == was[0]) y[0] = is[0];
  const Dims positions = without_first(without_first(was));
  return follows(without_first(y), positions) ? with_positions(y, without_first(without_first(is))) : y;
}

}  // namespace

Graph reshaped(const Graph& forward, const Dims& x_shape) {
  const ValueId x = forward.find_value("x");
  if (!x) user_error("graph {}: has no input x", forward.name);
  const Dims& was = forward.value(x).type.shape;
  Graph made;
  made.name = forward.name;
  IdVector<ValueId, ValueId> stands_for(forward.value_count());
  for (std::int64_t i = 0; i < forward.value_count(); ++i) {
    const Value& value = forward.value(ValueId(i));
    ValueId& found = stands_for[ValueId(i)];
    if (!value.producer) {
      ValueType type = value.type;
      if (ValueId(i) == x) type.shape = x_shape;
      if (value.name == "labels" || value.name == "target") type.shape = following(type.shape, was, x_shape);
      found = made.add_value(value.name, type, value.role, value.init);
      continue;
    }
    if (value.producer_output != 0) continue;  // made with the first
    const Op& op = forward.op(value.producer);
    std::vector<ValueId> inputs;
    for (ValueId input : op.inputs) inputs.push_back(stands_for[input]);
    std::vector<std::string> names;
    for (ValueId output : op.outputs) names.push_back(forward.value(output).name);
    const OpId copy = made.add_op(op.name, *op.def, std::move(inputs), op.attributes, std::move(names), op.phase);
    for (std::size_t o = 0; o < op.outputs.size(); ++o) stands_for[op.outputs[o]] = made.op(copy).outputs[o];
  }
  for (ValueId output : forward.outputs()) made.add_output(stands_for[output]);
  return made;
}

}  // namespace outsize
