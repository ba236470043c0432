#include "ops/expect.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class SquareSum final : public OpDef {
 public:
  std::string_view kind() const override { return "square_sum"; }
  Use use() const override { return Use::square_sum; }
  std::string_view help() const override { return "the sum of x² over all elements"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    return {{site.in(0).dtype, {1}, Format::plain}};
  }
  Role output_role(const OpSite&, int) const override { return Role::statistic; }

  bool can_gather(const OpSite&) const override { return false; }
  CallBoxes push(const OpSite& site, const Box& driver) const override { return {{driver}, {Box::whole(site.out(0).shape)}}; }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }
};

class ClipFactor final : public OpDef {
 public:
  std::string_view kind() const override { return "clip_factor"; }
  Use use() const override { return Use::clip_factor; }
  std::string_view help() const override {
    return "what gradients are multiplied by so that their common norm is at most max_norm: min(1, max_norm / (sqrt(sum) + 1e-6))";
  }
  std::vector<std::string_view> input_names() const override { return {"sums*"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return {{"max_norm", 1.0, "the largest norm, above 0"}}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    if (site.inputs() == 0) user_error("expected the sum of squares of a gradient at least");
    expect_plain(site, 0, 1, "[1]");
    const ValueType number{site.in(0).dtype, {1}, Format::plain};
    for (int i = 0; i < site.inputs(); ++i) expect_type(site, i, number, "a sum of squares");
    if (!(site.number("max_norm") > 0)) user_error("attribute max_norm must be above 0, found {}", site.number("max_norm"));
    return {number};
  }
  Role output_role(const OpSite&, int) const override { return Role::statistic; }
  bool cheap(const OpSite&) const override { return true; }
};

}  // namespace

void define_clip(OpList& list) {
  static const SquareSum square_sum;
  static const ClipFactor clip_factor;
  list.insert(list.end(), {&square_sum, &clip_factor});
}

}  // namespace outsize
