// Vision transformer (Dosovitskiy et al. 2020), base with patches of 16, layer for layer as torchvision has it.
#include "model/multi_head.h"

namespace outsize {

namespace {

constexpr std::int64_t kHeadChannels = 64;
constexpr std::int64_t kPatch = 16;
constexpr int kLayers = 12;

ValueId encoder_layer(ModelBuilder& builder, const std::string& name, ValueId x, std::int64_t heads) {
  const std::int64_t features = builder.shape(x)[2];
  const ValueId asked = builder.layer_norm(name + ".ln_1", x);
  x = builder.add(name + ".add_1", multi_head_attention(builder, name + ".self_attention", asked, asked, heads, false, 0), x);
  ValueId y = builder.linear(name + ".mlp.0", builder.layer_norm(name + ".ln_2", x), 4 * features);
  y = builder.linear(name + ".mlp.3", builder.gelu(name + ".mlp.1", y), features);
  return builder.add(name + ".add_2", y, x);
}

}  // namespace

Graph build_vit(std::string_view name, const ModelOptions& options) {
  if (options.image_height % kPatch != 0 || options.image_width % kPatch != 0)
    user_error("both extents must be multiples of {}, the patch", kPatch);
  ModelBuilder builder(name, options);
  builder.linear_init = {LayerInit::Kind::xavier, 1e-6};
  builder.norm_eps = 1e-6;
  const std::int64_t heads = options.channels(12);
  const std::int64_t features = heads * kHeadChannels;
  const std::int64_t patches = options.image_height / kPatch * (options.image_width / kPatch);

  ValueId x =
      builder.conv("conv_proj", builder.image(), features, {.kernel = kPatch, .stride = kPatch}, true, {LayerInit::Kind::lecun});
  x = builder.reshape("sequence", builder.channels_last("channels_last", x), {options.batch, patches, features});
  const ValueId token = builder.parameter("class_token", {1, 1, features}, {});
  const ValueId tokens =
      builder.emit("class_tokens", "expand", {token}, {{"shape", std::vector<std::int64_t>{options.batch, 1, features}}});
  x = builder.concat("with_class", {tokens, x}, 1);
  const ValueId positions = builder.parameter("encoder.pos_embedding", {1, patches + 1, features}, {Init::Kind::normal, 0.02});
  x = builder.add("encoder.add", x, positions);
  for (int i = 0; i < kLayers; ++i) x = encoder_layer(builder, fmt::format("encoder.layers.encoder_layer_{}", i), x, heads);
  x = builder.layer_norm("encoder.ln", x);
  x = builder.reshape("class", builder.slice("class_slice", x, 1, 0, 1), {options.batch, features});
  return builder.classify(builder.linear("heads.head", x, options.classes, {LayerInit::Kind::normal, 0}));
}

}  // namespace outsize
