#include "ops/avg_pool/windows.h"
#include "ops/registry.h"

namespace outsize {
namespace {

const AttributeSpec kCountIncludePad{"count_include_pad", std::int64_t{1},
                                     "1: the mean over all of the kernel, padding as zeros; 0: over what is there of the input"};

void expect_count_include_pad(const OpSite& site) {
  const std::int64_t found = site.integer("count_include_pad");
  if (found != 0 && found != 1) user_error("attribute count_include_pad must be 0 or 1, found {}", found);
}

class AvgPool final : public ResampleOp<AverageAxis> {
 public:
  AvgPool() : ResampleOp(Direction::forward) {}
  std::string_view kind() const override { return "avg_pool"; }
  std::string_view help() const override { return "the mean of each window"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return pool_specs({kCountIncludePad}); }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_any_map(site, 0);
    expect_count_include_pad(site);
    const ValueType& x = site.in(0);
    return {windows_type(x.dtype, x.shape[0], x.shape[1], pool_windows(site, spatial(x.shape)))};
  }

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (!dy || !context.wants(0)) return;
    Attributes attributes = pool_gradient_attributes(context.site());
    attributes["count_include_pad"] = context.site().integer("count_include_pad");
    context.contribute(0, context.emit("avg_pool_grad", "grad", {dy}, std::move(attributes))[0]);
  }

 private:
  SpatialWindows<AverageAxis> windows(const OpSite& site) const override { return avg_pool_windows(site); }
};

class AvgPoolGrad final : public ResampleOp<AverageAxis> {
 public:
  AvgPoolGrad() : ResampleOp(Direction::backward) {}
  std::string_view kind() const override { return "avg_pool_grad"; }
  std::string_view help() const override { return "the gradient of avg_pool"; }
  std::vector<std::string_view> input_names() const override { return {"dy"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return pool_specs({kCountIncludePad, kInputExtents}); }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_any_map(site, 0);
    expect_count_include_pad(site);
    expect_dy(site, 0, pool_gradient_windows(site));
    return {with_spatial(site.in(0), site.integers("input"))};
  }

 private:
  SpatialWindows<AverageAxis> windows(const OpSite& site) const override { return avg_pool_gradient_windows(site); }
};

}  // namespace

void define_avg_pool(OpList& list) {
  static const AvgPool forward;
  static const AvgPoolGrad grad;
  list.insert(list.end(), {&forward, &grad});
}

}  // namespace outsize
