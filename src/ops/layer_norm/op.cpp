#include "ops/plain_rows.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// [2, rows…]: the means of the rows, then their 1 / standard deviation.
Dims moments_shape(const Dims& x) {
  Dims shape{2};
  for (int i = 0; i + 1 < x.rank(); ++i) shape.push_back(x[i]);
  return shape;
}
Box moments_box(const Box& x) {
  Box box({0}, {2});
  for (int i = 0; i + 1 < x.rank(); ++i) {
    box.lo.push_back(x.lo[i]);
    box.hi.push_back(x.hi[i]);
  }
  return box;
}

ValueType features_type(const ValueType& x) { return {x.dtype, {last_extent(x.shape)}, Format::plain}; }
Box features_box(const OpSite& site) { return Box::whole({last_extent(site.in(0).shape)}); }

// The box with whole rows: each is normalized by its own moments.
Box whole_rows(const OpSite& site, const Box& box) { return with_last(box, {0, last_extent(site.in(0).shape)}); }

class LayerNorm final : public OpDef {
 public:
  std::string_view kind() const override { return "layer_norm"; }
  std::string_view help() const override {
    return "y = (x - mean) / sqrt(variance + eps) * gamma + beta over the last dimension; also the moments [2, rows]: mean, 1 / "
           "deviation";
  }
  std::vector<std::string_view> input_names() const override { return {"x", "gamma?", "beta?"}; }
  std::vector<std::string_view> output_names() const override { return {"", "moments"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return {{"eps", 1e-5, "added to the variance"}}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_rows(site, 0, 2, "[..., C]");
    const ValueType& x = site.in(0);
    for (int i = 1; i < site.inputs(); ++i) expect_type(site, i, features_type(x), "one number a feature of x");
    return {x, {x.dtype, moments_shape(x.shape), Format::plain}};
  }

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (!dy) return;
    const int inputs = context.site().inputs();
    const ValueId x = context.input(0), moments = context.output(1);
    if (context.wants(0)) {
      std::vector<ValueId> read{dy, x, moments};
      if (inputs > 1) read.push_back(context.input(1));
      context.contribute(0, context.emit("layer_norm_grad", "grad", std::move(read))[0]);
    }
    const bool wants_gamma = inputs > 1 && context.wants(1), wants_beta = inputs > 2 && context.wants(2);
    if (!wants_gamma && !wants_beta) return;
    const std::vector<ValueId> grads = context.emit("layer_norm_grad_params", "grad_params", {dy, x, moments});
    if (wants_gamma) context.contribute(1, grads[0]);
    if (wants_beta) context.contribute(2, grads[1]);
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Box rows = whole_rows(site, output);
    CallBoxes boxes{{rows}, {rows, moments_box(rows)}};
    boxes.in.resize(site.op.inputs.size(), features_box(site));
    return boxes;
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override { return gather(site, driver); }

  InPlacePairs in_place(const OpSite&) const override { return {{0, 0}}; }
  bool cheap(const OpSite&) const override { return true; }
};

// Of every gradient: dy, x and the moments on the same rows.
std::vector<Box> gradient_inputs(const OpSite& site, const Box& rows) {
  std::vector<Box> in{rows, rows, moments_box(rows)};
  in.resize(site.op.inputs.size(), features_box(site));
  return in;
}

void expect_gradient_inputs(const OpSite& site) {
  expect_rows(site, 0, 2, "[..., C]");
  const ValueType& dy = site.in(0);
  expect_type(site, 1, dy, "as dy");
  expect_type(site, 2, {dy.dtype, moments_shape(dy.shape), Format::plain}, "the moments of x's rows");
  if (site.inputs() > 3) expect_type(site, 3, features_type(dy), "one number a feature of x");
}

class LayerNormGrad final : public OpDef {
 public:
  std::string_view kind() const override { return "layer_norm_grad"; }
  std::string_view help() const override { return "the gradient of layer_norm with respect to x"; }
  std::vector<std::string_view> input_names() const override { return {"dy", "x", "moments", "gamma?"}; }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_gradient_inputs(site);
    return {site.in(0)};
  }
  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Box rows = whole_rows(site, output);
    return {gradient_inputs(site, rows), {rows}};
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override { return gather(site, driver); }

  InPlacePairs in_place(const OpSite&) const override { return {{0, 0}}; }
  bool cheap(const OpSite&) const override { return true; }
};

class LayerNormGradParams final : public OpDef {
 public:
  std::string_view kind() const override { return "layer_norm_grad_params"; }
  std::string_view help() const override {
    return "the gradients of layer_norm with respect to gamma and beta: sums over the rows";
  }
  std::vector<std::string_view> input_names() const override { return {"dy", "x", "moments"}; }
  std::vector<std::string_view> output_names() const override { return {"", "beta"}; }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_gradient_inputs(site);
    return {features_type(site.in(0)), features_type(site.in(0))};
  }
  bool can_gather(const OpSite&) const override { return false; }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    return {gradient_inputs(site, whole_rows(site, driver)), {features_box(site), features_box(site)}};
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }
};

}  // namespace

void define_layer_norm(OpList& list) {
  static const LayerNorm forward;
  static const LayerNormGrad grad;
  static const LayerNormGradParams grad_params;
  list.insert(list.end(), {&forward, &grad, &grad_params});
}

}  // namespace outsize
