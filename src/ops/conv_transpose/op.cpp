#include "ops/conv_transpose/shape.h"
#include "ops/registry.h"

namespace outsize {
namespace {

struct Kinds {
  int rank;
  std::string_view forward;
  std::string_view conv;
  std::string_view conv_grad_weight;
  std::string_view weight;  // its shape in letters
};

constexpr Kinds kFlat{2, "conv_transpose2d", "conv2d", "conv2d_grad_weight", "[C, O / groups, kh, kw]"};
constexpr Kinds kDeep{3, "conv_transpose3d", "conv3d", "conv3d_grad_weight", "[C, O / groups, kd, kh, kw]"};

class ConvTranspose final : public OpDef {
 public:
  explicit ConvTranspose(const Kinds& kinds) : kinds_(kinds) {}
  std::string_view kind() const override { return kinds_.forward; }
  bool is_convolution() const override { return true; }
  std::string_view help() const override {
    return kinds_.rank == 2 ? "2-D transposed convolution with optional bias" : "3-D transposed convolution with optional bias";
  }
  std::vector<std::string_view> input_names() const override { return {"x", "weight", "bias?"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return conv_specs(kinds_.rank, {{"output_padding", std::vector<std::int64_t>(static_cast<std::size_t>(kinds_.rank), 0),
                                     "positions added to the end of the result, each below the stride"}});
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_spatial(site, 0, kinds_.rank);
    expect_plain(site, 1, 2 + kinds_.rank, kinds_.weight);
    const ValueType& x = site.in(0);
    Dims weight = site.in(1).shape;
    weight[0] = x.shape[1];
    expect_type(site, 1, {x.dtype, weight, Format::plain}, "x's dtype and channels");
    const std::int64_t outputs = weight[1] * expect_groups(site, {x.shape[1]});
    if (site.inputs() > 2) expect_type(site, 2, {x.dtype, {outputs}, Format::plain}, "one number an output channel");
    const SlidingWindows windows = transposed_windows(site);
    ValueType y{x.dtype, {x.shape[0], outputs}, Format::map};
    for (int i = 0; i < kinds_.rank; ++i) y.shape.push_back(windows[i].input);
    return {y};
  }

  // The convolution that this transposes, and its gradient with x and dy in each other's place.
  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (!dy) return;
    const OpSite site = context.site();
    Attributes attributes = conv_attributes(site);
    if (context.wants(0)) context.contribute(0, context.emit(kinds_.conv, "grad_data", {dy, context.input(1)}, attributes)[0]);
    if (context.wants(1)) {
      attributes["kernel"] = spatial_list(site.in(1).shape);
      context.contribute(1, context.emit(kinds_.conv_grad_weight, "grad_weight", {context.input(0), dy}, attributes)[0]);
    }
    if (site.inputs() > 2 && context.wants(2)) context.contribute(2, context.emit("channel_sum", "grad_bias", {dy})[0]);
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Dims& weight = site.in(1).shape;
    const Channels channels = channels_of(site, weight);
    const Interval rows = channels.outputs_of(output[1]);
    CallBoxes boxes{{transposed_windows(site).outputs_of(output, rows), weight_box(weight, rows, channels.columns_of(output[1]))},
                    {output}};
    if (site.inputs() > 2) boxes.in.push_back(vector_box(output[1]));
    return boxes;
  }
  // Results of boxes of x overlap, and the bias counts once: only samples can be pushed apart.
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    Box output = Box::whole(site.out(0).shape);
    output.set(0, driver[0]);
    CallBoxes boxes = gather(site, output);
    boxes.in[0] = Box::whole(site.in(0).shape);
    boxes.in[0].set(0, driver[0]);
    return boxes;
  }

  bool moves_alike(const OpSite& site, const CallBoxes& from, const CallBoxes& to) const override {
    return windows_move_alike(site, {from.out[0], to.out[0]}, {from.in[0], to.in[0]}, from.in[0], site.in(0).shape);
  }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    Cost cost = OpDef::cost(site, boxes);
    cost.flops = spread_flops(transposed_windows(site), channels_of(site, site.in(1).shape), boxes.in[0], boxes.out[0]);
    return cost;
  }

 private:
  const Kinds& kinds_;
};

}  // namespace

void define_conv_transpose(OpList& list) {
  static const ConvTranspose flat(kFlat), deep(kDeep);
  list.insert(list.end(), {&flat, &deep});
}

}  // namespace outsize
