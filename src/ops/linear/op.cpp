#include "ops/expect.h"
#include "ops/registry.h"

namespace outsize {
namespace {

Box matrix_box(Interval rows, Interval columns) { return {{rows.lo, columns.lo}, {rows.hi, columns.hi}}; }
Box vector_box(Interval range) { return {{range.lo}, {range.hi}}; }
Interval whole(std::int64_t extent) { return {0, extent}; }

// A multiplication and an addition for every pair of an element of `a` and a column of the other matrix.
Cost matmul_cost(Cost bytes, const Box& a, std::int64_t columns) {
  bytes.flops = 2.0 * static_cast<double>(a.elements()) * static_cast<double>(columns);
  return bytes;
}

class Linear final : public OpDef {
 public:
  std::string_view kind() const override { return "linear"; }
  std::string_view help() const override { return "y = x · weightᵀ + bias, row by row"; }
  std::vector<std::string_view> input_names() const override { return {"x", "weight", "bias?"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_plain(site, 0, 2, "[N, I]");
    expect_plain(site, 1, 2, "[O, I]");
    const ValueType& x = site.in(0);
    const std::int64_t outputs = site.in(1).shape[0];
    expect_type(site, 1, {x.dtype, {outputs, x.shape[1]}, Format::plain}, "x's dtype and columns");
    if (site.inputs() > 2) expect_type(site, 2, {x.dtype, {outputs}, Format::plain}, "one number a row of weight");
    return {{x.dtype, {x.shape[0], outputs}, Format::plain}};
  }

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (!dy) return;
    const bool wants_bias = context.site().inputs() > 2 && context.wants(2);
    if (context.wants(0)) context.contribute(0, context.emit("linear_grad_data", "grad_data", {dy, context.input(1)})[0]);
    if (context.wants(1) || wants_bias) {
      const std::vector<ValueId> grads =
          context.emit("linear_grad_weight", "grad_weight", {dy, context.input(0)}, {{"bias", std::int64_t{wants_bias}}});
      if (context.wants(1)) context.contribute(1, grads[0]);
      if (wants_bias) context.contribute(2, grads[1]);
    }
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Interval inner = whole(site.in(0).shape[1]);
    CallBoxes boxes{{matrix_box(output[0], inner), matrix_box(output[1], inner)}, {output}};
    if (site.inputs() > 2) boxes.in.push_back(vector_box(output[1]));
    return boxes;
  }
  // Whole rows only: the bias must be added once.
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    OUTSIZE_CHECK(driver[1] == whole(site.in(0).shape[1]));
    return gather(site, matrix_box(driver[0], whole(site.out(0).shape[1])));
  }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    return matmul_cost(OpDef::cost(site, boxes), boxes.in[0], boxes.out[0].extent(1));
  }
};

class LinearGradData final : public OpDef {
 public:
  std::string_view kind() const override { return "linear_grad_data"; }
  std::string_view help() const override { return "the gradient of linear with respect to x"; }
  std::vector<std::string_view> input_names() const override { return {"dy", "weight"}; }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_plain(site, 0, 2, "[N, O]");
    expect_plain(site, 1, 2, "[O, I]");
    const ValueType& dy = site.in(0);
    const std::int64_t inputs = site.in(1).shape[1];
    expect_type(site, 1, {dy.dtype, {dy.shape[1], inputs}, Format::plain}, "dy's dtype and columns");
    return {{dy.dtype, {dy.shape[0], inputs}, Format::plain}};
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Interval inner = whole(site.in(0).shape[1]);
    return {{matrix_box(output[0], inner), matrix_box(inner, output[1])}, {output}};
  }
  // Whole rows only, so that no sum is needed.
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    OUTSIZE_CHECK(driver[1] == whole(site.in(0).shape[1]));
    return gather(site, matrix_box(driver[0], whole(site.out(0).shape[1])));
  }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    return matmul_cost(OpDef::cost(site, boxes), boxes.in[0], boxes.out[0].extent(1));
  }
};

class LinearGradWeight final : public OpDef {
 public:
  std::string_view kind() const override { return "linear_grad_weight"; }
  std::string_view help() const override { return "the gradient of linear with respect to its weight and, if asked, its bias"; }
  std::vector<std::string_view> input_names() const override { return {"dy", "x"}; }
  std::vector<std::string_view> output_names() const override { return {"", "bias"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"bias", std::int64_t{0}, "1: also the gradient of the bias"}};
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_plain(site, 0, 2, "[N, O]");
    expect_plain(site, 1, 2, "[N, I]");
    const ValueType& dy = site.in(0);
    const std::int64_t inputs = site.in(1).shape[1];
    expect_type(site, 1, {dy.dtype, {dy.shape[0], inputs}, Format::plain}, "dy's dtype and rows");
    std::vector<ValueType> types{{dy.dtype, {dy.shape[1], inputs}, Format::plain}};
    if (site.integer("bias") != 0) types.push_back({dy.dtype, {dy.shape[1]}, Format::plain});
    return types;
  }

  bool can_gather(const OpSite&) const override { return false; }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    const Interval inputs = whole(site.in(1).shape[1]);
    CallBoxes boxes{{driver, matrix_box(driver[0], inputs)}, {matrix_box(driver[1], inputs)}};
    if (site.outputs() > 1) boxes.out.push_back(vector_box(driver[1]));
    return boxes;
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    return matmul_cost(OpDef::cost(site, boxes), boxes.in[0], boxes.in[1].extent(1));
  }
};

}  // namespace

void define_linear(OpList& list) {
  static const Linear forward;
  static const LinearGradData grad_data;
  static const LinearGradWeight grad_weight;
  list.insert(list.end(), {&forward, &grad_data, &grad_weight});
}

}  // namespace outsize
