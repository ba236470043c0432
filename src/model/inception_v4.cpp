// Inception v4 (Szegedy et al. 2016). torchvision has none; modules are numbered as in one Sequential "features", branches within a
// block from 0.
#include "model/inception.h"

namespace outsize {

namespace {

struct Network {
  ModelBuilder& builder;
  InceptionLayers layers{builder};

  // The stem behind its first three convolutions.
  ValueId stem(ValueId x) const {
    x = layers.concat("features.3",
                      {layers.shrink("features.3.pool", x), layers.chain("features.3", x, {{"conv", 96, valid(3, 2)}})});
    const ValueId narrow = layers.chain("features.4", x, {{"branch0.0", 64, one_by_one()}, {"branch0.1", 96, valid(3, 1)}});
    const ValueId wide = layers.chain("features.4", x,
                                      {{"branch1.0", 64, one_by_one()},
                                       {"branch1.1", 64, along_width(7)},
                                       {"branch1.2", 64, along_height(7)},
                                       {"branch1.3", 96, valid(3, 1)}});
    x = layers.concat("features.4", {narrow, wide});
    return layers.concat("features.5",
                         {layers.chain("features.5", x, {{"conv", 192, valid(3, 2)}}), layers.shrink("features.5.pool", x)});
  }

  ValueId a(const std::string& block, ValueId x) const {
    const ValueId narrow = layers.chain(block, x, {{"branch0", 96, one_by_one()}});
    const ValueId middle = layers.chain(block, x, {{"branch1.0", 64, one_by_one()}, {"branch1.1", 96, same(3)}});
    const ValueId wide =
        layers.chain(block, x, {{"branch2.0", 64, one_by_one()}, {"branch2.1", 96, same(3)}, {"branch2.2", 96, same(3)}});
    return layers.concat(block, {narrow, middle, wide, pooled(block, x, 96)});
  }

  ValueId reduce_a(const std::string& block, ValueId x) const {
    const ValueId narrow = layers.chain(block, x, {{"branch0", 384, valid(3, 2)}});
    const ValueId wide =
        layers.chain(block, x, {{"branch1.0", 192, one_by_one()}, {"branch1.1", 224, same(3)}, {"branch1.2", 256, valid(3, 2)}});
    return layers.concat(block, {narrow, wide, layers.shrink(block + ".pool", x)});
  }

  ValueId b(const std::string& block, ValueId x) const {
    const ValueId narrow = layers.chain(block, x, {{"branch0", 384, one_by_one()}});
    const ValueId middle = layers.chain(
        block, x, {{"branch1.0", 192, one_by_one()}, {"branch1.1", 224, along_width(7)}, {"branch1.2", 256, along_height(7)}});
    const ValueId wide = layers.chain(block, x,
                                      {{"branch2.0", 192, one_by_one()},
                                       {"branch2.1", 192, along_height(7)},
                                       {"branch2.2", 224, along_width(7)},
                                       {"branch2.3", 224, along_height(7)},
                                       {"branch2.4", 256, along_width(7)}});
    return layers.concat(block, {narrow, middle, wide, pooled(block, x, 128)});
  }

  ValueId reduce_b(const std::string& block, ValueId x) const {
    const ValueId narrow = layers.chain(block, x, {{"branch0.0", 192, one_by_one()}, {"branch0.1", 192, valid(3, 2)}});
    const ValueId wide = layers.chain(block, x,
                                      {{"branch1.0", 256, one_by_one()},
                                       {"branch1.1", 256, along_width(7)},
                                       {"branch1.2", 320, along_height(7)},
                                       {"branch1.3", 320, valid(3, 2)}});
    return layers.concat(block, {narrow, wide, layers.shrink(block + ".pool", x)});
  }

  ValueId c(const std::string& block, ValueId x) const {
    const ValueId narrow = layers.chain(block, x, {{"branch0", 256, one_by_one()}});
    const ValueId middle = layers.chain(block, x, {{"branch1_0", 384, one_by_one()}});
    const ValueId middle_a = layers.chain(block, middle, {{"branch1_1a", 256, along_width(3)}});
    const ValueId middle_b = layers.chain(block, middle, {{"branch1_1b", 256, along_height(3)}});
    const ValueId wide = layers.chain(
        block, x, {{"branch2_0", 384, one_by_one()}, {"branch2_1", 448, along_height(3)}, {"branch2_2", 512, along_width(3)}});
    const ValueId wide_a = layers.chain(block, wide, {{"branch2_3a", 256, along_width(3)}});
    const ValueId wide_b = layers.chain(block, wide, {{"branch2_3b", 256, along_height(3)}});
    return layers.concat(block, {narrow, middle_a, middle_b, wide_a, wide_b, pooled(block, x, 256)});
  }

 private:
  ValueId pooled(const std::string& block, ValueId x, std::int64_t channels) const {
    return layers.chain(block, layers.smooth(block + ".pool", x, false), {{"branch3", channels, one_by_one()}});
  }
};

}  // namespace

Graph build_inception_v4(std::string_view name, const ModelOptions& options) {
  ModelBuilder builder(name, options);
  builder.conv_init = {LayerInit::Kind::kaiming_out};
  const Network net{builder};
  int index = 6;  // the next module of "features" behind the stem
  const auto next = [&index] { return fmt::format("features.{}", index++); };
  ValueId x = builder.image();
  x = net.layers.conv("features.0", x, 32, valid(3, 2));
  x = net.layers.conv("features.1", x, 32, valid(3, 1));
  x = net.layers.conv("features.2", x, 64, same(3));
  x = net.stem(x);
  for (int i = 0; i < 4; ++i) x = net.a(next(), x);
  x = net.reduce_a(next(), x);
  for (int i = 0; i < 7; ++i) x = net.b(next(), x);
  x = net.reduce_b(next(), x);
  for (int i = 0; i < 3; ++i) x = net.c(next(), x);
  x = builder.dropout("dropout", builder.global_avg_pool("avgpool", x), 0.2);
  return builder.classify(builder.linear("last_linear", builder.flatten("flatten", x), options.classes));
}

}  // namespace outsize
