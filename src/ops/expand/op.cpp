#include "ops/reduction.h"

namespace outsize {
namespace {

class Expand final : public OpDef {
 public:
  std::string_view kind() const override { return "expand"; }
  std::string_view help() const override { return "x repeated along the dimensions of `shape` where it has extent 1 or none"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"shape", std::vector<std::int64_t>{}, "the extents of the result (required)"},
            {"format", std::string("same"), "of the result: plain, map, or the same as x's"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    const ValueType& x = site.in(0);
    const ValueType y{x.dtype, expect_shape(site), site.word("format") == "same" ? x.format : expect_format(site)};
    if (y.format == Format::map && y.shape.rank() != 4 && y.shape.rank() != 5)
      user_error("a map must have shape [N, C, H, W] or [N, C, D, H, W], found {}", to_string(y));
    if (!broadcasts_to(x, y)) user_error("x, which is {}, does not broadcast to {}", to_string(x), to_string(y));
    return {y};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const ValueType& x = context.site().in(0);
    Attributes attributes{{"shape", as_list(x.shape)}, {"format", format_word(x.format)}};
    context.contribute(0, context.emit("sum_to", "grad", {context.gradient(0)}, std::move(attributes))[0]);
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    return {{operand_box(site.in(0).shape, site.out(0).shape, output)}, {output}};
  }
  // Channels of a map are never cut, so a plain x that is one number a channel is not either.
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    const ValueType& x = site.in(0);
    const Box box = x.format == site.out(0).format ? driver : Box::whole(x.shape);
    return {{box}, {result_box(x.shape, site.out(0).shape, box)}};
  }
  bool cheap(const OpSite&) const override { return true; }
};

}  // namespace

void define_expand(OpList& list) {
  static const Expand expand;
  list.push_back(&expand);
}

}  // namespace outsize
