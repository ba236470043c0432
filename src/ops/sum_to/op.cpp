#include "ops/reduction.h"

namespace outsize {
namespace {

// The adjoint of broadcasting.
class SumTo final : public ReductionOp {
 public:
  std::string_view kind() const override { return "sum_to"; }
  std::string_view help() const override { return "x summed over the dimensions along which `shape` would be broadcast to it"; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"shape", std::vector<std::int64_t>{}, "the extents of the result, each 1 or as x's (required)"},
            {"format", std::string("plain"), "of the result: plain or map"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    const ValueType& x = site.in(0);
    const ValueType y{x.dtype, expect_shape(site), expect_format(site)};
    if (!broadcasts_to(y, x)) user_error("{} does not broadcast to x, which is {}", to_string(y), to_string(x));
    return {y};
  }
  Reduction reduction(const OpSite& site) const override { return reduction_to(site.in(0), site.out(0)); }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const ValueType& x = context.site().in(0);
    Attributes attributes{{"shape", as_list(x.shape)}, {"format", format_word(x.format)}};
    context.contribute(0, context.emit("expand", "grad", {context.gradient(0)}, std::move(attributes))[0]);
  }
};

}  // namespace

void define_sum_to(OpList& list) {
  static const SumTo sum_to;
  list.push_back(&sum_to);
}

}  // namespace outsize
