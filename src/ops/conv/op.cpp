#include "ops/conv/shape.h"
#include "ops/gate.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// The kinds with two, and those with three spatial dimensions.
struct ConvKinds {
  int rank;
  std::string_view forward;
  std::string_view grad_data;
  std::string_view grad_weight;
  std::string_view weight;  // its shape in letters
};

constexpr ConvKinds kConv2d{2, "conv2d", "conv2d_grad_data", "conv2d_grad_weight", "[O, C / groups, kh, kw]"};
constexpr ConvKinds kConv3d{3, "conv3d", "conv3d_grad_data", "conv3d_grad_weight", "[O, C / groups, kd, kh, kw]"};

class Conv final : public OpDef {
 public:
  explicit Conv(const ConvKinds& kinds) : kinds_(kinds) {}
  std::string_view kind() const override { return kinds_.forward; }
  bool is_convolution() const override { return true; }
  std::string_view help() const override {
    return kinds_.rank == 2 ? "2-D convolution (cross-correlation) with optional bias and activation"
                            : "3-D convolution (cross-correlation) with optional bias and activation";
  }
  std::vector<std::string_view> input_names() const override { return {"x", "weight", "bias?"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return conv_specs(kinds_.rank, {{"activation", std::string("none"), "none, or relu of the result"}});
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_spatial(site, 0, kinds_.rank);
    expect_plain(site, 1, 2 + kinds_.rank, kinds_.weight);
    const ValueType& x = site.in(0);
    Dims weight = site.in(1).shape;
    weight[1] = x.shape[1] / expect_groups(site, {x.shape[1], weight[0]});
    expect_type(site, 1, {x.dtype, weight, Format::plain}, "x's dtype and channels");
    if (site.inputs() > 2) expect_type(site, 2, {x.dtype, {weight[0]}, Format::plain}, "one number an output channel");
    expect_activation(site);
    return {windows_type(x.dtype, x.shape[0], weight[0], windows(site))};
  }

  bool takes_planar(const OpSite& site, int input) const override { return input == 0 && may_be_planar(site, input); }

  bool gates_gradient(const OpSite& site) const override { return expect_activation(site); }
  void gradient(GradientContext& context) const override {
    if (!context.gradient(0)) return;
    const OpSite site = context.site();
    const ValueId dy = expect_activation(site) ? gated_gradient(context, "relu_grad") : context.gradient(0);
    if (context.wants(0)) {
      Attributes attributes = conv_attributes(site);
      attributes["input"] = spatial_list(site.in(0).shape);
      context.contribute(0, context.emit(kinds_.grad_data, "grad_data", {dy, context.input(1)}, attributes)[0]);
    }
    const bool wants_bias = site.inputs() > 2 && context.wants(2);
    if (context.wants(1) || wants_bias) {
      Attributes attributes = conv_attributes(site);
      attributes["kernel"] = spatial_list(site.in(1).shape);
      attributes["bias"] = std::int64_t{wants_bias};
      const std::vector<ValueId> grads = context.emit(kinds_.grad_weight, "grad_weight", {dy, context.input(0)}, attributes);
      if (context.wants(1)) context.contribute(1, grads[0]);
      if (wants_bias) context.contribute(2, grads[1]);
    }
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Dims& weight = site.in(1).shape;
    const Channels channels = channels_of(site, weight);
    CallBoxes boxes{
        {windows(site).inputs_of(output, channels.inputs_of(output[1])), weight_box(weight, output[1], {0, channels.inputs})},
        {output}};
    if (site.inputs() > 2) boxes.in.push_back(vector_box(output[1]));
    return boxes;
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    const Dims& weight = site.in(1).shape;
    const Channels channels = channels_of(site, weight);
    if (sums(site) && site.inputs() == 2) {
      const Interval outputs = channels.outputs_of(driver[1]);
      return {{driver, weight_box(weight, outputs, channels.columns_of(driver[1]))}, {windows(site).outputs_of(driver, outputs)}};
    }
    // An activation needs the complete sum. A bias counts once: it goes with the first channels of x, over the whole space.
    const bool splits = sums(site) && channels.groups == 1;
    Box x = Box::whole(site.in(0).shape), output = Box::whole(site.out(0).shape);
    x.set(0, driver[0]);
    output.set(0, driver[0]);
    if (splits) x.set(1, driver[1]);
    CallBoxes boxes{{x, weight_box(weight, output[1], splits ? driver[1] : Interval{0, channels.inputs})}, {output}};
    if (site.inputs() > 2) boxes.in.push_back(vector_box(splits && driver.lo[1] > 0 ? Interval{} : output[1]));
    return boxes;
  }
  Combine combine(const OpSite& site, int) const override { return sums(site) ? Combine::sum : Combine::none; }
  bool moves_alike(const OpSite& site, const CallBoxes& from, const CallBoxes& to) const override {
    return windows_move_alike(site, {from.in[0], to.in[0]}, {from.out[0], to.out[0]}, from.in[0], site.in(0).shape);
  }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    Cost cost = OpDef::cost(site, boxes);
    const SlidingWindows all = windows(site);
    cost.flops = conv_flops(boxes.out[0], boxes.in[1].extent(1), taps_of(all));
    return cost;
  }

