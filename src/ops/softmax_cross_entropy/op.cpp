#include "ops/expect.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// Inputs 0 and 1: logits [N, K] and one label a row.
void expect_logits_and_labels(const OpSite& site) {
  expect_plain(site, 0, 2, "[N, K]");
  expect_type(site, 1, {DType::i32, {site.in(0).shape[0]}, Format::plain}, "one label a row of logits");
}

ValueType loss_type(const OpSite& site) { return {site.in(0).dtype, {1}, Format::plain}; }

// The rows of `box` with all classes.
Box logits_rows(const OpSite& site, const Box& box) {
  Box rows = Box::whole(site.in(0).shape);
  rows.set(0, box[0]);
  return rows;
}
Box label_rows(const Box& box) { return {{box.lo[0]}, {box.hi[0]}}; }

class SoftmaxCrossEntropy final : public OpDef {
 public:
  std::string_view kind() const override { return "softmax_cross_entropy"; }
  std::string_view help() const override { return "the mean over rows of -log softmax(logits)[label]"; }
  std::vector<std::string_view> input_names() const override { return {"logits", "labels"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_logits_and_labels(site);
    return {loss_type(site)};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const ValueId logits = context.input(0), labels = context.input(1);
    context.contribute(0, context.emit("softmax_cross_entropy_grad", "grad", {logits, labels, context.gradient(0)})[0]);
  }

  bool can_gather(const OpSite&) const override { return false; }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    return {{logits_rows(site, driver), label_rows(driver)}, {Box::whole(site.out(0).shape)}};
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }
};

class SoftmaxCrossEntropyGrad final : public OpDef {
 public:
  std::string_view kind() const override { return "softmax_cross_entropy_grad"; }
  std::string_view help() const override {
    return "the gradient of softmax_cross_entropy: (softmax(logits) - onehot(label)) / N · dloss";
  }
  std::vector<std::string_view> input_names() const override { return {"logits", "labels", "dloss"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_logits_and_labels(site);
    expect_type(site, 2, loss_type(site), "the loss's");
    return {site.in(0)};
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Box rows = logits_rows(site, output);
    return {{rows, label_rows(output), Box::whole(site.in(2).shape)}, {rows}};
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override { return gather(site, driver); }
};

}  // namespace

void define_softmax_cross_entropy(OpList& list) {
  static const SoftmaxCrossEntropy softmax_cross_entropy;
  static const SoftmaxCrossEntropyGrad softmax_cross_entropy_grad;
  list.insert(list.end(), {&softmax_cross_entropy, &softmax_cross_entropy_grad});
}

}  // namespace outsize
