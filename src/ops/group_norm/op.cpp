#include "ops/gate.h"
#include "ops/registry.h"

// Group norm in the pieces that tiling needs: stats (a reduction) → batch_norm_finalize → apply (pointwise), and backward
// grad_stats (a reduction) → grad_apply (pointwise) and grad_params. A group is C/G consecutive channels of one sample; instance
// norm has G = C. Statistics are f64 in every graph, as batch norm's.
namespace outsize {
namespace {

constexpr int kChannelDim = 1;

const AttributeSpec kGroups{"groups", std::int64_t{1}, "how many groups the channels of a sample are in"};

ValueType per_channel(const ValueType& map) { return {map.dtype, {map.shape[kChannelDim]}, Format::plain}; }
ValueType statistic(std::int64_t rows, std::int64_t columns) { return {DType::f64, {rows, columns}, Format::plain}; }

// The groups of all samples of input 0, which must be a map.
std::int64_t expect_groups(const OpSite& site) {
  expect_any_map(site, 0);
  const std::int64_t groups = site.integer("groups");
  const Dims& shape = site.in(0).shape;
  if (groups < 1 || shape[kChannelDim] % groups != 0)
    user_error("attribute groups must divide the {} channels of {}, found {}", shape[kChannelDim], to_string(site.in(0)), groups);
  return shape[0] * groups;
}

class Stats final : public OpDef {
 public:
  std::string_view kind() const override { return "group_norm_stats"; }
  std::string_view help() const override {
    return "count, mean and sum of squared deviations of each group of each sample, as f64[3, N * groups]";
  }
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return {kGroups}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    const std::int64_t groups = expect_groups(site);
    if (site.in(0).elements() <= groups)
      user_error("group norm needs more than one value a group, found x {}", to_string(site.in(0)));
    return {statistic(3, groups)};
  }
  Role output_role(const OpSite&, int) const override { return Role::statistic; }

