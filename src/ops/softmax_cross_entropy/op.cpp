#include "ops/logits.h"
#include "ops/registry.h"

namespace outsize {
namespace {

std::vector<AttributeSpec> specs() {
  return {{"label_smoothing", 0.0, "the share of the target that is spread over all classes"},
          {"ignore_index", std::int64_t{-100}, "where count is given: the label of rows that count nothing"}};
}

Attributes shared_attributes(const OpSite& site) {
  return {{"label_smoothing", site.number("label_smoothing")}, {"ignore_index", site.integer("ignore_index")}};
}

ValueType loss_type(const OpSite& site) { return {site.in(kLogits).dtype, {1}, Format::plain}; }

void expect_inputs(const OpSite& site, int count_input) {
  expect_logits_and_labels(site);
  if (site.inputs() > count_input) expect_type(site, count_input, loss_type(site), "one number of the logits' type");
  const double smoothing = site.number("label_smoothing");
  if (!(smoothing >= 0 && smoothing <= 1)) user_error("attribute label_smoothing must be in [0, 1], found {}", smoothing);
}

class SoftmaxCrossEntropy final : public OpDef {
 public:
  std::string_view kind() const override { return "softmax_cross_entropy"; }
  std::string_view help() const override {
    return "the mean of -log softmax(logits)[label] over the rows of [..., K] or the positions of a map, or their sum over count "
           "(0 where that is 0)";
  }
  std::vector<std::string_view> input_names() const override { return {"logits", "labels", "count?"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return specs(); }
  int logits_input() const override { return kLogits; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_inputs(site, 2);
    return {loss_type(site)};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(kLogits)) return;
    const OpSite site = context.site();
    std::vector<ValueId> inputs{context.input(kLogits), context.input(kLabels), context.gradient(0)};
    if (site.inputs() > 2) inputs.push_back(context.input(2));
    context.contribute(kLogits, context.emit("softmax_cross_entropy_grad", "grad", std::move(inputs), shared_attributes(site))[0]);
  }

  bool can_gather(const OpSite&) const override { return false; }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    CallBoxes boxes{{logits_box(site, driver), labels_box(site, driver)}, {Box::whole(site.out(0).shape)}};
    if (site.inputs() > 2) boxes.in.push_back(Box::whole(site.in(2).shape));
    return boxes;
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }
};

class SoftmaxCrossEntropyGrad final : public OpDef {
 public:
  std::string_view kind() const override { return "softmax_cross_entropy_grad"; }
  std::string_view help() const override {
    return "the gradient of softmax_cross_entropy: (softmax(logits) - target) · dloss over the number of rows, or over count";
  }
  std::vector<std::string_view> input_names() const override { return {"logits", "labels", "dloss", "count?"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return specs(); }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_inputs(site, 3);
    expect_type(site, 2, loss_type(site), "the loss's");
    return {site.in(kLogits)};
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Box rows = logits_box(site, output);
    CallBoxes boxes{{rows, labels_box(site, output)}, {rows}};
    for (int i = 2; i < site.inputs(); ++i) boxes.in.push_back(Box::whole(site.in(i).shape));
    return boxes;
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