  std::optional<FusedOp> fuse(const Graph& graph, const Op& first, const Op& second) const override {
    if (first.def != this || second.def->kind() != "relu" || OpSite{graph, first}.word("activation") != "none") return std::nullopt;
    FusedOp fused{this, first.inputs, first.attributes};
    fused.attributes["activation"] = std::string("relu");
    return fused;
  }

 private:
  static SlidingWindows windows(const OpSite& site) {
    return sliding_windows(site, spatial(site.in(1).shape), spatial(site.in(0).shape), true);
  }
  // Without an activation it is a sum over x, like the gradients, and may be asked for the part of a box of x.
  static bool sums(const OpSite& site) { return site.word("activation") == "none"; }

  const ConvKinds& kinds_;
};

class ConvGradData final : public OpDef {
 public:
  explicit ConvGradData(const ConvKinds& kinds) : kinds_(kinds) {}
  std::string_view kind() const override { return kinds_.grad_data; }
  std::string_view help() const override { return "the gradient of a convolution with respect to x"; }
  std::vector<std::string_view> input_names() const override { return {"dy", "weight"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return conv_specs(kinds_.rank, {{"input", std::vector<std::int64_t>{}, "the spatial extents of x (required)"}});
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_spatial(site, 0, kinds_.rank);
    expect_plain(site, 1, 2 + kinds_.rank, kinds_.weight);
    const ValueType& dy = site.in(0);
    Dims weight = site.in(1).shape;
    weight[0] = dy.shape[1];
    expect_type(site, 1, {dy.dtype, weight, Format::plain}, "dy's dtype and channels");
    const std::int64_t groups = expect_groups(site, {dy.shape[1]});
    const SlidingWindows all = windows(site);
    expect_dy(site, 0, all);
    ValueType dx{dy.dtype, {dy.shape[0], weight[1] * groups}, Format::map};
    for (int i = 0; i < kinds_.rank; ++i) dx.shape.push_back(all[i].input);
    return {dx};
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Dims& weight = site.in(1).shape;
    const Channels channels = channels_of(site, weight);
    const Interval rows = channels.outputs_of(output[1]);
    return {{windows(site).outputs_of(output, rows), weight_box(weight, rows, channels.columns_of(output[1]))}, {output}};
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    const Dims& weight = site.in(1).shape;
    const Channels channels = channels_of(site, weight);
    return {{driver, weight_box(weight, driver[1], {0, channels.inputs})},
            {windows(site).inputs_of(driver, channels.inputs_of(driver[1]))}};
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }
  bool moves_alike(const OpSite& site, const CallBoxes& from, const CallBoxes& to) const override {
    return windows_move_alike(site, {from.out[0], to.out[0]}, {from.in[0], to.in[0]}, from.in[0], site.in(0).shape);
  }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    Cost cost = OpDef::cost(site, boxes);
    cost.flops = spread_flops(windows(site), channels_of(site, site.in(1).shape), boxes.in[0], boxes.out[0]);
    return cost;
  }

 private:
  SlidingWindows windows(const OpSite& site) const {
    const std::vector<std::int64_t>& input = expect_list(site, "input", static_cast<std::size_t>(kinds_.rank), 1);
    return sliding_windows(site, spatial(site.in(1).shape), input, true);
  }

