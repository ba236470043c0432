#pragma once

#include "ops/expect.h"

// What softmax and log_softmax have in common.
namespace outsize {

inline std::vector<AttributeSpec> softmax_specs() {
  return {{"axis", std::int64_t{-1}, "the dimension that is normalized; negative counts from the last"}};
}

// The axis counted from 0, checked against x.
inline int softmax_axis(const OpSite& site) {
  const int rank = site.in(0).shape.rank();
  const std::int64_t axis = site.integer("axis");
  if (axis < -rank || axis >= rank) user_error("attribute axis must be in [{}, {}), found {}", -rank, rank, axis);
  const int dim = static_cast<int>(axis < 0 ? axis + rank : axis);
  if (site.in(0).format == Format::map && dim == 0)
    user_error("attribute axis of a map must be its channels (1) or in space, found {}", axis);
  return dim;
}

class SoftmaxBase : public OpDef {
 public:
  std::vector<AttributeSpec> attribute_specs() const final { return softmax_specs(); }
  // Boxes are whole along the axis.
  CallBoxes gather(const OpSite& site, const Box& output) const final {
    Box box = output;
    const int axis = softmax_axis(site);
    box.set(axis, {0, site.in(0).shape[axis]});
    return {std::vector<Box>(site.op.inputs.size(), box), {box}};
  }
  CallBoxes push(const OpSite& site, const Box& driver) const final { return gather(site, driver); }
  InPlacePairs in_place(const OpSite&) const final { return {{0, 0}}; }
  bool cheap(const OpSite&) const final { return true; }
  // An exponential takes some ten operations.
  Cost cost(const OpSite& site, const CallBoxes& boxes) const final {
    Cost cost = OpDef::cost(site, boxes);
    cost.flops *= 10;
    return cost;
  }
};

// The function itself; its gradient kind is "<kind>_grad", from y.
class SoftmaxForward : public SoftmaxBase {
 public:
  std::vector<std::string_view> input_names() const final { return {"x"}; }
  std::vector<ValueType> infer(const OpSite& site) const final {
    expect_float(site, 0);
    softmax_axis(site);
    return {site.in(0)};
  }
  void gradient(GradientContext& context) const final {
    const ValueId dy = context.gradient(0);
    if (!dy || !context.wants(0)) return;
    const Attributes attributes{{"axis", context.site().integer("axis")}};
    context.contribute(0, context.emit(std::string(kind()) + "_grad", "grad", {dy, context.output(0)}, attributes)[0]);
  }
};

class SoftmaxBackward : public SoftmaxBase {
 public:
  std::vector<std::string_view> input_names() const final { return {"dy", "y"}; }
  Role output_role(const OpSite&, int) const final { return Role::gradient; }
  std::vector<ValueType> infer(const OpSite& site) const final {
    expect_float(site, 0);
    expect_type(site, 1, site.in(0), "as dy");
    softmax_axis(site);
    return {site.in(0)};
  }
};

}  // namespace outsize
