#pragma once

#include "ops/expect.h"
#include "ops/registry.h"

namespace outsize {

// What the gradient of a pointwise function of one value is computed from, beside dy. From y where that is possible: nothing in
// backward then needs x, and y may overwrite it.
enum class GradientFrom : std::uint8_t { x, y };

// A pointwise function of one value and its gradient, for the two OpDefs below. It must outlive them.
struct PointwiseSpec {
  std::string_view kind;
  std::string_view help;
  std::string_view gradient_kind;
  std::string_view gradient_help;
  GradientFrom from = GradientFrom::y;
  // Of both kinds.
  std::vector<AttributeSpec> attributes = {};
  // Throws UserError where an attribute is out of its range; may be null.
  void (*check)(const OpSite&) = nullptr;
};

// y = f(x), element by element, plain or map.
class Pointwise final : public OpDef {
 public:
  explicit Pointwise(const PointwiseSpec& spec) : spec_(spec) {}
  std::string_view kind() const override { return spec_.kind; }
  std::string_view help() const override { return spec_.help; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return spec_.attributes; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    if (spec_.check) spec_.check(site);
    return {site.in(0)};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const ValueId other = spec_.from == GradientFrom::x ? context.input(0) : context.output(0);
    context.contribute(0, context.emit(spec_.gradient_kind, "grad", {context.gradient(0), other}, context.site().op.attributes)[0]);
  }

  InPlacePairs in_place(const OpSite&) const override { return {{0, 0}}; }
  bool cheap(const OpSite&) const override { return true; }

 private:
  const PointwiseSpec& spec_;
};

// dx = dy · f'(x), from dy and x or y.
class PointwiseGrad final : public OpDef {
 public:
  explicit PointwiseGrad(const PointwiseSpec& spec) : spec_(spec) {}
  std::string_view kind() const override { return spec_.gradient_kind; }
  std::string_view help() const override { return spec_.gradient_help; }
  std::vector<std::string_view> input_names() const override { return {"dy", spec_.from == GradientFrom::x ? "x" : "y"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return spec_.attributes; }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    expect_type(site, 1, site.in(0), "as dy");
    if (spec_.check) spec_.check(site);
    return {site.in(0)};
  }

  InPlacePairs in_place(const OpSite&) const override { return {{0, 0}, {0, 1}}; }
  bool cheap(const OpSite&) const override { return true; }

 private:
  const PointwiseSpec& spec_;
};

}  // namespace outsize
