#include "model/zoo.h"

#include <gtest/gtest.h>

#include "graph/opdef.h"
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

// The counts that torchvision documents for its weights, and that the papers or published checkpoints give for the others.
TEST_F(Zoo, ParameterCountsArePublished) {
  const std::pair<const char*, std::int64_t> kCounts[]{
      {"resnet18", 11'689'512},        {"resnet34", 21'797'672},    {"resnet50", 25'557'032},       {"resnet101", 44'549'160},
      {"resnet152", 60'192'808},       {"vgg11", 132'863'336},      {"vgg13", 133'047'848},         {"vgg16", 138'357'544},
      {"wide_resnet50_2", 68'883'240}, {"vgg19", 143'667'240},      {"vgg11_bn", 132'868'840},      {"vgg13_bn", 133'053'736},
      {"vgg16_bn", 138'365'992},       {"vgg19_bn", 143'678'248},   {"vgg16-features", 14'714'688}, {"densenet121", 7'978'856},
      {"densenet161", 28'681'000},     {"densenet169", 14'149'480}, {"densenet201", 20'013'928},    {"inception_v3", 27'161'264},
      {"convnext-tiny", 28'589'128},   {"vit-b16", 86'567'656},     {"gpt2", 124'439'808},          {"gpt2-medium", 354'823'168},
      {"gpt2-large", 774'030'080},     {"gpt2-xl", 1'557'611'200},  {"bert-base", 109'514'298},     {"inception_v4", 42'679'816}};
  for (const auto& [name, count] : kCounts) EXPECT_EQ(parameter_elements(build_model(name, {.batch = 2})), count) << name;
}

TEST_F(Zoo, EveryModelVerifiesAndHasItsEnds) {
  for (const ModelEntry& entry : zoo()) {
    ModelOptions options{.batch = 2, .classes = 7, .width = 0.25};
    Dims x{2, 12};
    if (entry.domain == Domain::tokens) {
      options.sequence = 12;
    } else {
      // An Inception needs its size; a volume has one channel and is given H, W and D.
      const bool inception = entry.name.starts_with("inception");
      options.image_height = inception ? 299 : entry.domain == Domain::volume ? 16 : 64;
      options.image_width = inception ? 299 : entry.domain == Domain::volume ? 24 : 96;
      options.image_depth = entry.domain == Domain::volume ? 32 : 0;
      x = entry.domain == Domain::volume ? Dims{2, 1, 32, 16, 24} : Dims{2, 3, options.image_height, options.image_width};
    }
    const Graph graph = build_model(entry.name, options);
    verify_graph(graph);
    EXPECT_EQ(graph.value(graph.find_value("x")).type.shape, x) << entry.name;
    EXPECT_NE(graph.find_value("labels").valid(), graph.find_value("target").valid()) << entry.name;
    ASSERT_EQ(graph.outputs().size(), 1U) << entry.name;
    EXPECT_EQ(graph.value(graph.outputs()[0]).name, "loss");
  }
}

// slide-s is for very large images: 5 to 20 thousand operations a pixel, forward and backward.
TEST_F(Zoo, SlideCostsLittleAPixel) {
  const Graph graph = build_model("slide-s", {.batch = 1});
  double flops = 0;
  for (const Op& op : graph.ops()) {
    CallBoxes boxes;
    for (ValueId id : op.inputs) boxes.in.push_back(Box::whole(graph.value(id).type.shape));
    for (ValueId id : op.outputs) boxes.out.push_back(Box::whole(graph.value(id).type.shape));
    flops += op.def->cost({graph, op}, boxes).flops;
  }
  EXPECT_GT(flops / (1024 * 1024), 5000);
  EXPECT_LT(3 * flops / (1024 * 1024), 20000);
}

TEST_F(Zoo, DropoutIsAsPublishedOrAsAsked) {
  const auto rates = [](const char* name, double dropout) {
    std::vector<double> found;
    const Graph graph = build_model(name, {.batch = 1, .dropout = dropout});
    for (const Op& op : graph.ops())
      if (op.def->kind() == "dropout") found.push_back(OpSite{graph, op}.number("p"));
    return found;
  };
  EXPECT_EQ(rates("vgg11", -1), (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(rates("vgg11", 0.25), (std::vector<double>{0.25, 0.25}));
  EXPECT_TRUE(rates("vgg11", 0).empty());
  EXPECT_FALSE(build_model("vgg11", {.batch = 1, .dropout = 0}).find_value("random_key").valid());
  EXPECT_EQ(rates("convnext-tiny", -1).size(), 17U);  // the first of 18 blocks is never dropped
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
  EXPECT_EQ(message("perceptron", {}), "unknown model 'perceptron'; `outsize models` lists those there are");
  EXPECT_NE(message("vgg16", {.image_height = 16, .image_width = 16}).find("vgg16 with images of 16x16: "), std::string::npos);
}

}  // namespace
}  // namespace outsize
