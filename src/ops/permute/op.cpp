#include "ops/movement.h"

namespace outsize {
namespace {

class Permute final : public OpDef {
 public:
  std::string_view kind() const override { return "permute"; }
  std::string_view help() const override { return "x with its dimensions in another order: dimension i of y is order[i] of x"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"order", std::vector<std::int64_t>{}, "the dimensions of x, each once (required)"},
            {"format", std::string("plain"), "of the result: plain or map"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_movable(site, 0);
    const ValueType& x = site.in(0);
    const std::vector<std::int64_t>& order = site.integers("order");
    std::vector<std::int64_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    bool each_once = static_cast<int>(order.size()) == x.shape.rank();
    for (std::size_t i = 0; i < sorted.size(); ++i) each_once = each_once && sorted[i] == static_cast<std::int64_t>(i);
    if (!each_once)
      user_error("attribute order must hold 0 to {}, the dimensions of {}, each once, found {}", x.shape.rank() - 1, to_string(x),
                 to_string(Attribute(order)));
    ValueType y{x.dtype, {}, expect_format(site)};
    for (std::int64_t dim : order) y.shape.push_back(x.shape[static_cast<int>(dim)]);
    expect_map_rank(y.shape, y.format);
    return {y};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const OpSite site = context.site();
    const std::vector<std::int64_t>& order = site.integers("order");
    std::vector<std::int64_t> back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    Attributes attributes{{"order", std::move(back)}, {"format", format_word(site.in(0).format)}};
    context.contribute(0, context.emit("permute", "grad", {context.gradient(0)}, std::move(attributes))[0]);
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    return {{with_all_channels(permuted_back(site, output), site.in(0))}, {output}};
  }
  // Channels of a map are not cut: a dimension of x that becomes them is taken whole.
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    const std::vector<std::int64_t>& order = site.integers("order");
    Box output = Box::whole(site.out(0).shape);
    for (std::size_t i = 0; i < order.size(); ++i) output.set(static_cast<int>(i), driver[static_cast<int>(order[i])]);
    output = with_all_channels(output, site.out(0));
    return {{permuted_back(site, output)}, {output}};
  }
  bool cheap(const OpSite&) const override { return true; }

 private:
  // The box of x that becomes a box of y.
  static Box permuted_back(const OpSite& site, const Box& output) {
    const std::vector<std::int64_t>& order = site.integers("order");
    Box input = Box::whole(site.in(0).shape);
    for (std::size_t i = 0; i < order.size(); ++i) input.set(static_cast<int>(order[i]), output[static_cast<int>(i)]);
    return input;
  }
};

}  // namespace

void define_permute(OpList& list) {
  static const Permute permute;
  list.push_back(&permute);
}

}  // namespace outsize
