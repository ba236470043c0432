#include "ops/gate.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class Relu final : public OpDef {
 public:
  std::string_view kind() const override { return "relu"; }
  std::string_view help() const override { return "y = max(x, 0), element by element"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    return {site.in(0)};
  }

  bool gates_gradient(const OpSite&) const override { return true; }
  void gradient(GradientContext& context) const override {
    if (context.wants(0)) context.contribute(0, gated_gradient(context, "grad"));
  }

  InPlacePairs in_place(const OpSite&) const override { return {{0, 0}}; }
  bool cheap(const OpSite&) const override { return true; }
};

class ReluGrad final : public OpDef {
 public:
  std::string_view kind() const override { return "relu_grad"; }
  Use use() const override { return Use::gated_sum; }
  std::string_view help() const override { return "the gradient of relu: dx = dy + more where y > 0, else 0"; }
  std::vector<std::string_view> input_names() const override { return {"dy", "y", "more?"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    for (int i = 1; i < site.inputs(); ++i) expect_type(site, i, site.in(0), "as dy");
    return {site.in(0)};
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  InPlacePairs in_place(const OpSite& site) const override {
    if (site.inputs() > 2) return {{0, 0}, {0, 2}};
    return {{0, 0}};
  }
  bool cheap(const OpSite&) const override { return true; }
};

}  // namespace

void define_relu(OpList& list) {
  static const Relu relu;
  static const ReluGrad relu_grad;
  list.insert(list.end(), {&relu, &relu_grad});
}

}  // namespace outsize
