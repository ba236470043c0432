#include "ops/reduction.h"

namespace outsize {
namespace {

// sum and mean over the dimensions `axes`.
class Sum final : public ReductionOp {
 public:
  Sum(bool mean, std::string_view kind, std::string_view help) : mean_(mean), kind_(kind), help_(help) {}
  std::string_view kind() const override { return kind_; }
  std::string_view help() const override { return help_; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"axes", std::vector<std::int64_t>{}, "the dimensions summed over; none given: all"},
            {"keep_dims", std::int64_t{0}, "1: they stay, with extent 1"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    const ValueType& x = site.in(0);
    for (std::int64_t axis : site.integers("axes"))
      if (axis < 0 || axis >= x.shape.rank())
        user_error("attribute axes must hold dimensions of {}, 0 to {}, found {}", to_string(x), x.shape.rank() - 1,
                   to_string(Attribute(site.integers("axes"))));
    if (site.integer("keep_dims") != 0 && site.integer("keep_dims") != 1)
      user_error("attribute keep_dims must be 0 or 1, found {}", site.integer("keep_dims"));
    // A map stays one where only its space is summed over.
    const Reduction sums = reduction_by_axes(site);
    const bool map = x.format == Format::map && site.integer("keep_dims") == 1 && !sums.sums(0) && !sums.sums(1);
    return {{x.dtype, sums.y, map ? Format::map : Format::plain}};
  }
  Reduction reduction(const OpSite& site) const override { return reduction_by_axes(site); }

  // dy with the summed dimensions put back, in x's format, repeated along them.
  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const OpSite site = context.site();
    const ValueType& x = site.in(0);
    const Reduction sums = reduction_by_axes(site);
    ValueType small = x;
    for (int dim = 0; dim < x.shape.rank(); ++dim)
      if (sums.sums(dim)) small.shape[dim] = 1;
    ValueId dx = context.gradient(0);
    if (site.out(0) != small)
      dx = context.emit("reshape", "grad_shape", {dx}, {{"shape", as_list(small.shape)}, {"format", format_word(small.format)}})[0];
    if (mean_) dx = context.emit("affine", "grad_scale", {dx}, {{"scale", 1 / static_cast<double>(sums.terms())}})[0];
    if (small != x) dx = context.emit("expand", "grad", {dx}, {{"shape", as_list(x.shape)}})[0];
    context.contribute(0, dx);
  }

 private:
  bool mean_;
  std::string_view kind_;
  std::string_view help_;
};

}  // namespace

void define_sum(OpList& list) {
  static const Sum sum(false, "sum", "x summed over dimensions");
  static const Sum mean(true, "mean", "the mean of x over dimensions");
  list.insert(list.end(), {&sum, &mean});
}

}  // namespace outsize
