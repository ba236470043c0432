#include "ops/gate.h"
#include "ops/registry.h"

// Train-mode batch norm in the pieces that tiling needs: stats (a reduction) → finalize → apply (pointwise), and backward
// grad_stats (a reduction) → grad_apply (pointwise) and grad_params. Statistics are f64 in every graph, so that their sum over
// tiles does not depend on the tiling to more than f32's rounding.
namespace outsize {
namespace {

constexpr int kChannelDim = 1;

ValueType per_channel(const ValueType& map) { return {map.dtype, {map.shape[kChannelDim]}, Format::plain}; }
ValueType statistic(std::int64_t rows, std::int64_t channels) { return {DType::f64, {rows, channels}, Format::plain}; }

// The channels of input i, which must be a statistic of that many rows.
std::int64_t expect_statistic(const OpSite& site, int i, std::int64_t rows) {
  const ValueType& found = site.in(i);
  if (found.shape.rank() != 2 || found != statistic(rows, found.shape[1]))
    user_error("input {} must be f64[{}, C], found {}", input_name(site, i), rows, to_string(found));
  return found.shape[1];
}

// Input i must have one number a channel, of any float type; that type.
const ValueType& expect_per_channel(const OpSite& site, int i, std::int64_t channels) {
  expect_plain(site, i, 1, "[C]");
  if (site.in(i).shape[0] != channels)
    user_error("input {} must be [{}], one a channel, found {}", input_name(site, i), channels, to_string(site.in(i)));
  return site.in(i);
}

CallBoxes whole_boxes(const OpSite& site) {
  CallBoxes boxes;
  for (int i = 0; i < site.inputs(); ++i) boxes.in.push_back(Box::whole(site.in(i).shape));
  for (int i = 0; i < site.outputs(); ++i) boxes.out.push_back(Box::whole(site.out(i).shape));
  return boxes;
}

// The kinds that turn one small statistic into another: never split.
class WholeOp : public OpDef {
 public:
  CallBoxes gather(const OpSite& site, const Box&) const final { return whole_boxes(site); }
  CallBoxes push(const OpSite& site, const Box&) const final { return whole_boxes(site); }
  bool cheap(const OpSite&) const final { return true; }
};

// The update of running statistics that reads these statistics, or nullptr: then the norm has none.
const Op* update_of(const Graph& graph, ValueId stats) {
  for (OpId reader : graph.value(stats).consumers)
    if (graph.op(reader).def->kind() == "batch_norm_update") return &graph.op(reader);
  return nullptr;
}

class Stats final : public OpDef {
 public:
  std::string_view kind() const override { return "batch_norm_stats"; }
  std::string_view help() const override { return "count, mean and sum of squared deviations of each channel, as f64[3, C]"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_any_map(site, 0);
    return {statistic(3, site.in(0).shape[kChannelDim])};
  }
  Role output_role(const OpSite&, int) const override { return Role::statistic; }

  void expect_complete(const OpSite& site) const override {
    const Value& stats = site.graph.value(site.op.outputs[0]);
    if (update_of(site.graph, site.op.outputs[0])) return;
    user_error(
        "no running statistics are kept of '{}', by which the network would be evaluated; declare two states [{}] and add "
        "'NAME: MEAN.next, VAR.next = batch_norm_update(MEAN, VAR, {})'",
        stats.name, stats.type.shape[1], stats.name);
  }

  // Running statistics take their place.
  void evaluate(EvaluationContext& context) const override {
    if (!update_of(context.site().graph, context.site().op.outputs[0])) OpDef::evaluate(context);
  }

