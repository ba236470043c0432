#include <gtest/gtest.h>

#include <map>
#include <set>

#include "all_cases.h"
#include "backend/described.h"
#include "graph/autodiff.h"
#include "graph/fusion.h"
#include "graph/text.h"
#include "model/zoo.h"
#include "ops/conv/cuda_convolution.h"
#include "ops/cuda/library/described.h"
#include "ops/registry.h"

// What cuDNN plans for cards that are only described: whether it takes every convolution that the backend would ask it for. It
// needs cuDNN, but neither card nor driver.
namespace outsize {
namespace {

using Signatures = std::map<std::string, ConvolutionSignature>;

enum class Extent : std::uint8_t { whole, tiles };

// The boxes of a call: all of it; or as tiles have them that are bands of rows and, where there are several samples, of some of
// them: the first band, one between and the last.
std::vector<CallBoxes> boxes_of(const OpSite& site, Extent extent) {
  if (extent == Extent::whole) {
    CallBoxes boxes;
    for (int i = 0; i < site.inputs(); ++i) boxes.in.push_back(Box::whole(site.in(i).shape));
    for (int i = 0; i < site.outputs(); ++i) boxes.out.push_back(Box::whole(site.out(i).shape));
    return {boxes};
  }
  const bool weights = site.op.def->kind().ends_with("_grad_weight");
  const Dims& shape = weights ? site.in(0).shape : site.out(0).shape;
  const std::int64_t rows = shape[2], band = std::max<std::int64_t>(1, rows / 4);
  std::vector<CallBoxes> tiles;
  for (const std::int64_t first : {std::int64_t{0}, std::min(band, rows - band), rows - band}) {
    Box box = Box::whole(shape);
    box.set(0, {0, (shape[0] + 1) / 2});
    box.set(2, {first, first + band});
    tiles.push_back(weights ? site.op.def->push(site, box) : site.op.def->gather(site, box));
  }
  return tiles;
}

// Those of all convolutions of a graph and its gradient.
void collect(Graph graph, Signatures& signatures, Extent extent = Extent::whole) {
  graph = fuse(graph);
  AutodiffOptions options{graph.outputs(), {}};
  for (std::int64_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId(i));
    if (value.role == Role::input && is_float(value.type.dtype)) options.with_respect.push_back(ValueId(i));
  }
  differentiate(graph, options);
  for (std::int64_t i = 0; i < graph.op_count(); ++i) {
    const OpSite site{graph, graph.op(OpId(i))};
    if (!site.op.def->kind().starts_with("conv")) continue;
    for (const CallBoxes& boxes : boxes_of(site, extent))
      for (const bool tf32 : {false, true})
        for (const ConvolutionSignature& signature : emulated::convolution_signatures({site, boxes, boxes.in[0]}, tf32))
          signatures.emplace(to_string(signature), signature);
  }
}

// Whether cuDNN is here; says so once where it is not.
bool cudnn_is_here() {
  try {
    (void)planned_convolutions({ConvolutionPass::forward, {1, 8, 8, 8}, {8, 8, 1, 1}, {1, 8, 8, 8}, {0, 0}, {0, 0}, {1, 1}, {1, 1}},
                               cudnn_description("a100-80"), 1);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

void expect_plans(const Signatures& signatures) {
  ASSERT_FALSE(signatures.empty());
  for (const std::string_view card : cudnn_described())
    for (const auto& [text, signature] : signatures) {
      std::string why;
      const std::vector<PlannedConvolution> plans = planned_convolutions(signature, cudnn_description(card), 1, &why);
      ASSERT_FALSE(plans.empty()) << card << ": " << text << ": " << why;
      const PlannedConvolution& least = std::ranges::min(plans, {}, &PlannedConvolution::workspace_bytes);
      EXPECT_LE(least.workspace_bytes, kMostWorkspace) << card << ": " << text << ": " << least.name;
    }
}

class DescribedCards : public testing::Test {
 protected:
  void SetUp() override {
    if (!cudnn_is_here()) GTEST_SKIP() << "cuDNN 9 cannot be loaded";
    register_ops();
  }
};

TEST_F(DescribedCards, HavePlansForTheCases) {
  Signatures signatures;
  for (const auto& [op, cases] : all_cases())
    if (op.starts_with("conv"))
      for (const OpCase& op_case : cases) collect(parse_graph(op_case.graph, op_case.name), signatures);
  expect_plans(signatures);
}

// What is asked for besides: something fused, something added to, another alignment, padding on one side.
TEST_F(DescribedCards, HavePlansForVariants) {
  const ConvolutionSignature plain{
      ConvolutionPass::forward, {32, 256, 56, 56}, {256, 256, 3, 3}, {32, 256, 55, 56}, {1, 1}, {0, 1}, {1, 1}, {1, 1}};
  Signatures signatures;
  for (const bool tf32 : {false, true}) {
    ConvolutionSignature signature = plain;
    signature.tf32 = tf32;
    signature.bias = true;
    signatures.emplace(to_string(signature), signature);
    signature.relu = true;
    signatures.emplace(to_string(signature), signature);
    signature.relu = signature.bias = false;
    signature.alignment = 4;
    signatures.emplace(to_string(signature), signature);
    signature.pass = ConvolutionPass::weights;
    signature.accumulate = true;
    signatures.emplace(to_string(signature), signature);
  }
  EXPECT_EQ(signatures.size(), 8U);
  expect_plans(signatures);
}

// By hand, each still a convolution: what check() holds its extents to.
TEST(Samples, StandForLargeMapsAndForExtentsBetween) {
  const auto rows = [](std::int64_t samples, std::int64_t y_rows, std::int64_t columns, std::int64_t stride) {
    ConvolutionSignature s;
    s.x = {samples, 8, stride * y_rows, stride * columns};
    s.w = {16, 8, 3, 3};
    s.y = {samples, 16, y_rows, columns};
    s.before = {1, 1};
    s.after = {1, 1};
    s.stride = {stride, stride};
    s.dilation = {1, 1};
    check(s);
    const ConvolutionSignature sample = sample_of(s);
    check(sample);
    EXPECT_EQ(to_string(sample_of(sample)), to_string(sample)) << "a sample is its own";
    EXPECT_EQ(sample.y[3], columns);
    EXPECT_EQ(sample.x[2], stride * sample.y[2]);
    return Dims{sample.y[0], sample.y[2]};
  };
  EXPECT_EQ(rows(256, 56, 56, 1), (Dims{256, 56}));      // 0.8 M positions: as it is
  EXPECT_EQ(rows(37, 57, 56, 1), (Dims{32, 57}));        // 100101 in binary digits → 100000
  EXPECT_EQ(rows(1, 2048, 2048, 1), (Dims{1, 2048}));    // 4 Mi positions, which is the most
  EXPECT_EQ(rows(1, 20480, 20480, 1), (Dims{1, 160}));   // 7 halves of 20,480 rows; 160 = 10100000
  EXPECT_EQ(rows(1, 10240, 10240, 2), (Dims{1, 320}));   // 5 halves; 320 · 10,240 = 3.3 M
  EXPECT_EQ(rows(1, 100, 20480, 1), (Dims{1, 96}));      // 1100100 → 1100000
  EXPECT_EQ(rows(1024, 112, 112, 1), (Dims{256, 112}));  // two halves of the samples; 256 · 112² = 3.2 M
  EXPECT_EQ(rows(3, 4, 30000000, 1), (Dims{1, 1}));      // not less than one row
}

TEST_F(DescribedCards, HavePlansForTheZoo) {
  Signatures signatures;
  for (const ModelEntry& entry : zoo()) {
    if (entry.domain == Domain::tokens) continue;
    ModelOptions options{.batch = 8};
    collect(build_model(entry.name, options), signatures);
  }
  expect_plans(signatures);
}

// Tiles have paddings on one side and extents of their own.
TEST_F(DescribedCards, HavePlansForTheZooInTiles) {
  Signatures whole, tiles;
  for (const ModelEntry& entry : zoo()) {
    if (entry.domain == Domain::tokens) continue;
    const Graph graph = build_model(entry.name, {.batch = 8});
    collect(graph, whole);
    collect(graph, tiles, Extent::tiles);
  }
  std::erase_if(tiles, [&](const auto& one) { return whole.contains(one.first); });
  EXPECT_GT(tiles.size(), whole.size());
  expect_plans(tiles);
}

// The workspace of a convolution is that of the first plan that cuDNN offers within the limits; whatever else is as the kernels say
// that stand for the card's.
TEST_F(DescribedCards, ConvolutionsTakeTheWorkspaceThatCudnnPlans) {
  const Graph graph = parse_graph(R"(graph one
input x f32[32, 256, 56, 56]
param w f32[256, 256, 3, 3]
conv: y = conv2d(x, w) padding=[1, 1, 1, 1]
act: z = relu(y)
output z
)",
                                  "one");
  const auto call_of_op = [&](std::string_view name) {
    const OpSite site{graph, graph.op(graph.find_op(name))};
    return Call{site, site.op.def->gather(site, Box::whole(site.out(0).shape)), {}};
  };
  const std::unique_ptr<Backend> kernels = make_backend("cpu", 1);
  for (const bool tf32 : {false, true}) {
    const std::unique_ptr<Target> card = describe_card(*kernels, "rtx-3090-24", tf32);
    ASSERT_TRUE(card);
    const Call call = call_of_op("conv"), relu = call_of_op("act");
    const std::vector<ConvolutionSignature> signatures = emulated::convolution_signatures(call, tf32);
    ASSERT_EQ(signatures.size(), 1U);
    // The operands have 208 MB: the limit is 256 MiB.
    std::int64_t expected = -1;
    for (const PlannedConvolution& plan : planned_convolutions(signatures[0], cudnn_description("rtx-3090-24"), 10))
      if (expected < 0 && plan.workspace_bytes <= kMostWorkspace) expected = plan.workspace_bytes;
    ASSERT_GE(expected, 0);
    EXPECT_EQ(card->workspace_bytes(call), expected);
    EXPECT_EQ(card->workspace_bytes(relu), kernels->workspace_bytes(relu));
    ASSERT_EQ(card->alternatives(call).size(), 1U);
    EXPECT_EQ(card->alternatives(call)[0].workspace_bytes, expected);
  }
  EXPECT_FALSE(describe_card(*kernels, "titan-rtx-24", false));  // which cuDNN does not plan for so
}

}  // namespace
}  // namespace outsize
