#include "model/zoo.h"

#include <gtest/gtest.h>

#include "graph/verify.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class Zoo : public testing::Test {
 protected:
  static void SetUpTestSuite() { register_ops(); }
};

std::int64_t parameter_elements(const Graph& graph) {
  std::int64_t total = 0;
  for (const Value& value : graph.values())
    if (value.role == Role::parameter && !value.producer) total += value.type.elements();
  return total;
}

// The counts that torchvision documents for its weights.
TEST_F(Zoo, ParameterCountsAreTorchvisions) {
  const std::pair<const char*, std::int64_t> kCounts[]{
      {"resnet18", 11'689'512},        {"resnet34", 21'797'672}, {"resnet50", 25'557'032},  {"resnet101", 44'549'160},
      {"resnet152", 60'192'808},       {"vgg11", 132'863'336},   {"vgg13", 133'047'848},    {"vgg16", 138'357'544},
      {"wide_resnet50_2", 68'883'240}, {"vgg19", 143'667'240},   {"vgg16_bn", 138'365'992}, {"vgg16-features", 14'714'688}};
  for (const auto& [name, count] : kCounts) EXPECT_EQ(parameter_elements(build_model(name, {.batch = 1})), count) << name;
}

TEST_F(Zoo, EveryModelVerifiesAndHasItsEnds) {
  for (const ModelEntry& entry : zoo()) {
    const Graph graph = build_model(entry.name, {.batch = 2, .image_height = 64, .image_width = 96, .classes = 7, .width = 0.25});
    verify_graph(graph);
    EXPECT_EQ(graph.value(graph.find_value("x")).type.shape, (Dims{2, 3, 64, 96})) << entry.name;
    EXPECT_NE(graph.find_value("labels").valid(), graph.find_value("target").valid()) << entry.name;
    ASSERT_EQ(graph.outputs().size(), 1U) << entry.name;
    EXPECT_EQ(graph.value(graph.outputs()[0]).name, "loss");
  }
}

TEST_F(Zoo, NamesAreTorchvisions) {
  const Graph graph = build_model("resnet50", {.batch = 1});
  for (const char* name : {"conv1.weight", "bn1.running_mean", "layer1.0.conv1.weight", "layer1.0.downsample.1.running_var",
                           "layer4.2.bn3.bias", "fc.weight", "fc.bias"})
    EXPECT_TRUE(graph.find_value(name).valid()) << name;
  EXPECT_FALSE(graph.find_value("conv1.bias").valid());
  // 2048 inputs: PyTorch draws from ±1/√2048 = ±0.0220970869.
  EXPECT_NEAR(graph.value(graph.find_value("fc.bias")).init.scale, 0.0220970869, 1e-10);
  // 64 · 7 · 7 outputs a position: √(2 / 3136) = 0.0252538136.
  EXPECT_NEAR(graph.value(graph.find_value("conv1.weight")).init.scale, 0.0252538136, 1e-10);
}

TEST_F(Zoo, Refusals) {
  const auto message = [](std::string_view name, const ModelOptions& options) -> std::string {
    try {
      build_model(name, options);
    } catch (const UserError& error) {
      return error.what();
    }
    return "(accepted)";
  };
  EXPECT_EQ(message("resnet5O", {}), "unknown model 'resnet5O'; did you mean 'resnet50'?");
  EXPECT_EQ(message("transformer", {}), "unknown model 'transformer'; `outsize models` lists those there are");
  EXPECT_NE(message("vgg16", {.image_height = 16, .image_width = 16}).find("vgg16 with images of 16x16: "), std::string::npos);
}

}  // namespace
}  // namespace outsize
