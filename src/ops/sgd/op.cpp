#include "ops/optimizer.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class Sgd final : public OpDef {
 public:
  std::string_view kind() const override { return "sgd"; }
  std::string_view help() const override {
    return "one step of stochastic gradient descent: g += weight_decay·p; buffer = momentum·buffer + g; p -= lr·buffer";
  }
  std::vector<std::string_view> input_names() const override { return {"param", "grad", "lr", "buffer?", "factor?"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"momentum", 0.0, "the weight of the buffer; 0 means none, and no buffer"},
            {"weight_decay", 0.0, "the weight of the parameter in its gradient"},
            {"nesterov", std::int64_t{0}, "1: p -= lr·(g + momentum·buffer); needs momentum"},
            clip_spec()};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    const double momentum = site.number("momentum");
    const std::int64_t nesterov = site.integer("nesterov");
    if (nesterov != 0 && nesterov != 1) user_error("attribute nesterov must be 0 or 1, found {}", nesterov);
    if (nesterov == 1 && momentum == 0) user_error("nesterov needs momentum, found momentum 0");
    const int given = site.inputs() - has_factor(site);
    if ((momentum != 0) != (given > kBuffer))
      user_error("buffer must be given exactly if momentum is not 0, found momentum {} and {} buffer", momentum,
                 given > kBuffer ? "a" : "no");
    expect_update(site, has_buffer(site) ? kBuffer + 1 : kBuffer, has_buffer(site) ? "param, grad, lr, buffer" : "param, grad, lr");
    const ValueType& param = site.in(0);
    if (!has_buffer(site)) return {param};
    expect_type(site, kBuffer, param, "as param");
    return {param, param};
  }

  std::optional<UpdateRule> update_rule(const TrainingOptions& options) const override {
    if (options.optimizer != Optimizer::sgd) return std::nullopt;
    UpdateRule rule{.attributes = update_attributes(options)};
    if (options.momentum != 0) rule.states = {"momentum"};
    rule.attributes.insert({{"momentum", options.momentum}, {"nesterov", std::int64_t{options.nesterov}}});
    return rule;
  }

  // Pointwise; said here because lr is whole even where the parameter has lr's shape.
  CallBoxes gather(const OpSite& site, const Box& output) const override { return update_boxes(site, output, {2}); }
  CallBoxes push(const OpSite& site, const Box& driver) const override { return gather(site, driver); }

  InPlacePairs updates(const OpSite& site) const override {
    if (has_buffer(site)) return {{0, 0}, {1, kBuffer}};
    return {{0, 0}};
  }
  bool cheap(const OpSite&) const override { return true; }

 private:
  static constexpr int kBuffer = 3;
  static bool has_buffer(const OpSite& site) { return site.number("momentum") != 0; }
};

}  // namespace

void define_sgd(OpList& list) {
  static const Sgd sgd;
  list.push_back(&sgd);
}

}  // namespace outsize
