#include "ops/dropout/dropout.h"
#include "ops/expect.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// Which elements (or samples) are kept is a function of the key, the stream and their place in the whole value: tiles,
// recomputation and the gradient draw the same mask again, and none is stored.
class Dropout final : public OpDef {
 public:
  std::string_view kind() const override { return "dropout"; }
  std::string_view help() const override { return "y = x / (1 - p) with probability 1 - p, else 0; key = (seed, seed, step, -)"; }
  std::vector<std::string_view> input_names() const override { return {"x", "key"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"p", 0.5, "the probability of 0, at least 0 and below 1"},
            {"stream", std::int64_t{0}, "which random numbers of the key: one a dropout op of the model, 0 to 2^32 - 1"},
            {"unit", std::string("element"), "what is kept or dropped as one: element, or sample (stochastic depth)"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    expect_type(site, 1, {DType::i32, {4}, Format::plain}, "two words of the seed, the step, one reserved");
    const double p = site.number("p");
    if (!(p >= 0 && p < 1) || dropout_threshold(p) > 0xFFFFFFFF)
      user_error("attribute p must be at least 0 and below 1, found {}", p);
    const std::int64_t stream = site.integer("stream");
    if (stream < 0 || stream > 0xFFFFFFFF) user_error("attribute stream must be from 0 to 2^32 - 1, found {}", stream);
    const std::string& unit = site.word("unit");
    if (unit != "element" && unit != "sample") user_error("attribute unit must be element or sample, found {}", unit);
    return {site.in(0)};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const OpSite site = context.site();
    Attributes attributes{{"p", site.number("p")}, {"stream", site.integer("stream")}, {"unit", site.word("unit")}};
    context.contribute(0, context.emit("dropout", "grad", {context.gradient(0), context.input(1)}, std::move(attributes))[0]);
  }

  // Nothing is dropped.
  void evaluate(EvaluationContext& context) const override { context.replace(0, context.input(0)); }

  // The key whole, also for an x of its shape.
  CallBoxes gather(const OpSite& site, const Box& output) const override {
    return {{output, Box::whole(site.in(1).shape)}, {output}};
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override { return gather(site, driver); }
  InPlacePairs in_place(const OpSite&) const override { return {{0, 0}}; }
  // Ten rounds of two products for four elements.
  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    Cost cost = OpDef::cost(site, boxes);
    cost.flops *= 10;
    return cost;
  }
  bool cheap(const OpSite&) const override { return true; }
};

}  // namespace

void define_dropout(OpList& list) {
  static const Dropout dropout;
  list.push_back(&dropout);
}

}  // namespace outsize
