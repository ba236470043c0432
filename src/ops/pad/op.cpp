#include <cmath>

#include "ops/movement.h"

namespace outsize {
namespace {

class Pad final : public OpDef {
 public:
  std::string_view kind() const override { return "pad"; }
  std::string_view help() const override { return "x with elements of one value before and after it in every dimension"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"before", std::vector<std::int64_t>{}, "how many before x, a number a dimension (required)"},
            {"after", std::vector<std::int64_t>{}, "how many after x, a number a dimension (required)"},
            {"value", 0.0, "what they are"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_movable(site, 0);
    ValueType y = site.in(0);
    const int rank = y.shape.rank();
    const std::vector<std::int64_t>& before = expect_list(site, "before", static_cast<std::size_t>(rank), 0);
    const std::vector<std::int64_t>& after = expect_list(site, "after", static_cast<std::size_t>(rank), 0);
    for (int dim = 0; dim < rank; ++dim)
      y.shape[dim] += before[static_cast<std::size_t>(dim)] + after[static_cast<std::size_t>(dim)];
    const double value = site.number("value");
    if (y.dtype == DType::i32 && (value != std::nearbyint(value) || std::abs(value) > 0x7FFFFFFF))
      user_error("attribute value must be a 32-bit integer as x's elements are, found {}", value);
    return {y};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const OpSite site = context.site();
    std::vector<std::int64_t> end = as_list(site.in(0).shape);
    const std::vector<std::int64_t>& before = site.integers("before");
    for (std::size_t i = 0; i < end.size(); ++i) end[i] += before[i];
    Attributes attributes{{"start", before}, {"end", std::move(end)}};
    context.contribute(0, context.emit("slice", "grad", {context.gradient(0)}, std::move(attributes))[0]);
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    return {{with_all_channels(shifted_into(output, negated(site.integers("before")), site.in(0).shape), site.in(0))}, {output}};
  }
  // A box at the border of x brings the padding beyond it.
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    const std::vector<std::int64_t>& before = site.integers("before");
    Box output = driver;
    for (int dim = 0; dim < driver.rank(); ++dim) {
      const std::int64_t shift = before[static_cast<std::size_t>(dim)];
      output.set(dim, {driver.lo[dim] == 0 ? 0 : driver.lo[dim] + shift,
                       driver.hi[dim] == site.in(0).shape[dim] ? site.out(0).shape[dim] : driver.hi[dim] + shift});
    }
    return {{driver}, {output}};
  }
  bool cheap(const OpSite&) const override { return true; }
};

}  // namespace

void define_pad(OpList& list) {
  static const Pad pad;
  list.push_back(&pad);
}

}  // namespace outsize
