#include "ops/expect.h"
#include "ops/registry.h"

namespace outsize {
namespace {

ValueType loss_type(const OpSite& site) { return {site.in(0).dtype, {1}, Format::plain}; }

class BinaryCrossEntropy final : public OpDef {
 public:
  std::string_view kind() const override { return "binary_cross_entropy"; }
  std::string_view help() const override {
    return "the mean over all elements of -t log σ(x) - (1 - t) log(1 - σ(x)); no gradient flows into the target";
  }
  std::vector<std::string_view> input_names() const override { return {"logits", "target"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    expect_type(site, 1, site.in(0), "as logits");
    return {loss_type(site)};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const ValueId logits = context.input(0), target = context.input(1);
    context.contribute(0, context.emit("binary_cross_entropy_grad", "grad", {logits, target, context.gradient(0)})[0]);
  }

  bool can_gather(const OpSite&) const override { return false; }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    return {{driver, driver}, {Box::whole(site.out(0).shape)}};
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }
};

class BinaryCrossEntropyGrad final : public OpDef {
 public:
  std::string_view kind() const override { return "binary_cross_entropy_grad"; }
  std::string_view help() const override { return "the gradient of binary_cross_entropy: dx = (σ(x) - t) / elements · dloss"; }
  std::vector<std::string_view> input_names() const override { return {"logits", "target", "dloss"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    expect_type(site, 1, site.in(0), "as logits");
    expect_type(site, 2, loss_type(site), "the loss's");
    return {site.in(0)};
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    return {{output, output, Box::whole(site.in(2).shape)}, {output}};
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override { return gather(site, driver); }
  InPlacePairs in_place(const OpSite&) const override { return {{0, 0}}; }
  bool cheap(const OpSite&) const override { return true; }
};

}  // namespace

void define_binary_cross_entropy(OpList& list) {
  static const BinaryCrossEntropy binary_cross_entropy;
  static const BinaryCrossEntropyGrad binary_cross_entropy_grad;
  list.insert(list.end(), {&binary_cross_entropy, &binary_cross_entropy_grad});
}

}  // namespace outsize
