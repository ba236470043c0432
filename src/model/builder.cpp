#include "model/builder.h"

#include <cmath>
#include <functional>
#include <numeric>

#include "graph/opdef.h"

namespace outsize {

namespace {

constexpr Init kZeros{Init::Kind::zeros, 0};
constexpr Init kOnes{Init::Kind::ones, 0};

std::vector<std::int64_t> both_sides(std::vector<std::int64_t> padding) {
  const std::vector<std::int64_t> before = padding;
  padding.insert(padding.end(), before.begin(), before.end());
  return padding;
}

std::int64_t product(const std::vector<std::int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

int spatial_dims(const Dims& map) { return map.rank() - 2; }

std::string dimensional(std::string_view kind, const Dims& map) { return fmt::format("{}{}d", kind, spatial_dims(map)); }

}  // namespace

std::vector<std::int64_t> PerDim::list(int dims) const {
  if (values_.size() == 1) return std::vector<std::int64_t>(static_cast<std::size_t>(dims), values_[0]);
  OUTSIZE_CHECK(static_cast<int>(values_.size()) == dims);
  return values_;
}

std::pair<Init, Init> LayerInit::of(std::int64_t fan_in, std::int64_t fan_out) const {
  const auto in = static_cast<double>(fan_in);
  const auto out = static_cast<double>(fan_out);
  const auto normal_of = [](double deviation) { return Init{Init::Kind::normal, deviation}; };
  switch (kind) {
    case Kind::torch: return {{Init::Kind::uniform, 1 / std::sqrt(in)}, {Init::Kind::uniform, 1 / std::sqrt(in)}};
    case Kind::kaiming_out: return {normal_of(std::sqrt(2 / out)), kZeros};
    case Kind::kaiming_in: return {normal_of(std::sqrt(2 / in)), kZeros};
    case Kind::lecun: return {normal_of(std::sqrt(1 / in)), kZeros};
    case Kind::normal: return {scale > 0 ? normal_of(scale) : kZeros, kZeros};
    case Kind::normal_weight: return {normal_of(scale), {Init::Kind::uniform, 1 / std::sqrt(in)}};
    case Kind::xavier: return {{Init::Kind::uniform, std::sqrt(6 / (in + out))}, scale > 0 ? normal_of(scale) : kZeros};
  }
  internal_error("no such initialisation");
}

ModelBuilder::ModelBuilder(std::string_view graph_name, const ModelOptions& options) : options_(options) {
  graph_.name = graph_name;
}

ValueId ModelBuilder::parameter(const std::string& name, Dims shape, Init init) {
  return graph_.add_value(name, {options_.dtype, shape, Format::plain}, Role::parameter, init);
}

ValueId ModelBuilder::state(const std::string& name, Dims shape, Init init) {
  return graph_.add_value(name, {options_.dtype, shape, Format::plain}, Role::state, init);
}

ValueId ModelBuilder::emit(const std::string& name, std::string_view kind, std::vector<ValueId> inputs, Attributes attributes) {
  const OpDef* def = find_op_def(kind);
  if (!def) internal_error("the op kind '{}', which the model needs, is not registered", kind);
  return graph_.op(graph_.add_op(name, *def, std::move(inputs), std::move(attributes))).outputs[0];
}

ValueId ModelBuilder::image(std::int64_t channels) {
  Dims shape{options_.batch, channels};
  if (options_.image_depth > 0) shape.push_back(options_.image_depth);
  shape.push_back(options_.image_height);
  shape.push_back(options_.image_width);
  return graph_.add_value("x", {options_.dtype, shape, Format::map}, Role::input);
}

ValueId ModelBuilder::tokens() {
  return graph_.add_value("x", {DType::i32, {options_.batch, options_.sequence}, Format::plain}, Role::input);
}

ValueId ModelBuilder::token_labels() {
  return graph_.add_value("labels", {DType::i32, {options_.batch, options_.sequence}, Format::plain}, Role::input);
}

ValueId ModelBuilder::conv(const std::string& name, ValueId x, std::int64_t channels, WindowShape window, bool bias) {
  return conv(name, x, channels, window, bias, conv_init);
}

ValueId ModelBuilder::conv(const std::string& name, ValueId x, std::int64_t channels, WindowShape window, bool bias,
                           LayerInit init) {
  const Dims& map = shape(x);
  const int dims = spatial_dims(map);
  const std::vector<std::int64_t> kernel = window.kernel.list(dims);
  const std::int64_t inputs_a_group = map[1] / window.groups;
  Dims weight{channels, inputs_a_group};
  for (std::int64_t extent : kernel) weight.push_back(extent);
  const auto [weights, biases] = init.of(inputs_a_group * product(kernel), channels / window.groups * product(kernel));
  std::vector<ValueId> inputs{x, parameter(name + ".weight", weight, weights)};
  if (bias) inputs.push_back(parameter(name + ".bias", {channels}, biases));
  return emit(
      name, dimensional("conv", map), std::move(inputs),
      {{"stride", window.stride.list(dims)}, {"padding", both_sides(window.padding.list(dims))}, {"groups", window.groups}});
}

ValueId ModelBuilder::conv_transpose(const std::string& name, ValueId x, std::int64_t channels, WindowShape window) {
  const Dims& map = shape(x);
  const int dims = spatial_dims(map);
  const std::vector<std::int64_t> kernel = window.kernel.list(dims);
  Dims weight{map[1], channels};
  for (std::int64_t extent : kernel) weight.push_back(extent);
  // PyTorch counts the fan in along the second dimension, which here is the output.
  const auto [weights, biases] = conv_init.of(channels * product(kernel), map[1] * product(kernel));
  const ValueId weight_value = parameter(name + ".weight", weight, weights);
  const ValueId bias_value = parameter(name + ".bias", {channels}, biases);
  return emit(name, dimensional("conv_transpose", map), {x, weight_value, bias_value},
              {{"stride", window.stride.list(dims)}, {"padding", both_sides(window.padding.list(dims))}});
}

ValueId ModelBuilder::batch_norm(const std::string& name, ValueId x) {
  const std::int64_t channels = shape(x)[1];
  const ValueId gamma = parameter(name + ".weight", {channels}, kOnes);
  const ValueId beta = parameter(name + ".bias", {channels}, kZeros);
  const ValueId running_mean = state(name + ".running_mean", {channels}, kZeros);
  const ValueId running_var = state(name + ".running_var", {channels}, kOnes);
  const ValueId stats = emit(name + ".stats", "batch_norm_stats", {x});
  const ValueId moments = emit(name + ".finalize", "batch_norm_finalize", {stats}, {{"eps", norm_eps}});
  emit(name + ".update", "batch_norm_update", {running_mean, running_var, stats});
  return emit(name, "batch_norm_apply", {x, moments, gamma, beta});
}

ValueId ModelBuilder::max_pool(const std::string& name, ValueId x, WindowShape window) {
  const int dims = spatial_dims(shape(x));
  return emit(name, "max_pool", {x},
              {{"kernel", window.kernel.list(dims)},
               {"stride", window.stride.list(dims)},
               {"padding", both_sides(window.padding.list(dims))}});
}

ValueId ModelBuilder::avg_pool(const std::string& name, ValueId x, WindowShape window, bool count_padding) {
  const int dims = spatial_dims(shape(x));
  return emit(name, "avg_pool", {x},
              {{"kernel", window.kernel.list(dims)},
               {"stride", window.stride.list(dims)},
               {"padding", both_sides(window.padding.list(dims))},
               {"count_include_pad", std::int64_t{count_padding}}});
}

ValueId ModelBuilder::adaptive_avg_pool(const std::string& name, ValueId x, PerDim output) {
  return emit(name, "adaptive_avg_pool", {x}, {{"output", output.list(spatial_dims(shape(x)))}});
}

ValueId ModelBuilder::global_avg_pool(const std::string& name, ValueId x) { return adaptive_avg_pool(name, x, 1); }

ValueId ModelBuilder::channels_last(const std::string& name, ValueId x) {
  return emit(name, "permute", {x}, {{"order", std::vector<std::int64_t>{0, 2, 3, 1}}});
}

ValueId ModelBuilder::channels_first(const std::string& name, ValueId x) {
  return emit(name, "permute", {x}, {{"order", std::vector<std::int64_t>{0, 3, 1, 2}}, {"format", std::string("map")}});
}

ValueId ModelBuilder::map_layer_norm(const std::string& name, ValueId x) {
  return channels_first(name + ".first", layer_norm(name, channels_last(name + ".last", x)));
}

ValueId ModelBuilder::gelu(const std::string& name, ValueId x, const std::string& approximate) {
  return emit(name, "gelu", {x}, {{"approximate", approximate}});
}

ValueId ModelBuilder::concat(const std::string& name, std::vector<ValueId> parts, std::int64_t axis) {
  return emit(name, "concat", std::move(parts), {{"axis", axis}});
}

std::vector<ValueId> ModelBuilder::split(const std::string& name, ValueId x, std::int64_t axis, std::vector<std::int64_t> sizes) {
  const ValueId first = emit(name, "split", {x}, {{"axis", axis}, {"sizes", std::move(sizes)}});
  return graph_.op(graph_.value(first).producer).outputs;
}

ValueId ModelBuilder::slice(const std::string& name, ValueId x, int axis, std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> start(shape(x).rank(), 0);
  std::vector<std::int64_t> end(shape(x).begin(), shape(x).end());
  start[axis] = from;
  end[axis] = to;
  return emit(name, "slice", {x}, {{"start", std::move(start)}, {"end", std::move(end)}});
}

ValueId ModelBuilder::reshape(const std::string& name, ValueId x, std::vector<std::int64_t> to) {
  return emit(name, "reshape", {x}, {{"shape", std::move(to)}});
}

ValueId ModelBuilder::random_key() {
  if (!random_key_) random_key_ = graph_.add_value("random_key", {DType::i32, {4}, Format::plain}, Role::input);
  return random_key_;
}

ValueId ModelBuilder::drop(const std::string& name, ValueId x, double rate, const std::string& unit) {
  if (rate_of(rate) == 0) return x;
  return emit(name, "dropout", {x, random_key()}, {{"p", rate_of(rate)}, {"stream", random_streams_++}, {"unit", unit}});
}

ValueId ModelBuilder::dropout(const std::string& name, ValueId x, double rate) { return drop(name, x, rate, "element"); }

ValueId ModelBuilder::stochastic_depth(const std::string& name, ValueId x, double rate) { return drop(name, x, rate, "sample"); }

ValueId ModelBuilder::linear(const std::string& name, ValueId x, std::int64_t features, LayerInit init) {
  const std::int64_t inputs = shape(x)[shape(x).rank() - 1];
  const auto [weights, biases] = init.of(inputs, features);
  const ValueId weight = parameter(name + ".weight", {features, inputs}, weights);
  return linear_with(name, x, weight, parameter(name + ".bias", {features}, biases));
}

ValueId ModelBuilder::linear_with(const std::string& name, ValueId x, ValueId weight, ValueId bias, bool transposed) {
  std::vector<ValueId> inputs{x, weight};
  if (bias) inputs.push_back(bias);
  return emit(name, "linear", std::move(inputs), {{"weight", std::string(transposed ? "io" : "oi")}});
}

ValueId ModelBuilder::layer_norm(const std::string& name, ValueId x) {
  const std::int64_t features = shape(x)[shape(x).rank() - 1];
  const ValueId gamma = parameter(name + ".weight", {features}, kOnes);
  const ValueId beta = parameter(name + ".bias", {features}, kZeros);
  return emit(name, "layer_norm", {x, gamma, beta}, {{"eps", norm_eps}});
}

ValueId ModelBuilder::attention(const std::string& name, ValueId q, ValueId k, ValueId v, std::int64_t heads, bool causal,
                                double rate) {
  Attributes attributes{{"heads", heads}, {"causal", std::int64_t{causal}}};
  std::vector<ValueId> inputs{q, k, v};
  if (rate_of(rate) > 0) {
    inputs.push_back(random_key());
    attributes["p"] = rate_of(rate);
    attributes["stream"] = random_streams_++;
  }
  return emit(name, "attention", std::move(inputs), std::move(attributes));
}

Attributes ModelBuilder::cross_entropy_attributes() const { return {{"label_smoothing", options_.label_smoothing}}; }

ValueId ModelBuilder::labels_of(ValueId logits) {
  Dims labels{shape(logits)[0]};
  for (int i = 2; i < shape(logits).rank(); ++i) labels.push_back(shape(logits)[i]);
  return graph_.add_value("labels", {DType::i32, labels, Format::plain}, Role::input);
}

Graph ModelBuilder::minimise(ValueId loss) {
  graph_.add_output(loss);
  return std::move(graph_);
}

Graph ModelBuilder::classify(ValueId logits) {
  return minimise(emit("loss", "softmax_cross_entropy", {logits, labels_of(logits)}, cross_entropy_attributes()));
}

Graph ModelBuilder::classify(ValueId logits, ValueId auxiliary, double weight) {
  const ValueId labels = labels_of(logits);
  const ValueId main = emit("loss.main", "softmax_cross_entropy", {logits, labels}, cross_entropy_attributes());
  const ValueId aux = emit("loss.auxiliary", "softmax_cross_entropy", {auxiliary, labels}, cross_entropy_attributes());
  return minimise(add("loss", main, emit("loss.weighted", "affine", {aux}, {{"scale", weight}})));
}

Graph ModelBuilder::predict_tokens(ValueId logits) { return predict_tokens(logits, token_labels()); }

Graph ModelBuilder::predict_tokens(ValueId logits, ValueId labels) {
  const ValueId count = emit("loss.count", "label_count", {labels}, {{"dtype", std::string(name_of(options_.dtype))}});
  return minimise(emit("loss", "softmax_cross_entropy", {logits, labels, count}, cross_entropy_attributes()));
}

Graph ModelBuilder::regress(ValueId x) {
  const ValueId target = graph_.add_value("target", graph_.value(x).type, Role::input);
  return minimise(emit("loss", "mean_squared_error", {x, target}));
}

}  // namespace outsize
