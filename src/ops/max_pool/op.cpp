#include "ops/pool.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// Padding counts as −∞. The position of the maximum in its window, counted in row-major order, is saved for the gradient in one
// byte.
class MaxPool final : public OpDef {
 public:
  std::string_view kind() const override { return "max_pool"; }
  std::string_view help() const override { return "the maximum of each window and its position, with optional activation"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  std::vector<std::string_view> output_names() const override { return {"", "argmax"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return pool_specs({{"activation", std::string("none"), "none, or relu of the maximum"}});
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_any_map(site, 0);
    expect_activation(site);
    const ValueType& x = site.in(0);
    const SlidingWindows sliding = windows(site);
    if (taps(sliding) > kMostTaps)
      user_error("kernel must have at most {} positions, for one byte says which of them is the maximum; found {}", kMostTaps,
                 to_string(Attribute(site.integers("kernel"))));
    const Dims y = windows_type(x.dtype, x.shape[0], x.shape[1], sliding).shape;
    return {{x.dtype, y, Format::map}, {DType::u8, y, Format::map}};
  }

  bool stored_beside(const OpSite&, int output) const override { return output == 1; }

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (!dy || !context.wants(0)) return;
    const OpSite site = context.site();
    std::vector<ValueId> inputs{dy, context.output(1)};
    if (expect_activation(site)) inputs.push_back(context.output(0));
    context.contribute(0, context.emit("max_pool_grad", "grad", std::move(inputs), pool_gradient_attributes(site))[0]);
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    return {{windows(site).inputs_of(output, output[1])}, {output, output}};
  }
  // A maximum cannot be put together from parts, so only samples and channels can be pushed apart.
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    Box output = Box::whole(site.out(0).shape);
    output.set(0, driver[0]);
    output.set(1, driver[1]);
    for (int dim = 2; dim < driver.rank(); ++dim) OUTSIZE_CHECK(driver[dim].size() == site.in(0).shape[dim]);
    return {{driver}, {output, output}};
  }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    Cost cost = OpDef::cost(site, boxes);
    cost.flops = static_cast<double>(boxes.out[0].elements() * taps(windows(site)));
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
  static constexpr std::int64_t kMostTaps = 255;

  static SlidingWindows windows(const OpSite& site) { return pool_windows(site, spatial(site.in(0).shape)); }
  static std::int64_t taps(const SlidingWindows& sliding) {
    std::int64_t product = 1;
    for (int i = 0; i < sliding.rank; ++i) product *= sliding[i].kernel;
    return product;
  }
};

class MaxPoolGrad final : public OpDef {
 public:
  std::string_view kind() const override { return "max_pool_grad"; }
  std::string_view help() const override { return "the gradient of max_pool; with y, only where y > 0 (its activation was relu)"; }
  std::vector<std::string_view> input_names() const override { return {"dy", "argmax", "y?"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return pool_specs({kInputExtents}); }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_any_map(site, 0);
    const ValueType& dy = site.in(0);
    expect_type(site, 1, {DType::u8, dy.shape, Format::map}, "one byte an element of dy");
    if (site.inputs() > 2) expect_type(site, 2, dy, "as dy");
    expect_dy(site, 0, pool_gradient_windows(site));
    return {with_spatial(dy, site.integers("input"))};
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    return {same_inputs(site, pool_gradient_windows(site).outputs_of(output, output[1])), {output}};
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    return {same_inputs(site, driver), {pool_gradient_windows(site).inputs_of(driver, driver[1])}};
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }

 private:
  static std::vector<Box> same_inputs(const OpSite& site, const Box& box) { return std::vector<Box>(site.op.inputs.size(), box); }
};

}  // namespace

void define_max_pool(OpList& list) {
  static const MaxPool forward;
  static const MaxPoolGrad grad;
  list.insert(list.end(), {&forward, &grad});
}

}  // namespace outsize
