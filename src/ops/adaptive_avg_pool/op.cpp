#include "ops/registry.h"
#include "ops/window.h"

namespace outsize {
namespace {

class AdaptiveAvgPool final : public OpDef {
 public:
  std::string_view kind() const override { return "adaptive_avg_pool"; }
  std::string_view help() const override { return "the means of output[0] × output[1] windows that cover the map"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"output", std::vector<std::int64_t>{1, 1}, "extents of y, [H, W]"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_map(site, 0);
    const ValueType& x = site.in(0);
    const std::vector<std::int64_t>& output = expect_list(site, "output", 2, 1);
    return {{x.dtype, {x.shape[0], x.shape[1], output[0], output[1]}, Format::map}};
  }

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (!dy || !context.wants(0)) return;
    const Dims& x = context.site().in(0).shape;
    Attributes attributes{{"input", std::vector<std::int64_t>{x[2], x[3]}}};
    context.contribute(0, context.emit("adaptive_avg_pool_grad", "grad", {dy}, std::move(attributes))[0]);
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    return {{window(site).inputs_of(output, output[1])}, {output}};
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    return {{driver}, {window(site).outputs_of(driver, driver[1])}};
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    Cost cost = OpDef::cost(site, boxes);
    cost.flops = static_cast<double>(boxes.in[0].elements());
    return cost;
  }

 private:
  static AdaptiveWindow window(const OpSite& site) {
    const Dims& x = site.in(0).shape;
    const std::vector<std::int64_t>& output = site.integers("output");
    return {{x[2], output[0]}, {x[3], output[1]}};
  }
};

class AdaptiveAvgPoolGrad final : public OpDef {
 public:
  std::string_view kind() const override { return "adaptive_avg_pool_grad"; }
  std::string_view help() const override { return "the gradient of adaptive_avg_pool"; }
  std::vector<std::string_view> input_names() const override { return {"dy"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"input", std::vector<std::int64_t>{}, "extents of x, [H, W] (required)"}};
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_map(site, 0);
    const ValueType& dy = site.in(0);
    const std::vector<std::int64_t>& input = expect_list(site, "input", 2, 1);
    return {{dy.dtype, {dy.shape[0], dy.shape[1], input[0], input[1]}, Format::map}};
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    return {{window(site).outputs_of(output, output[1])}, {output}};
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    return {{driver}, {window(site).inputs_of(driver, driver[1])}};
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }

 private:
  static AdaptiveWindow window(const OpSite& site) {
    const Dims& dy = site.in(0).shape;
    const std::vector<std::int64_t>& input = site.integers("input");
    return {{input[0], dy[2]}, {input[1], dy[3]}};
  }
};

}  // namespace

void define_adaptive_avg_pool(OpList& list) {
  static const AdaptiveAvgPool forward;
  static const AdaptiveAvgPoolGrad grad;
  list.insert(list.end(), {&forward, &grad});
}

}  // namespace outsize
