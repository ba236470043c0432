#include "ops/movement.h"

namespace outsize {
namespace {

class Slice final : public OpDef {
 public:
  std::string_view kind() const override { return "slice"; }
  std::string_view help() const override { return "the box [start, end) of x"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"start", std::vector<std::int64_t>{}, "the first element taken, a number a dimension (required)"},
            {"end", std::vector<std::int64_t>{}, "the end, a number a dimension (required)"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_movable(site, 0);
    ValueType y = site.in(0);
    const int rank = y.shape.rank();
    const std::vector<std::int64_t>& start = expect_list(site, "start", static_cast<std::size_t>(rank), 0);
    const std::vector<std::int64_t>& end = expect_list(site, "end", static_cast<std::size_t>(rank), 1);
    for (int dim = 0; dim < rank; ++dim) {
      const auto i = static_cast<std::size_t>(dim);
      if (start[i] >= end[i] || end[i] > y.shape[dim])
        user_error("[start, end) must be elements of x, which is {}, found [{}, {}) in dimension {}", to_string(site.in(0)),
                   start[i], end[i], dim);
      y.shape[dim] = end[i] - start[i];
    }
    return {y};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const OpSite site = context.site();
    std::vector<std::int64_t> after = as_list(site.in(0).shape);
    const std::vector<std::int64_t>& end = site.integers("end");
    for (std::size_t i = 0; i < after.size(); ++i) after[i] -= end[i];
    Attributes attributes{{"before", site.integers("start")}, {"after", std::move(after)}};
    context.contribute(0, context.emit("pad", "grad", {context.gradient(0)}, std::move(attributes))[0]);
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Dims start{std::span<const std::int64_t>(site.integers("start"))};
    return {{with_all_channels(shifted_into(output, start, site.in(0).shape), site.in(0))}, {output}};
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    return {{driver}, {shifted_into(driver, negated(site.integers("start")), site.out(0).shape)}};
  }
  bool cheap(const OpSite&) const override { return true; }
};

}  // namespace

void define_slice(OpList& list) {
  static const Slice slice;
  list.push_back(&slice);
}

}  // namespace outsize