  const ConvKinds& kinds_;
};

class ConvGradWeight final : public OpDef {
 public:
  explicit ConvGradWeight(const ConvKinds& kinds) : kinds_(kinds) {}
  std::string_view kind() const override { return kinds_.grad_weight; }
  std::string_view help() const override {
    return "the gradient of a convolution with respect to its weight and, if asked, its bias";
  }
  std::vector<std::string_view> input_names() const override { return {"dy", "x"}; }
  std::vector<std::string_view> output_names() const override { return {"", "bias"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return conv_specs(kinds_.rank, {{"kernel", std::vector<std::int64_t>{}, "the spatial extents of the kernel (required)"},
                                    {"bias", std::int64_t{0}, "1: also the gradient of the bias"}});
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_spatial(site, 0, kinds_.rank);
    expect_spatial(site, 1, kinds_.rank);
    const ValueType& dy = site.in(0);
    Dims x = site.in(1).shape;
    x[0] = dy.shape[0];
    expect_type(site, 1, {dy.dtype, x, site.in(1).format}, "dy's dtype and samples");
    const std::int64_t groups = expect_groups(site, {dy.shape[1], x[1]});
    const SlidingWindows all = windows(site);
    expect_dy(site, 0, all);
    std::vector<ValueType> types{{dy.dtype, {dy.shape[1], x[1] / groups}, Format::plain}};
    for (int i = 0; i < kinds_.rank; ++i) types[0].shape.push_back(all[i].kernel);
    if (site.integer("bias") != 0) types.push_back({dy.dtype, {dy.shape[1]}, Format::plain});
    return types;
  }

  bool takes_planar(const OpSite& site, int input) const override { return input == 1 && may_be_planar(site, input); }
  bool can_gather(const OpSite&) const override { return false; }
  bool gathers_sums(const OpSite&) const override { return true; }
  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Dims& weight = site.out(0).shape;
    const Channels channels = channels_of(site, weight);
    const Interval columns = channels.columns_of(output[1]);
    Box dy = Box::whole(site.in(0).shape), x = Box::whole(site.in(1).shape);
    dy.set(1, output[0]);
    x.set(1, channels.groups == 1 ? columns : channels.inputs_of(output[0]));
    CallBoxes boxes{{dy, x}, {weight_box(weight, output[0], columns)}};
    if (site.outputs() > 1) boxes.out.push_back(vector_box(output[0]));
    return boxes;
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    const Dims& weight = site.out(0).shape;
    const Channels channels = channels_of(site, weight);
    CallBoxes boxes{{driver, windows(site).inputs_of(driver, channels.inputs_of(driver[1]))},
                    {weight_box(weight, driver[1], {0, channels.inputs})}};
    if (site.outputs() > 1) boxes.out.push_back(vector_box(driver[1]));
    return boxes;
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }
  bool moves_alike(const OpSite& site, const CallBoxes& from, const CallBoxes& to) const override {
    return windows_move_alike(site, {from.in[1], to.in[1]}, {from.in[0], to.in[0]}, from.in[1], site.in(1).shape);
  }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    Cost cost = OpDef::cost(site, boxes);
    cost.flops = conv_flops(boxes.in[0], boxes.out[0].extent(1), taps_of(windows(site)));
    return cost;
  }

 private:
  SlidingWindows windows(const OpSite& site) const {
    const std::vector<std::int64_t>& kernel = expect_list(site, "kernel", static_cast<std::size_t>(kinds_.rank), 1);
    return sliding_windows(site, kernel, spatial(site.in(1).shape), true);
  }

  const ConvKinds& kinds_;
};

}  // namespace

void define_conv(OpList& list) {
  static const Conv conv2d(kConv2d), conv3d(kConv3d);
  static const ConvGradData grad_data_2d(kConv2d), grad_data_3d(kConv3d);
  static const ConvGradWeight grad_weight_2d(kConv2d), grad_weight_3d(kConv3d);
  list.insert(list.end(), {&conv2d, &grad_data_2d, &grad_weight_2d, &conv3d, &grad_data_3d, &grad_weight_3d});
}

}  // namespace outsize
