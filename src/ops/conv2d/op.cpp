#include "ops/registry.h"
#include "ops/window.h"

namespace outsize {
namespace {

std::vector<AttributeSpec> with(std::vector<AttributeSpec> specs, std::initializer_list<AttributeSpec> more) {
  specs.insert(specs.end(), more);
  return specs;
}

// A weight [O, C, kh, kw] restricted to ranges of O and C.
Box weight_box(const Dims& shape, Interval out_channels, Interval in_channels) {
  Box box = Box::whole(shape);
  box.set(0, out_channels);
  box.set(1, in_channels);
  return box;
}

Box vector_box(Interval range) { return {{range.lo}, {range.hi}}; }

// 2·N·O·OH·OW·C·kh·kw
double conv_flops(const Box& y, std::int64_t channels, std::int64_t taps) {
  return 2.0 * static_cast<double>(y.elements()) * static_cast<double>(channels * taps);
}

class Conv2d final : public OpDef {
 public:
  std::string_view kind() const override { return "conv2d"; }
  std::string_view help() const override { return "2-D convolution (cross-correlation) with optional bias and activation"; }
  std::vector<std::string_view> input_names() const override { return {"x", "weight", "bias?"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return with(sliding_window_specs({1, 1}), {{"activation", std::string("none"), "none, or relu of the result"}});
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_map(site, 0);
    expect_plain(site, 1, 4, "[O, C, kh, kw]");
    const ValueType& x = site.in(0);
    const Dims& weight = site.in(1).shape;
    expect_type(site, 1, {x.dtype, {weight[0], x.shape[1], weight[2], weight[3]}, Format::plain}, "x's dtype and channels");
    if (site.inputs() > 2) expect_type(site, 2, {x.dtype, {weight[0]}, Format::plain}, "one number an output channel");
    expect_activation(site);
    const SlidingWindow windows = window(site);
    return {{x.dtype, {x.shape[0], weight[0], windows.h.output(), windows.w.output()}, Format::map}};
  }

  void gradient(GradientContext& context) const override {
    ValueId dy = context.gradient(0);
    if (!dy) return;
    const OpSite site = context.site();
    if (expect_activation(site)) dy = context.emit("relu_grad", "relu_grad", {dy, context.output(0)})[0];
    const Dims& x = site.in(0).shape;
    const Dims& weight = site.in(1).shape;
    if (context.wants(0)) {
      Attributes attributes = sliding_window_attributes(site);
      attributes["input"] = std::vector<std::int64_t>{x[2], x[3]};
      context.contribute(0, context.emit("conv2d_grad_data", "grad_data", {dy, context.input(1)}, attributes)[0]);
    }
    const bool wants_bias = site.inputs() > 2 && context.wants(2);
    if (context.wants(1) || wants_bias) {
      Attributes attributes = sliding_window_attributes(site);
      attributes["kernel"] = std::vector<std::int64_t>{weight[2], weight[3]};
      attributes["bias"] = std::int64_t{wants_bias};
      const std::vector<ValueId> grads = context.emit("conv2d_grad_weight", "grad_weight", {dy, context.input(0)}, attributes);
      if (context.wants(1)) context.contribute(1, grads[0]);
      if (wants_bias) context.contribute(2, grads[1]);
    }
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Interval channels{0, site.in(0).shape[1]};
    CallBoxes boxes{{window(site).inputs_of(output, channels), weight_box(site.in(1).shape, output[1], channels)}, {output}};
    if (site.inputs() > 2) boxes.in.push_back(vector_box(output[1]));
    return boxes;
  }
  // The activation needs the complete sum, so only samples can be pushed apart.
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    Box whole = Box::whole(site.in(0).shape);
    whole.set(0, driver[0]);
    OUTSIZE_CHECK(driver == whole);
    Box output = Box::whole(site.out(0).shape);
    output.set(0, driver[0]);
    CallBoxes boxes = gather(site, output);
    boxes.in[0] = driver;
    return boxes;
  }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    Cost cost = OpDef::cost(site, boxes);
    const Dims& weight = site.in(1).shape;
    cost.flops = conv_flops(boxes.out[0], weight[1], weight[2] * weight[3]);
    return cost;
  }

  std::optional<FusedOp> fuse(const Graph& graph, const Op& first, const Op& second) const override {
    if (first.def != this || second.def->kind() != "relu" || OpSite{graph, first}.word("activation") != "none") return std::nullopt;
    FusedOp fused{this, first.inputs, first.attributes};
    fused.attributes["activation"] = std::string("relu");
    return fused;
  }

