#include "model/builder.h"

#include <cmath>
#include <vector>

#include "graph/opdef.h"

namespace outsize {

namespace {

constexpr Init kZeros{Init::Kind::zeros, 0};
constexpr Init kOnes{Init::Kind::ones, 0};

std::vector<std::int64_t> twice(std::int64_t extent) { return {extent, extent}; }
std::vector<std::int64_t> all_sides(std::int64_t padding) { return {padding, padding, padding, padding}; }

}  // namespace

ModelBuilder::ModelBuilder(std::string graph_name, DType dtype) : dtype_(dtype) { graph_.name = std::move(graph_name); }

ValueId ModelBuilder::parameter(const std::string& name, Dims shape, Init init) {
  return graph_.add_value(name, {dtype_, shape, Format::plain}, Role::parameter, init);
}

ValueId ModelBuilder::state(const std::string& name, Dims shape, Init init) {
  return graph_.add_value(name, {dtype_, shape, Format::plain}, Role::state, init);
}

ValueId ModelBuilder::emit(const std::string& name, std::string_view kind, std::vector<ValueId> inputs, Attributes attributes) {
  const OpDef* def = find_op_def(kind);
  if (!def) internal_error("the op kind '{}', which the model needs, is not registered", kind);
  return graph_.op(graph_.add_op(name, *def, std::move(inputs), std::move(attributes))).outputs[0];
}

ValueId ModelBuilder::image(std::int64_t batch, std::int64_t channels, std::int64_t height, std::int64_t width) {
  return graph_.add_value("x", {dtype_, {batch, channels, height, width}, Format::map}, Role::input);
}

ValueId ModelBuilder::conv(const std::string& name, ValueId x, std::int64_t channels, WindowShape window, bool bias) {
  const std::int64_t area = window.kernel * window.kernel;
  const Init kaiming{Init::Kind::normal, std::sqrt(2.0 / static_cast<double>(channels * area))};
  std::vector<ValueId> inputs{x};
  inputs.push_back(parameter(name + ".weight", {channels, shape(x)[1], window.kernel, window.kernel}, kaiming));
  if (bias) inputs.push_back(parameter(name + ".bias", {channels}, kZeros));
  return emit(name, "conv2d", std::move(inputs), {{"stride", twice(window.stride)}, {"padding", all_sides(window.padding)}});
}

ValueId ModelBuilder::batch_norm(const std::string& name, ValueId x) {
  const std::int64_t channels = shape(x)[1];
  const ValueId gamma = parameter(name + ".weight", {channels}, kOnes);
  const ValueId beta = parameter(name + ".bias", {channels}, kZeros);
  const ValueId running_mean = state(name + ".running_mean", {channels}, kZeros);
  const ValueId running_var = state(name + ".running_var", {channels}, kOnes);
  const ValueId stats = emit(name + ".stats", "batch_norm_stats", {x});
  const ValueId moments = emit(name + ".finalize", "batch_norm_finalize", {stats});
  emit(name + ".update", "batch_norm_update", {running_mean, running_var, stats});
  return emit(name, "batch_norm_apply", {x, moments, gamma, beta});
}

ValueId ModelBuilder::relu(const std::string& name, ValueId x) { return emit(name, "relu", {x}); }

ValueId ModelBuilder::max_pool(const std::string& name, ValueId x, WindowShape window) {
  return emit(name, "max_pool", {x},
              {{"kernel", twice(window.kernel)}, {"stride", twice(window.stride)}, {"padding", all_sides(window.padding)}});
}

ValueId ModelBuilder::adaptive_avg_pool(const std::string& name, ValueId x, std::int64_t height, std::int64_t width) {
  return emit(name, "adaptive_avg_pool", {x}, {{"output", std::vector{height, width}}});
}

ValueId ModelBuilder::flatten(const std::string& name, ValueId x) {
  const std::int64_t batch = shape(x)[0];
  return emit(name, "reshape", {x}, {{"shape", std::vector<std::int64_t>{batch, -1}}});
}

ValueId ModelBuilder::linear(const std::string& name, ValueId x, std::int64_t features, Init weights, Init biases) {
  const ValueId weight = parameter(name + ".weight", {features, shape(x)[1]}, weights);
  const ValueId bias = parameter(name + ".bias", {features}, biases);
  return emit(name, "linear", {x, weight, bias});
}

ValueId ModelBuilder::linear(const std::string& name, ValueId x, std::int64_t features) {
  const Init uniform{Init::Kind::uniform, 1 / std::sqrt(static_cast<double>(shape(x)[1]))};
  return linear(name, x, features, uniform, uniform);
}

ValueId ModelBuilder::add(const std::string& name, ValueId a, ValueId b) { return emit(name, "add", {a, b}); }

Graph ModelBuilder::classify(ValueId logits) {
  const ValueId labels = graph_.add_value("labels", {DType::i32, {shape(logits)[0]}, Format::plain}, Role::input);
  graph_.add_output(emit("loss", "softmax_cross_entropy", {logits, labels}));
  return std::move(graph_);
}

Graph ModelBuilder::regress(ValueId x) {
  const ValueId target = graph_.add_value("target", graph_.value(x).type, Role::input);
  graph_.add_output(emit("loss", "mean_squared_error", {x, target}));
  return std::move(graph_);
}

}  // namespace outsize
