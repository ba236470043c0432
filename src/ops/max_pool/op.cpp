#include "ops/registry.h"
#include "ops/window.h"

namespace outsize {
namespace {

SlidingWindow pool_window(const OpSite& site, std::int64_t height, std::int64_t width) {
  const std::vector<std::int64_t>& kernel = expect_list(site, "kernel", 2, 1);
  return sliding_window(site, kernel[0], kernel[1], height, width);
}

std::vector<AttributeSpec> pool_specs(AttributeSpec last) {
  std::vector<AttributeSpec> specs = sliding_window_specs({2, 2});
  specs.insert(specs.begin(), {"kernel", std::vector<std::int64_t>{2, 2}, "extents of the window, [kh, kw]"});
  specs.push_back(std::move(last));
  return specs;
}

// Padding counts as −∞. The position of the maximum, row · kw + column in its window, is saved for the gradient in one byte.
class MaxPool final : public OpDef {
 public:
  std::string_view kind() const override { return "max_pool"; }
  std::string_view help() const override { return "the maximum of each window and its position, with optional activation"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  std::vector<std::string_view> output_names() const override { return {"", "argmax"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return pool_specs({"activation", std::string("none"), "none, or relu of the maximum"});
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_map(site, 0);
    expect_activation(site);
    const ValueType& x = site.in(0);
    const SlidingWindow windows = window(site);
    if (windows.h.kernel * windows.w.kernel > 255)
      user_error("kernel must have at most 255 positions, found {} × {}", windows.h.kernel, windows.w.kernel);
    const Dims y{x.shape[0], x.shape[1], windows.h.output(), windows.w.output()};
    return {{x.dtype, y, Format::map}, {DType::u8, y, Format::map}};
  }

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (!dy || !context.wants(0)) return;
    const OpSite site = context.site();
    Attributes attributes = sliding_window_attributes(site);
    attributes["kernel"] = site.integers("kernel");
    attributes["input"] = std::vector<std::int64_t>{site.in(0).shape[2], site.in(0).shape[3]};
    std::vector<ValueId> inputs{dy, context.output(1)};
    if (expect_activation(site)) inputs.push_back(context.output(0));
    context.contribute(0, context.emit("max_pool_grad", "grad", std::move(inputs), std::move(attributes))[0]);
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    return {{window(site).inputs_of(output, output[1])}, {output, output}};
  }
  // A maximum cannot be put together from parts, so only samples and channels can be pushed apart.
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    Box output = Box::whole(site.out(0).shape);
    output.set(0, driver[0]);
    output.set(1, driver[1]);
    OUTSIZE_CHECK(driver[2].size() == site.in(0).shape[2] && driver[3].size() == site.in(0).shape[3]);
    return {{driver}, {output, output}};
  }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    Cost cost = OpDef::cost(site, boxes);
    const SlidingWindow windows = window(site);
    cost.flops = static_cast<double>(boxes.out[0].elements() * windows.h.kernel * windows.w.kernel);
    return cost;
  }

  // The maximum of relu is relu of the maximum: a quarter of the work, and relu's result is never stored.
  std::optional<FusedOp> fuse(const Graph&, const Op& first, const Op& second) const override {
    if (second.def != this || first.def->kind() != "relu") return std::nullopt;
    FusedOp fused{this, first.inputs, second.attributes};
    fused.attributes["activation"] = std::string("relu");
    return fused;
  }

 private:
  static SlidingWindow window(const OpSite& site) { return pool_window(site, site.in(0).shape[2], site.in(0).shape[3]); }
};

class MaxPoolGrad final : public OpDef {
 public:
  std::string_view kind() const override { return "max_pool_grad"; }
  std::string_view help() const override { return "the gradient of max_pool; with y, only where y > 0 (its activation was relu)"; }
  std::vector<std::string_view> input_names() const override { return {"dy", "argmax", "y?"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return pool_specs({"input", std::vector<std::int64_t>{}, "extents of x, [H, W] (required)"});
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_map(site, 0);
    const ValueType& dy = site.in(0);
    expect_type(site, 1, {DType::u8, dy.shape, Format::map}, "one byte an element of dy");
    if (site.inputs() > 2) expect_type(site, 2, dy, "as dy");
    const SlidingWindow windows = window(site);
    expect_dy(site, 0, windows);
    return {{dy.dtype, {dy.shape[0], dy.shape[1], windows.h.input, windows.w.input}, Format::map}};
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    return {same_inputs(site, window(site).outputs_of(output, output[1])), {output}};
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    return {same_inputs(site, driver), {window(site).inputs_of(driver, driver[1])}};
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }

 private:
  static SlidingWindow window(const OpSite& site) {
    const std::vector<std::int64_t>& input = expect_list(site, "input", 2, 1);
    return pool_window(site, input[0], input[1]);
  }
  static std::vector<Box> same_inputs(const OpSite& site, const Box& box) { return std::vector<Box>(site.op.inputs.size(), box); }
};

}  // namespace

void define_max_pool(OpList& list) {
  static const MaxPool forward;
  static const MaxPoolGrad grad;
  list.insert(list.end(), {&forward, &grad});
}

}  // namespace outsize
