// Inception v3 (Szegedy et al. 2015), layer for layer as torchvision has it, with the auxiliary head.
#include "model/inception.h"

namespace outsize {

namespace {

struct Network {
  ModelBuilder& builder;
  InceptionLayers layers{builder};

  ValueId a(const std::string& block, ValueId x, std::int64_t pool_features) const {
    const ValueId narrow = layers.chain(block, x, {{"branch1x1", 64, one_by_one()}});
    const ValueId middle = layers.chain(block, x, {{"branch5x5_1", 48, one_by_one()}, {"branch5x5_2", 64, same(5)}});
    const ValueId wide = layers.chain(
        block, x, {{"branch3x3dbl_1", 64, one_by_one()}, {"branch3x3dbl_2", 96, same(3)}, {"branch3x3dbl_3", 96, same(3)}});
    return layers.concat(block, {narrow, middle, wide, pooled(block, x, pool_features)});
  }

  ValueId b(const std::string& block, ValueId x) const {
    const ValueId narrow = layers.chain(block, x, {{"branch3x3", 384, valid(3, 2)}});
    const ValueId wide = layers.chain(
        block, x, {{"branch3x3dbl_1", 64, one_by_one()}, {"branch3x3dbl_2", 96, same(3)}, {"branch3x3dbl_3", 96, valid(3, 2)}});
    return layers.concat(block, {narrow, wide, layers.shrink(block + ".pool", x)});
  }

  ValueId c(const std::string& block, ValueId x, std::int64_t inner) const {
    const ValueId narrow = layers.chain(block, x, {{"branch1x1", 192, one_by_one()}});
    const ValueId middle = layers.chain(
        block, x,
        {{"branch7x7_1", inner, one_by_one()}, {"branch7x7_2", inner, along_width(7)}, {"branch7x7_3", 192, along_height(7)}});
    const ValueId wide = layers.chain(block, x,
                                      {{"branch7x7dbl_1", inner, one_by_one()},
                                       {"branch7x7dbl_2", inner, along_height(7)},
                                       {"branch7x7dbl_3", inner, along_width(7)},
                                       {"branch7x7dbl_4", inner, along_height(7)},
                                       {"branch7x7dbl_5", 192, along_width(7)}});
    return layers.concat(block, {narrow, middle, wide, pooled(block, x, 192)});
  }

  ValueId d(const std::string& block, ValueId x) const {
    const ValueId narrow = layers.chain(block, x, {{"branch3x3_1", 192, one_by_one()}, {"branch3x3_2", 320, valid(3, 2)}});
    const ValueId wide = layers.chain(block, x,
                                      {{"branch7x7x3_1", 192, one_by_one()},
                                       {"branch7x7x3_2", 192, along_width(7)},
                                       {"branch7x7x3_3", 192, along_height(7)},
                                       {"branch7x7x3_4", 192, valid(3, 2)}});
    return layers.concat(block, {narrow, wide, layers.shrink(block + ".pool", x)});
  }

  ValueId e(const std::string& block, ValueId x) const {
    const ValueId narrow = layers.chain(block, x, {{"branch1x1", 320, one_by_one()}});
    const ValueId middle = layers.chain(block, x, {{"branch3x3_1", 384, one_by_one()}});
    const ValueId middle_a = layers.chain(block, middle, {{"branch3x3_2a", 384, along_width(3)}});
    const ValueId middle_b = layers.chain(block, middle, {{"branch3x3_2b", 384, along_height(3)}});
    const ValueId wide = layers.chain(block, x, {{"branch3x3dbl_1", 448, one_by_one()}, {"branch3x3dbl_2", 384, same(3)}});
    const ValueId wide_a = layers.chain(block, wide, {{"branch3x3dbl_3a", 384, along_width(3)}});
    const ValueId wide_b = layers.chain(block, wide, {{"branch3x3dbl_3b", 384, along_height(3)}});
    return layers.concat(block, {narrow, middle_a, middle_b, wide_a, wide_b, pooled(block, x, 192)});
  }

  ValueId auxiliary(const std::string& block, ValueId x, std::int64_t classes) const {
    x = builder.avg_pool(block + ".pool", x, {.kernel = 5, .stride = 3});
    x = layers.chain(block, x, {{"conv0", 128, one_by_one()}});
    builder.conv_init.scale = 0.01;
    x = layers.chain(block, x, {{"conv1", 768, valid(5, 1)}});
    builder.conv_init.scale = 0.1;
    x = builder.flatten(block + ".flatten", builder.global_avg_pool(block + ".avgpool", x));
    return builder.linear(block + ".fc", x, classes, {LayerInit::Kind::normal_weight, 0.001});
  }

 private:
  ValueId pooled(const std::string& block, ValueId x, std::int64_t channels) const {
    return layers.chain(block, layers.smooth(block + ".pool", x, true), {{"branch_pool", channels, one_by_one()}});
  }
};

}  // namespace

Graph build_inception_v3(std::string_view name, const ModelOptions& options) {
  ModelBuilder builder(name, options);
  builder.conv_init = {LayerInit::Kind::normal, 0.1};
  const Network net{builder};
  ValueId x = builder.image();
  x = net.layers.conv("Conv2d_1a_3x3", x, 32, valid(3, 2));
  x = net.layers.conv("Conv2d_2a_3x3", x, 32, valid(3, 1));
  x = net.layers.conv("Conv2d_2b_3x3", x, 64, same(3));
  x = net.layers.shrink("maxpool1", x);
  x = net.layers.conv("Conv2d_3b_1x1", x, 80, one_by_one());
  x = net.layers.conv("Conv2d_4a_3x3", x, 192, valid(3, 1));
  x = net.layers.shrink("maxpool2", x);
  x = net.a("Mixed_5b", x, 32);
  x = net.a("Mixed_5c", x, 64);
  x = net.a("Mixed_5d", x, 64);
  x = net.b("Mixed_6a", x);
  x = net.c("Mixed_6b", x, 128);
  x = net.c("Mixed_6c", x, 160);
  x = net.c("Mixed_6d", x, 160);
  x = net.c("Mixed_6e", x, 192);
  const ValueId auxiliary = net.auxiliary("AuxLogits", x, options.classes);
  x = net.d("Mixed_7a", x);
  x = net.e("Mixed_7b", x);
  x = net.e("Mixed_7c", x);
  x = builder.dropout("dropout", builder.global_avg_pool("avgpool", x), 0.5);
  const ValueId logits =
      builder.linear("fc", builder.flatten("flatten", x), options.classes, {LayerInit::Kind::normal_weight, 0.1});
  return builder.classify(logits, auxiliary, 0.4);
}

}  // namespace outsize
