#include "ops/optimizer.h"
#include "ops/registry.h"

namespace outsize {
namespace {

constexpr int kLr = 2, kStep = 3, kM = 4, kV = 5;

class Adam final : public OpDef {
 public:
  std::string_view kind() const override { return "adam"; }
  std::string_view help() const override {
    return "one step of Adam, or with decoupled=1 of AdamW: p -= lr · m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + eps)";
  }
  std::vector<std::string_view> input_names() const override { return {"param", "grad", "lr", "step", "m", "v", "factor?"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"beta1", 0.9, "the decay of the mean m of gradients"},
            {"beta2", 0.999, "the decay of the mean v of their squares"},
            {"eps", 1e-8, "what is added to the root of v"},
            {"weight_decay", 0.0, "the weight of the parameter in its gradient, or times lr what is taken off it first"},
            {"decoupled", std::int64_t{0}, "1: weight decay does not pass through m and v"},
            clip_spec()};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_update(site, kV + 1, "param, grad, lr, step, m, v");
    for (const char* beta : {"beta1", "beta2"})
      if (site.number(beta) < 0 || site.number(beta) >= 1)
        user_error("attribute {} must be in [0, 1), found {}", beta, site.number(beta));
    const std::int64_t decoupled = site.integer("decoupled");
    if (decoupled != 0 && decoupled != 1) user_error("attribute decoupled must be 0 or 1, found {}", decoupled);
    const ValueType& param = site.in(0);
    expect_type(site, kStep, {DType::i32, {1}, Format::plain}, "the number of this step, from 1");
    expect_type(site, kM, param, "as param");
    expect_type(site, kV, param, "as param");
    return {param, param, param};
  }
  std::vector<std::string_view> output_names() const override { return {"", "m", "v"}; }

  std::optional<UpdateRule> update_rule(const TrainingOptions& options) const override {
    if (options.optimizer != Optimizer::adam && options.optimizer != Optimizer::adamw) return std::nullopt;
    UpdateRule rule{.states = {"adam_m", "adam_v"}, .counts_steps = true, .attributes = update_attributes(options)};
    rule.attributes.insert({{"beta1", options.beta1}, {"beta2", options.beta2}, {"eps", options.eps}});
    rule.attributes["decoupled"] = std::int64_t{options.optimizer == Optimizer::adamw};
    return rule;
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override { return update_boxes(site, output, {kLr, kStep}); }
  CallBoxes push(const OpSite& site, const Box& driver) const override { return gather(site, driver); }

  InPlacePairs updates(const OpSite&) const override { return {{0, 0}, {1, kM}, {2, kV}}; }
  bool cheap(const OpSite&) const override { return true; }
};

}  // namespace

void define_adam(OpList& list) {
  static const Adam adam;
  list.push_back(&adam);
}

}  // namespace outsize
