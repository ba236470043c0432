#include "ops/expect.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class Accumulate final : public OpDef {
 public:
  std::string_view kind() const override { return "accumulate"; }
  Use use() const override { return Use::accumulate; }
  std::string_view help() const override { return "adds a gradient to the sum of those before it: sum += grad"; }
  std::vector<std::string_view> input_names() const override { return {"sum", "grad"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"fresh", std::int64_t{0}, "1: a new sum begins: sum = grad"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    expect_type(site, 1, site.in(0), "as sum");
    const std::int64_t fresh = site.integer("fresh");
    if (fresh != 0 && fresh != 1) user_error("attribute fresh must be 0 or 1, found {}", fresh);
    return {site.in(0)};
  }

  InPlacePairs updates(const OpSite&) const override { return {{0, 0}}; }
  bool cheap(const OpSite&) const override { return true; }
};

}  // namespace

void define_accumulate(OpList& list) {
  static const Accumulate accumulate;
  list.push_back(&accumulate);
}

}  // namespace outsize
