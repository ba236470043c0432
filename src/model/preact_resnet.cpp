// Pre-activation ResNet for small images (He et al. 2016, "Identity mappings"): norm and relu before each convolution, and nothing
// on the way of the sum. Depth 9n + 2 with n bottleneck blocks in each of three stages.
#include "model/builder.h"

namespace outsize {

namespace {

constexpr int kBlocks = 111;  // 9 · 111 + 2 = 1001
constexpr std::int64_t kInner[]{16, 32, 64};
constexpr std::int64_t kExpansion = 4;

ValueId block(ModelBuilder& builder, const std::string& name, ValueId x, std::int64_t inner, std::int64_t stride) {
  const auto norm_relu = [&](int index, ValueId value) {
    return builder.relu(fmt::format("{}.relu{}", name, index), builder.batch_norm(fmt::format("{}.bn{}", name, index), value));
  };
  const std::int64_t outer = kExpansion * inner;
  ValueId y = norm_relu(1, x);
  // Where the shape changes, both ways start behind the first relu.
  const ValueId shortcut = stride == 1 && builder.shape(x)[1] == outer
                               ? x
                               : builder.conv(name + ".downsample", y, outer, {.kernel = 1, .stride = stride}, false);
  y = builder.conv(name + ".conv1", y, inner, {.kernel = 1}, false);
  y = builder.conv(name + ".conv2", norm_relu(2, y), inner, {.kernel = 3, .stride = stride, .padding = 1}, false);
  y = builder.conv(name + ".conv3", norm_relu(3, y), outer, {.kernel = 1}, false);
  return builder.add(name + ".add", y, shortcut);
}

}  // namespace

Graph build_preact_resnet(std::string_view name, const ModelOptions& options) {
  ModelBuilder builder(name, options);
  builder.conv_init = {LayerInit::Kind::kaiming_out};
  ValueId x = builder.conv("conv1", builder.image(), options.channels(16), {.kernel = 3, .padding = 1}, false);
  for (int stage = 0; stage < 3; ++stage)
    for (int i = 0; i < kBlocks; ++i)
      x = block(builder, fmt::format("layer{}.{}", stage + 1, i), x, options.channels(kInner[stage]), stage > 0 && i == 0 ? 2 : 1);
  x = builder.relu("relu", builder.batch_norm("bn", x));
  x = builder.flatten("flatten", builder.global_avg_pool("avgpool", x));
  return builder.classify(builder.linear("fc", x, options.classes));
}

}  // namespace outsize
