#include "ops/plain_rows.h"
#include "ops/registry.h"

namespace outsize {
namespace {

Box matrix_box(Interval rows, Interval columns) { return {{rows.lo, columns.lo}, {rows.hi, columns.hi}}; }
Box vector_box(Interval range) { return {{range.lo}, {range.hi}}; }
Interval whole(std::int64_t extent) { return {0, extent}; }

const AttributeSpec kWeight{"weight", std::string("oi"),
                            "how the weight is stored: oi, [outputs, inputs], or io, [inputs, outputs]"};

// True where the weight is [inputs, outputs].
bool inputs_first(const OpSite& site) {
  const std::string& word = site.word("weight");
  if (word != "oi" && word != "io") user_error("attribute weight must be oi or io, found {}", word);
  return word == "io";
}
Box weight_box(const OpSite& site, Interval outputs, Interval inputs) {
  return inputs_first(site) ? matrix_box(inputs, outputs) : matrix_box(outputs, inputs);
}
Dims weight_shape(const OpSite& site, std::int64_t outputs, std::int64_t inputs) {
  return inputs_first(site) ? Dims{inputs, outputs} : Dims{outputs, inputs};
}

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
  std::vector<AttributeSpec> attribute_specs() const override { return {kWeight}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_rows(site, 0, 2, "[..., I]");
    expect_plain(site, 1, 2, inputs_first(site) ? "[I, O]" : "[O, I]");
    const ValueType& x = site.in(0);
    const std::int64_t outputs = site.in(1).shape[inputs_first(site) ? 1 : 0];
    expect_type(site, 1, {x.dtype, weight_shape(site, outputs, last_extent(x.shape)), Format::plain}, "x's dtype and columns");
    if (site.inputs() > 2) expect_type(site, 2, {x.dtype, {outputs}, Format::plain}, "one number an output");
    return {{x.dtype, with_last(x.shape, outputs), Format::plain}};
  }

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (!dy) return;
    const OpSite site = context.site();
    const Attributes attributes{{"weight", site.word("weight")}};
    const bool wants_bias = site.inputs() > 2 && context.wants(2);
    if (context.wants(0))
      context.contribute(0, context.emit("linear_grad_data", "grad_data", {dy, context.input(1)}, attributes)[0]);
    if (context.wants(1) || wants_bias) {
      Attributes with_bias = attributes;
      with_bias["bias"] = std::int64_t{wants_bias};
      const std::vector<ValueId> grads =
          context.emit("linear_grad_weight", "grad_weight", {dy, context.input(0)}, std::move(with_bias));
      if (context.wants(1)) context.contribute(1, grads[0]);
      if (wants_bias) context.contribute(2, grads[1]);
    }
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Interval inner = whole(last_extent(site.in(0).shape));
    const Interval outputs = last_range(output);
    CallBoxes boxes{{with_last(output, inner), weight_box(site, outputs, inner)}, {output}};
    if (site.inputs() > 2) boxes.in.push_back(vector_box(outputs));
    return boxes;
  }
  // Parts of rows give parts of sums; the bias goes with the first.
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    const Interval inputs = last_range(driver), outputs = whole(last_extent(site.out(0).shape));
    CallBoxes boxes{{driver, weight_box(site, outputs, inputs)}, {with_last(driver, outputs)}};
    if (site.inputs() > 2) boxes.in.push_back(vector_box(inputs.lo == 0 ? outputs : Interval{}));
    return boxes;
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    return matmul_cost(OpDef::cost(site, boxes), boxes.in[0], last_range(boxes.out[0]).size());
  }
};

class LinearGradData final : public OpDef {
 public:
  std::string_view kind() const override { return "linear_grad_data"; }
  std::string_view help() const override { return "the gradient of linear with respect to x"; }
  std::vector<std::string_view> input_names() const override { return {"dy", "weight"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return {kWeight}; }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_rows(site, 0, 2, "[..., O]");
    expect_plain(site, 1, 2, inputs_first(site) ? "[I, O]" : "[O, I]");
    const ValueType& dy = site.in(0);
    const std::int64_t inputs = site.in(1).shape[inputs_first(site) ? 0 : 1];
    expect_type(site, 1, {dy.dtype, weight_shape(site, last_extent(dy.shape), inputs), Format::plain}, "dy's dtype and columns");
    return {{dy.dtype, with_last(dy.shape, inputs), Format::plain}};
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Interval inner = whole(last_extent(site.in(0).shape));
    return {{with_last(output, inner), weight_box(site, inner, last_range(output))}, {output}};
  }
  // Parts of rows give parts of sums.
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    const Interval inputs = whole(last_extent(site.out(0).shape));
    return {{driver, weight_box(site, last_range(driver), inputs)}, {with_last(driver, inputs)}};
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    return matmul_cost(OpDef::cost(site, boxes), boxes.in[0], last_range(boxes.out[0]).size());
  }
};

class LinearGradWeight final : public OpDef {
 public:
  std::string_view kind() const override { return "linear_grad_weight"; }
  std::string_view help() const override { return "the gradient of linear with respect to its weight and, if asked, its bias"; }
  std::vector<std::string_view> input_names() const override { return {"dy", "x"}; }
  std::vector<std::string_view> output_names() const override { return {"", "bias"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"bias", std::int64_t{0}, "1: also the gradient of the bias"}, kWeight};
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_rows(site, 0, 2, "[..., O]");
    expect_rows(site, 1, 2, "[..., I]");
    const ValueType& dy = site.in(0);
    const std::int64_t outputs = last_extent(dy.shape);
    const std::int64_t inputs = last_extent(site.in(1).shape);
    expect_type(site, 1, {dy.dtype, with_last(dy.shape, inputs), Format::plain}, "dy's dtype and rows");
    std::vector<ValueType> types{{dy.dtype, weight_shape(site, outputs, inputs), Format::plain}};
    if (site.integer("bias") != 0) types.push_back({dy.dtype, {outputs}, Format::plain});
    return types;
  }

  bool can_gather(const OpSite&) const override { return false; }
  bool gathers_sums(const OpSite&) const override { return true; }
  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Interval outputs = output[inputs_first(site) ? 1 : 0], inputs = output[inputs_first(site) ? 0 : 1];
    CallBoxes boxes{{with_last(Box::whole(site.in(0).shape), outputs), with_last(Box::whole(site.in(1).shape), inputs)}, {output}};
    if (site.outputs() > 1) boxes.out.push_back(vector_box(outputs));
    return boxes;
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    const Interval inputs = whole(last_extent(site.in(1).shape));
    const Interval outputs = last_range(driver);
    CallBoxes boxes{{driver, with_last(driver, inputs)}, {weight_box(site, outputs, inputs)}};
    if (site.outputs() > 1) boxes.out.push_back(vector_box(outputs));
    return boxes;
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    return matmul_cost(OpDef::cost(site, boxes), boxes.in[0], last_range(boxes.in[1]).size());
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
