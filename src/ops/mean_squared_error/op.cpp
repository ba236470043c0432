#include "ops/expect.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class MeanSquaredError final : public OpDef {
 public:
  std::string_view kind() const override { return "mean_squared_error"; }
  std::string_view help() const override { return "the mean of (x - target)² over all elements"; }
  std::vector<std::string_view> input_names() const override { return {"x", "target"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    expect_type(site, 1, site.in(0), "as x");
    return {{site.in(0).dtype, {1}, Format::plain}};
  }

  void gradient(GradientContext& context) const override {
    const ValueId x = context.input(0), target = context.input(1), dloss = context.gradient(0);
    // (x - target)² is symmetric, so that the same kind with its operands exchanged gives the target's gradient.
    if (context.wants(0)) context.contribute(0, context.emit("mean_squared_error_grad", "grad", {x, target, dloss})[0]);
    if (context.wants(1)) context.contribute(1, context.emit("mean_squared_error_grad", "grad_target", {target, x, dloss})[0]);
  }

  bool can_gather(const OpSite&) const override { return false; }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    return {{driver, driver}, {Box::whole(site.out(0).shape)}};
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }
};

class MeanSquaredErrorGrad final : public OpDef {
 public:
  std::string_view kind() const override { return "mean_squared_error_grad"; }
  std::string_view help() const override { return "the gradient of mean_squared_error: dx = 2 (x - target) / elements · dloss"; }
  std::vector<std::string_view> input_names() const override { return {"x", "target", "dloss"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    expect_type(site, 1, site.in(0), "as x");
    expect_type(site, 2, {site.in(0).dtype, {1}, Format::plain}, "the loss's");
    return {site.in(0)};
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    return {{output, output, Box::whole(site.in(2).shape)}, {output}};
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override { return gather(site, driver); }
  bool cheap(const OpSite&) const override { return true; }
};

}  // namespace

void define_mean_squared_error(OpList& list) {
  static const MeanSquaredError mean_squared_error;
  static const MeanSquaredErrorGrad mean_squared_error_grad;
  list.insert(list.end(), {&mean_squared_error, &mean_squared_error_grad});
}

}  // namespace outsize
