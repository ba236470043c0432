#include "ops/expect.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class Add final : public OpDef {
 public:
  std::string_view kind() const override { return "add"; }
  std::string_view help() const override { return "y = a + b, element by element, of equal shapes"; }
  std::vector<std::string_view> input_names() const override { return {"a", "b"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    expect_type(site, 1, site.in(0), "as a");
    return {site.in(0)};
  }

  void gradient(GradientContext& context) const override {
    for (int i = 0; i < 2; ++i)
      if (context.wants(i)) context.contribute(i, context.gradient(0));
  }

  std::vector<InPlacePair> in_place(const OpSite&) const override { return {{0, 0}, {0, 1}}; }
  bool cheap(const OpSite&) const override { return true; }
};

}  // namespace

void define_add(OpList& list) {
  static const Add add;
  list.push_back(&add);
}

}  // namespace outsize
