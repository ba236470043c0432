#include "ops/expect.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class Affine final : public OpDef {
 public:
  std::string_view kind() const override { return "affine"; }
  std::string_view help() const override { return "y = scale * x + shift, element by element"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"scale", 1.0, "the factor"}, {"shift", 0.0, "what is added"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    return {site.in(0)};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const double scale = context.site().number("scale");
    const ValueId dy = context.gradient(0);
    context.contribute(0, scale == 1 ? dy : context.emit("affine", "grad", {dy}, {{"scale", scale}})[0]);
  }

  InPlacePairs in_place(const OpSite&) const override { return {{0, 0}}; }
  bool cheap(const OpSite&) const override { return true; }
};

}  // namespace

void define_affine(OpList& list) {
  static const Affine affine;
  list.push_back(&affine);
}

}  // namespace outsize
