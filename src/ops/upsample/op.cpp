#include "ops/registry.h"
#include "ops/upsample/windows.h"

namespace outsize {
namespace {

// The attributes of both kinds, and then `extents`.
std::vector<AttributeSpec> resize_specs(AttributeSpec extents) {
  return {
      {"mode", std::string("nearest"), "nearest, or linear (bilinear, trilinear)"},
      {"align_corners", std::int64_t{0}, "linear: 1 where the first and last elements of x and y coincide, 0 where their edges do"},
      std::move(extents)};
}

// Input 0 must be a map and the attributes fit; the list that `attribute` gives.
const std::vector<std::int64_t>& expect_resize(const OpSite& site, std::string_view attribute) {
  expect_any_map(site, 0);
  const std::string& mode = site.word("mode");
  if (mode != "nearest" && mode != "linear") user_error("attribute mode must be nearest or linear, found {}", mode);
  const std::int64_t corners = site.integer("align_corners");
  if (corners != 0 && corners != 1) user_error("attribute align_corners must be 0 or 1, found {}", corners);
  if (corners == 1 && mode == "nearest") user_error("attribute align_corners needs mode=linear");
  return expect_list(site, attribute, static_cast<std::size_t>(site.in(0).shape.rank() - 2), 1);
}

class Upsample final : public ResampleOp<ResizeAxis> {
 public:
  Upsample() : ResampleOp(Direction::forward) {}
  std::string_view kind() const override { return "upsample"; }
  std::string_view help() const override { return "x resized to other spatial extents, by the nearest element or linearly"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return resize_specs({"output", std::vector<std::int64_t>{}, "spatial extents of y (required)"});
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    return {with_spatial(site.in(0), expect_resize(site, "output"))};
  }

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (!dy || !context.wants(0)) return;
    const OpSite site = context.site();
    Attributes attributes{
        {"mode", site.word("mode")}, {"align_corners", site.integer("align_corners")}, {"input", spatial_list(site.in(0).shape)}};
    context.contribute(0, context.emit("upsample_grad", "grad", {dy}, std::move(attributes))[0]);
  }

 private:
  SpatialWindows<ResizeAxis> windows(const OpSite& site) const override { return upsample_windows(site); }
};

class UpsampleGrad final : public ResampleOp<ResizeAxis> {
 public:
  UpsampleGrad() : ResampleOp(Direction::backward) {}
  std::string_view kind() const override { return "upsample_grad"; }
  std::string_view help() const override { return "the gradient of upsample"; }
  std::vector<std::string_view> input_names() const override { return {"dy"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return resize_specs(kInputExtents); }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    return {with_spatial(site.in(0), expect_resize(site, "input"))};
  }

 private:
  SpatialWindows<ResizeAxis> windows(const OpSite& site) const override { return upsample_gradient_windows(site); }
};

}  // namespace

void define_upsample(OpList& list) {
  static const Upsample forward;
  static const UpsampleGrad grad;
  list.insert(list.end(), {&forward, &grad});
}

}  // namespace outsize
