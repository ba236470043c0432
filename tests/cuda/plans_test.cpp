#include <gtest/gtest.h>

#include <map>
#include <set>

#include "all_cases.h"
#include "graph/autodiff.h"
#include "graph/fusion.h"
#include "graph/text.h"
#include "model/zoo.h"
#include "ops/conv/cuda_convolution.h"
#include "ops/registry.h"

// What cuDNN plans for cards that are only described: whether it takes every convolution that the backend would ask it for. It
// needs cuDNN, but neither card nor driver.
namespace outsize {
namespace {

struct Card {
  const char* name;
  int version, multiprocessors, shared_memory, threads, blocks;
  std::int64_t l2, memory;
  int clock, memory_clock;

  std::string json() const {
    return fmt::format(
        R"({{"deviceVer":{},"multiProcessorCount":{},"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
        R"("maxSharedMemoryPerBlockOptin":{},"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":{},)"
        R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":{},"regsPerBlock":65536,"totalGlobalMem":{},"smClockRateKHz":{},)"
        R"("l2CacheSize":{},"maxBlockSize":[1024,1024,64],"memClockRateKHz":{},"maxGridSize":[2147483647,65535,65535],)"
        R"("supportCoopLaunch":1,"pciDeviceId":0,"isTccDriver":0,"cudaDeviceId":0,"driverVer":13000,"deviceName":"{}"}})",
        version, multiprocessors, shared_memory, blocks, threads, memory, clock, l2, memory_clock, name);
  }
};

constexpr Card kCards[]{
    {"A100-SXM4-80GB", 800, 108, 166912, 2048, 32, 41943040, 85100068864, 1410000, 1593000},
    {"RTX-3090", 860, 82, 101376, 1536, 16, 6291456, 25430786048, 1695000, 9751000},
    {"RTX-4090", 890, 128, 101376, 1536, 24, 75497472, 25393692672, 2520000, 10501000},
    {"H100-SXM", 900, 132, 232448, 2048, 32, 52428800, 84942979072, 1980000, 2619000},
};

using Signatures = std::map<std::string, ConvolutionSignature>;

// Those of all convolutions of a graph and its gradient, whole.
void collect(Graph graph, Signatures& signatures) {
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
    Call call{site, {}, {}};
    for (int j = 0; j < site.inputs(); ++j) call.boxes.in.push_back(Box::whole(site.in(j).shape));
    for (int j = 0; j < site.outputs(); ++j) call.boxes.out.push_back(Box::whole(site.out(j).shape));
    for (const bool tf32 : {false, true})
      for (const ConvolutionSignature& signature : emulated::convolution_signatures(call, tf32))
        signatures.emplace(to_string(signature), signature);
  }
}

// Whether cuDNN is here; says so once where it is not.
bool cudnn_is_here() {
  try {
    (void)planned_convolutions({ConvolutionPass::forward, {1, 8, 8, 8}, {8, 8, 1, 1}, {1, 8, 8, 8}, {0, 0}, {0, 0}, {1, 1}, {1, 1}},
                               kCards[0].json(), 1);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

void expect_plans(const Signatures& signatures) {
  ASSERT_FALSE(signatures.empty());
  for (const Card& card : kCards)
    for (const auto& [text, signature] : signatures) {
      std::string why;
      const std::vector<PlannedConvolution> plans = planned_convolutions(signature, card.json(), 1, &why);
      ASSERT_FALSE(plans.empty()) << card.name << ": " << text << ": " << why;
      const PlannedConvolution& least = std::ranges::min(plans, {}, &PlannedConvolution::workspace_bytes);
      EXPECT_LE(least.workspace_bytes, kMostWorkspace) << card.name << ": " << text << ": " << least.name;
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

}  // namespace
}  // namespace outsize