  bool can_gather(const OpSite&) const override { return false; }
  Combine combine(const OpSite&, int) const override { return Combine::welford; }
};

class Apply final : public OpDef {
 public:
  std::string_view kind() const override { return "group_norm_apply"; }
  std::string_view help() const override {
    return "y = activation((x - mean) * inv_std * gamma + beta); its gradient includes the one through the moments";
  }
  std::vector<std::string_view> input_names() const override { return {"x", "moments", "gamma?", "beta?"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {kGroups, {"activation", std::string("none"), "none or relu, applied last"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    const std::int64_t groups = expect_groups(site);
    expect_type(site, 1, statistic(2, groups), "mean and inv_std of x's groups");
    for (int i = kGamma; i < site.inputs(); ++i) expect_type(site, i, per_channel(site.in(0)), "one for each of x's channels");
    expect_activation(site);
    return {site.in(0)};
  }

  bool gates_gradient(const OpSite& site) const override { return expect_activation(site); }
  void gradient(GradientContext& context) const override {
    const OpSite site = context.site();
    const ValueId x = context.input(0), moments = context.input(1);
    const bool has_gamma = site.inputs() > kGamma, has_beta = site.inputs() > kBeta;
    const bool wants_gamma = has_gamma && context.wants(kGamma), wants_beta = has_beta && context.wants(kBeta);
    if (!context.wants(0) && !wants_gamma && !wants_beta) return;
    const ValueId dy = expect_activation(site) ? gated_gradient(context, "relu_grad") : context.gradient(0);

    const Attributes attributes{{"groups", site.integer("groups")}};
    const ValueId sums = context.emit("group_norm_grad_stats", "grad_stats", {dy, x, moments}, attributes)[0];
    if (context.wants(0)) {
      std::vector<ValueId> inputs{dy, x, moments, sums};
      if (has_gamma) inputs.push_back(context.input(kGamma));
      context.contribute(0, context.emit("group_norm_grad_apply", "grad_apply", std::move(inputs), attributes)[0]);
    }
    if (wants_gamma || wants_beta) {
      const std::vector<ValueId> params = context.emit("group_norm_grad_params", "grad_params", {sums, context.input(kGamma)});
      if (wants_gamma) context.contribute(kGamma, params[0]);
      if (wants_beta) context.contribute(kBeta, params[1]);
    }
  }

  InPlacePairs in_place(const OpSite&) const override { return {{0, 0}}; }
  bool cheap(const OpSite&) const override { return true; }

  std::optional<FusedOp> fuse(const Graph& graph, const Op& first, const Op& second) const override {
    if (first.def != this || second.def->kind() != "relu" || OpSite{graph, first}.word("activation") != "none") return std::nullopt;
    FusedOp fused{this, first.inputs, first.attributes};
    fused.attributes["activation"] = std::string("relu");
    return fused;
  }

 private:
  static constexpr int kGamma = 2;
  static constexpr int kBeta = 3;
};

// What both gradient kinds read first: dy, x and the moments of x.
void expect_gradient_inputs(const OpSite& site) {
  const std::int64_t groups = expect_groups(site);
  expect_type(site, 1, site.in(0), "as dy");
  expect_type(site, 2, statistic(2, groups), "mean and inv_std of x's groups");
}

ValueType sums_of(const ValueType& dy) { return statistic(2, dy.shape[0] * dy.shape[kChannelDim]); }

// By sample and channel, so that the gradients of x (weighted by gamma, over groups) and of gamma and beta (over samples) both come
// from one pass over dy and x.
class GradStats final : public OpDef {
 public:
  std::string_view kind() const override { return "group_norm_grad_stats"; }
  std::string_view help() const override {
    return "Σ dy and Σ dy · (x - mean) * inv_std of each channel of each sample, as f64[2, N * C]";
  }
  std::vector<std::string_view> input_names() const override { return {"dy", "x", "moments"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return {kGroups}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_gradient_inputs(site);
    return {sums_of(site.in(0))};
  }
  Role output_role(const OpSite&, int) const override { return Role::statistic; }

  bool can_gather(const OpSite&) const override { return false; }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }
};

class GradApply final : public OpDef {
 public:
  std::string_view kind() const override { return "group_norm_grad_apply"; }
  std::string_view help() const override { return "the gradient of x through group norm and its statistics"; }
  std::vector<std::string_view> input_names() const override { return {"dy", "x", "moments", "sums", "gamma?"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return {kGroups}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_gradient_inputs(site);
    const ValueType& dy = site.in(0);
    expect_type(site, 3, sums_of(dy), "from group_norm_grad_stats");
    if (site.inputs() > 4) expect_type(site, 4, per_channel(dy), "one for each of dy's channels");
    return {dy};
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  // Boxes of the driver may overlap between tiles, each with its own share of dy: their results add up.
  Combine combine(const OpSite&, int) const override { return Combine::sum; }
  // The two mean terms stand for all of the group: once an element, however many tiles compute it.
  bool has_owned_terms(const OpSite&) const override { return true; }
  InPlacePairs in_place(const OpSite&) const override { return {{0, 0}}; }
};

class GradParams final : public OpDef {
 public:
  std::string_view kind() const override { return "group_norm_grad_params"; }
  std::string_view help() const override { return "the gradients of gamma and beta from group_norm_grad_stats, in gamma's type"; }
  std::vector<std::string_view> input_names() const override { return {"sums", "gamma"}; }
  std::vector<std::string_view> output_names() const override { return {"dgamma", "dbeta"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_plain(site, 1, 1, "[C]");
    const ValueType& sums = site.in(0);
    const ValueType& gamma = site.in(1);
    if (sums.shape.rank() != 2 || sums != statistic(2, sums.shape[1]) || sums.shape[1] % gamma.shape[0] != 0)
      user_error("input sums must be f64[2, N * {}], found {}", gamma.shape[0], to_string(sums));
    return {gamma, gamma};
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  // Small, and never split.
  CallBoxes gather(const OpSite& site, const Box&) const override { return whole_boxes(site); }
  CallBoxes push(const OpSite& site, const Box&) const override { return whole_boxes(site); }
  bool cheap(const OpSite&) const override { return true; }

 private:
  static CallBoxes whole_boxes(const OpSite& site) {
    return {{Box::whole(site.in(0).shape), Box::whole(site.in(1).shape)},
            {Box::whole(site.out(0).shape), Box::whole(site.out(1).shape)}};
  }
};

}  // namespace

void define_group_norm(OpList& list) {
  static const Stats stats;
  static const Apply apply;
  static const GradStats grad_stats;
  static const GradApply grad_apply;
  static const GradParams grad_params;
  list.insert(list.end(), {&stats, &apply, &grad_stats, &grad_apply, &grad_params});
}

}  // namespace outsize
