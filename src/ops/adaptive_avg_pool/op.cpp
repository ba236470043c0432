#include "ops/adaptive_avg_pool/windows.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class AdaptiveAvgPool final : public ResampleOp<AdaptiveMeanAxis> {
 public:
  AdaptiveAvgPool() : ResampleOp(Direction::forward) {}
  std::string_view kind() const override { return "adaptive_avg_pool"; }
  std::string_view help() const override { return "the means of windows that cover the map, as many as `output` says"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"output", std::vector<std::int64_t>{}, "extents of y, [H, W] or [D, H, W]; without it 1 along each"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_any_map(site, 0);
    return {with_spatial(site.in(0), adaptive_output(site))};
  }

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (!dy || !context.wants(0)) return;
    Attributes attributes{{"input", spatial_list(context.site().in(0).shape)}};
    context.contribute(0, context.emit("adaptive_avg_pool_grad", "grad", {dy}, std::move(attributes))[0]);
  }

  // The mean of a whole map is a reduction: nothing of it is there before all of the map is.
  bool can_gather(const OpSite& site) const override {
    const auto positions = [](const ValueType& map) {
      std::int64_t count = 1;
      for (const std::int64_t extent : spatial(map.shape)) count *= extent;
      return count;
    };
    return positions(site.out(0)) > 1 || positions(site.in(0)) == 1;
  }

 private:
  SpatialWindows<AdaptiveMeanAxis> windows(const OpSite& site) const override { return adaptive_avg_pool_windows(site); }
};

class AdaptiveAvgPoolGrad final : public ResampleOp<AdaptiveMeanAxis> {
 public:
  AdaptiveAvgPoolGrad() : ResampleOp(Direction::backward) {}
  std::string_view kind() const override { return "adaptive_avg_pool_grad"; }
  std::string_view help() const override { return "the gradient of adaptive_avg_pool"; }
  std::vector<std::string_view> input_names() const override { return {"dy"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return {kInputExtents}; }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_any_map(site, 0);
    return {with_spatial(site.in(0), expect_list(site, "input", static_cast<std::size_t>(site.in(0).shape.rank() - 2), 1))};
  }

 private:
  SpatialWindows<AdaptiveMeanAxis> windows(const OpSite& site) const override { return adaptive_avg_pool_gradient_windows(site); }
};

}  // namespace

void define_adaptive_avg_pool(OpList& list) {
  static const AdaptiveAvgPool forward;
  static const AdaptiveAvgPoolGrad grad;
  list.insert(list.end(), {&forward, &grad});
}

}  // namespace outsize