 private:
  static SlidingWindow window(const OpSite& site) {
    const Dims& x = site.in(0).shape;
    const Dims& weight = site.in(1).shape;
    return sliding_window(site, weight[2], weight[3], x[2], x[3]);
  }
};

class Conv2dGradData final : public OpDef {
 public:
  std::string_view kind() const override { return "conv2d_grad_data"; }
  std::string_view help() const override { return "the gradient of conv2d with respect to x"; }
  std::vector<std::string_view> input_names() const override { return {"dy", "weight"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return with(sliding_window_specs({1, 1}), {{"input", std::vector<std::int64_t>{}, "extents of x, [H, W] (required)"}});
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_map(site, 0);
    expect_plain(site, 1, 4, "[O, C, kh, kw]");
    const ValueType& dy = site.in(0);
    const Dims& weight = site.in(1).shape;
    expect_type(site, 1, {dy.dtype, {dy.shape[1], weight[1], weight[2], weight[3]}, Format::plain}, "dy's dtype and channels");
    const SlidingWindow windows = window(site);
    expect_dy(site, 0, windows);
    return {{dy.dtype, {dy.shape[0], weight[1], windows.h.input, windows.w.input}, Format::map}};
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Interval channels{0, site.in(0).shape[1]};
    return {{window(site).outputs_of(output, channels), weight_box(site.in(1).shape, channels, output[1])}, {output}};
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    const Interval channels{0, site.in(1).shape[1]};
    return {{driver, weight_box(site.in(1).shape, driver[1], channels)}, {window(site).inputs_of(driver, channels)}};
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    Cost cost = OpDef::cost(site, boxes);
    const Dims& weight = site.in(1).shape;
    const Box& dy = boxes.in[0];
    const Box& dx = boxes.out[0];
    // At the border of a gathered box, dy's windows reach outside dx: what an element of dx can receive bounds the work.
    const SlidingWindow windows = window(site);
    const std::int64_t taps = ceil_div(weight[2], windows.h.stride) * ceil_div(weight[3], windows.w.stride);
    cost.flops = std::min(conv_flops(dy, dx.extent(1), weight[2] * weight[3]), conv_flops(dx, dy.extent(1), taps));
    return cost;
  }

 private:
  static SlidingWindow window(const OpSite& site) {
    const std::vector<std::int64_t>& input = expect_list(site, "input", 2, 1);
    const Dims& weight = site.in(1).shape;
    return sliding_window(site, weight[2], weight[3], input[0], input[1]);
  }
};

class Conv2dGradWeight final : public OpDef {
 public:
  std::string_view kind() const override { return "conv2d_grad_weight"; }
  std::string_view help() const override { return "the gradient of conv2d with respect to its weight and, if asked, its bias"; }
  std::vector<std::string_view> input_names() const override { return {"dy", "x"}; }
  std::vector<std::string_view> output_names() const override { return {"", "bias"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return with(sliding_window_specs({1, 1}),
                {{"kernel", std::vector<std::int64_t>{}, "extents of the kernel, [kh, kw] (required)"},
                 {"bias", std::int64_t{0}, "1: also the gradient of the bias"}});
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_map(site, 0);
    expect_map(site, 1);
    const ValueType& dy = site.in(0);
    const Dims& x = site.in(1).shape;
    expect_type(site, 1, {dy.dtype, {dy.shape[0], x[1], x[2], x[3]}, Format::map}, "dy's dtype and samples");
    const SlidingWindow windows = window(site);
    expect_dy(site, 0, windows);
    std::vector<ValueType> types{{dy.dtype, {dy.shape[1], x[1], windows.h.kernel, windows.w.kernel}, Format::plain}};
    if (site.integer("bias") != 0) types.push_back({dy.dtype, {dy.shape[1]}, Format::plain});
    return types;
  }

  bool can_gather(const OpSite&) const override { return false; }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    const Interval channels{0, site.in(1).shape[1]};
    CallBoxes boxes{{driver, window(site).inputs_of(driver, channels)}, {weight_box(site.out(0).shape, driver[1], channels)}};
    if (site.outputs() > 1) boxes.out.push_back(vector_box(driver[1]));
    return boxes;
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    Cost cost = OpDef::cost(site, boxes);
    const SlidingWindow windows = window(site);
    cost.flops = conv_flops(boxes.in[0], boxes.in[1].extent(1), windows.h.kernel * windows.w.kernel);
    return cost;
  }

 private:
  static SlidingWindow window(const OpSite& site) {
    const std::vector<std::int64_t>& kernel = expect_list(site, "kernel", 2, 1);
    const Dims& x = site.in(1).shape;
    return sliding_window(site, kernel[0], kernel[1], x[2], x[3]);
  }
};

}  // namespace

void define_conv2d(OpList& list) {
  static const Conv2d forward;
  static const Conv2dGradData grad_data;
  static const Conv2dGradWeight grad_weight;
  list.insert(list.end(), {&forward, &grad_data, &grad_weight});
}

}  // namespace outsize