  bool can_gather(const OpSite&) const override { return false; }
  Combine combine(const OpSite&, int) const override { return Combine::welford; }
};

class Finalize final : public WholeOp {
 public:
  std::string_view kind() const override { return "batch_norm_finalize"; }
  std::string_view help() const override { return "mean and 1 / sqrt(M2 / count + eps) of each channel or group, as f64[2, C]"; }
  std::vector<std::string_view> input_names() const override { return {"stats"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return {{"eps", 1e-5, "added to the variance"}}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    if (!(site.number("eps") >= 0)) user_error("eps must not be negative, found {}", site.number("eps"));
    return {statistic(2, expect_statistic(site, 0, 3))};
  }
  Role output_role(const OpSite&, int) const override { return Role::statistic; }

  void evaluate(EvaluationContext& context) const override {
    const OpSite site = context.site();
    const Op* const update = update_of(site.graph, site.op.inputs[0]);
    if (!update) return OpDef::evaluate(context);
    context.emit("batch_norm_running", {context.value(update->inputs[0]), context.value(update->inputs[1])},
                 {{"eps", site.number("eps")}});
  }
};

class Running final : public WholeOp {
 public:
  std::string_view kind() const override { return "batch_norm_running"; }
  std::string_view help() const override { return "running mean and 1 / sqrt(running variance + eps), as f64[2, C]"; }
  std::vector<std::string_view> input_names() const override { return {"running_mean", "running_var"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return {{"eps", 1e-5, "added to the variance"}}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    if (!(site.number("eps") >= 0)) user_error("eps must not be negative, found {}", site.number("eps"));
    expect_plain(site, 0, 1, "[C]");
    expect_type(site, 1, site.in(0), "as running_mean");
    return {statistic(2, site.in(0).shape[0])};
  }
  Role output_role(const OpSite&, int) const override { return Role::statistic; }
  // Running statistics are what was observed; no gradient flows into them.
  void gradient(GradientContext&) const override {}
};

class Update final : public WholeOp {
 public:
  std::string_view kind() const override { return "batch_norm_update"; }
  std::string_view help() const override { return "running mean and (unbiased) variance after this batch"; }
  std::vector<std::string_view> input_names() const override { return {"running_mean", "running_var", "stats"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return {{"momentum", 0.1, "the weight of this batch"}}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    const ValueType& running = expect_per_channel(site, 0, expect_statistic(site, 2, 3));
    expect_type(site, 1, running, "as running_mean");
    return {running, running};
  }

  // What has been observed has no influence on the loss of this step.
  void gradient(GradientContext&) const override {}
  void evaluate(EvaluationContext&) const override {}
  InPlacePairs updates(const OpSite&) const override { return {{0, 0}, {1, 1}}; }
};

class Apply final : public OpDef {
 public:
  std::string_view kind() const override { return "batch_norm_apply"; }
  std::string_view help() const override {
    return "y = activation((x - mean) * inv_std * gamma + beta + residual); its gradient includes the one through the moments";
  }
  std::vector<std::string_view> input_names() const override { return {"x", "moments", "gamma", "beta", "residual?"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"activation", std::string("none"), "none or relu, applied last"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_any_map(site, 0);
    const ValueType& x = site.in(0);
    expect_type(site, 1, statistic(2, x.shape[kChannelDim]), "mean and inv_std of x's channels");
    expect_type(site, 2, per_channel(x), "one for each of x's channels");
    expect_type(site, 3, per_channel(x), "one for each of x's channels");
    if (site.inputs() > kResidual) expect_type(site, kResidual, x, "as x");
    expect_activation(site);
    return {x};
  }

  bool gates_gradient(const OpSite& site) const override { return expect_activation(site) && site.inputs() > kResidual; }
  void gradient(GradientContext& context) const override {
    const OpSite site = context.site();
    const ValueId x = context.input(0), moments = context.input(1), gamma = context.input(2), beta = context.input(3);
    const ValueId dy = gates_gradient(site) ? gated_gradient(context, "relu_grad") : context.gradient(0);
    if (context.wants(kResidual)) context.contribute(kResidual, dy);
    if (!context.wants(0) && !context.wants(2) && !context.wants(3)) return;

    // Without a residual, x says where the relu let dy through: neither y nor a map of what came through is read.
    const bool gates_by_x = expect_activation(site) && site.inputs() <= kResidual;
    std::vector<ValueId> stats_inputs{dy, x, moments};
    if (gates_by_x) stats_inputs.insert(stats_inputs.end(), {gamma, beta});
    const ValueId sums = context.emit("batch_norm_grad_stats", "grad_stats", std::move(stats_inputs))[0];
    if (context.wants(0)) {
      std::vector<ValueId> inputs{dy, x, moments, sums, gamma};
      if (gates_by_x) inputs.push_back(beta);
      context.contribute(0, context.emit("batch_norm_grad_apply", "grad_apply", std::move(inputs))[0]);
    }
    if (context.wants(2) || context.wants(3)) {
      const std::vector<ValueId> params = context.emit("batch_norm_grad_params", "grad_params", {sums, gamma});
      if (context.wants(2)) context.contribute(2, params[0]);
      if (context.wants(3)) context.contribute(3, params[1]);
    }
  }

  InPlacePairs in_place(const OpSite& site) const override {
    if (site.inputs() > kResidual) return {{0, 0}, {0, kResidual}};
    return {{0, 0}};
  }
  bool cheap(const OpSite&) const override { return true; }

  std::optional<FusedOp> fuse(const Graph& graph, const Op& first, const Op& second) const override {
    if (first.def != this || OpSite{graph, first}.word("activation") != "none") return std::nullopt;
    FusedOp fused{this, first.inputs, first.attributes};
    if (second.def->kind() == "relu") {
      fused.attributes["activation"] = std::string("relu");
      return fused;
    }
    const bool has_residual = static_cast<int>(first.inputs.size()) > kResidual;
    // y + y reads y twice: there is no other operand that could be the residual. Nor could one that is broadcast.
    if (second.def->kind() == "add" && !has_residual && second.inputs[0] != second.inputs[1]) {
      const ValueId other = second.inputs[0] == first.outputs[0] ? second.inputs[1] : second.inputs[0];
      if (graph.value(other).type != graph.value(first.outputs[0]).type) return std::nullopt;
      fused.inputs.push_back(other);
      return fused;
    }
    return std::nullopt;
  }

 private:
  static constexpr int kResidual = 4;
};

// What both gradient kinds read first: dy, x and the moments of x.
void expect_gradient_inputs(const OpSite& site) {
  expect_any_map(site, 0);
  expect_type(site, 1, site.in(0), "as dy");
  expect_type(site, 2, statistic(2, site.in(0).shape[kChannelDim]), "mean and inv_std of x's channels");
}

class GradStats final : public OpDef {
 public:
  std::string_view kind() const override { return "batch_norm_grad_stats"; }
  std::string_view help() const override {
    return "Σ dy and Σ dy · (x - mean) * inv_std of each channel, as f64[2, C]; with gamma and beta, of dy where the norm is above "
           "0";
  }
  std::vector<std::string_view> input_names() const override { return {"dy", "x", "moments", "gamma?", "beta?"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_gradient_inputs(site);
    if (site.inputs() == 4) user_error("gamma is there without beta");
    for (int i = 3; i < site.inputs(); ++i) expect_type(site, i, per_channel(site.in(0)), "one for each of dy's channels");
    // Asked of training alone: evaluation goes by running statistics, which one value is enough for.
    const ValueType& x = site.in(1);
    if (x.elements() <= x.shape[kChannelDim])
      user_error("batch norm needs more than one value a channel to train, found x {}", to_string(x));
    return {statistic(2, x.shape[kChannelDim])};
  }
  Role output_role(const OpSite&, int) const override { return Role::statistic; }

  bool can_gather(const OpSite&) const override { return false; }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }
};

class GradApply final : public OpDef {
 public:
  std::string_view kind() const override { return "batch_norm_grad_apply"; }
  std::string_view help() const override {
    return "the gradient of x through batch norm and its statistics; with beta, dy counts where the norm is above 0";
  }
  std::vector<std::string_view> input_names() const override { return {"dy", "x", "moments", "sums", "gamma", "beta?"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_gradient_inputs(site);
    const ValueType& dy = site.in(0);
    expect_type(site, 3, statistic(2, dy.shape[kChannelDim]), "from batch_norm_grad_stats");
    for (int i = 4; i < site.inputs(); ++i) expect_type(site, i, per_channel(dy), "one for each of dy's channels");
    return {dy};
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  // Boxes of the driver may overlap between tiles, each with its own share of dy: their results add up.
  Combine combine(const OpSite&, int) const override { return Combine::sum; }
  // The two mean terms stand for all of the batch: once an element, however many tiles compute it.
  bool has_owned_terms(const OpSite&) const override { return true; }
  InPlacePairs in_place(const OpSite&) const override { return {{0, 0}}; }
};

class GradParams final : public WholeOp {
 public:
  std::string_view kind() const override { return "batch_norm_grad_params"; }
  std::string_view help() const override { return "the gradients of gamma and beta from batch_norm_grad_stats, in gamma's type"; }
  std::vector<std::string_view> input_names() const override { return {"sums", "gamma"}; }
  std::vector<std::string_view> output_names() const override { return {"dgamma", "dbeta"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    const ValueType& gamma = expect_per_channel(site, 1, expect_statistic(site, 0, 2));
    return {gamma, gamma};
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }
};

}  // namespace

void define_batch_norm(OpList& list) {
  static const Stats stats;
  static const Finalize finalize;
  static const Running running;
  static const Update update;
  static const Apply apply;
  static const GradStats grad_stats;
  static const GradApply grad_apply;
  static const GradParams grad_params;
  list.insert(list.end(), {&stats, &finalize, &running, &update, &apply, &grad_stats, &grad_apply, &grad_params});
}

}  // namespace outsize
