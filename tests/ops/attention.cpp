#include <limits>

#include "ops/attention/cuda_attention.h"
#include "subject.h"

// What the cases of attention do not reach: queries whose mask hides every key, and the block sizes of the fused kernels that are
// not the usual ones.
namespace outsize::test {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::vector<const Backend*> all_backends() {
  std::vector<const Backend*> all;
  for (const std::vector<Backend>* list : {&backends(), &tf32_backends()})
    for (const Backend& backend : *list) all.push_back(&backend);
  return all;
}

// Holds every op of a graph, run alone on what it gets in f64, against plain loops. Returns the names of the kernels.
std::set<std::string> expect_right(const Backend& backend, const OpCase& op_case,
                                   const std::map<std::string, std::vector<double>>& given) {
  const CaseGraph graph(op_case, backend.dtype), exact_graph(op_case, DType::f64);
  Values values = random_leaves(exact_graph, op_case);
  for (const auto& [name, numbers] : given) values[at(exact_graph.graph.find_value(name).index)].numbers = numbers;
  evaluate(exact_backend(), exact_graph, exact_graph.ops(), values);
  std::set<std::string> names;
  for (const OpId op : graph.ops()) {
    const OpSite site = graph.site(op);
    if (!site.op.def->kind().starts_with("attention")) continue;
    const Invocation all = whole(site);
    names.insert(backend.table->prepare({site, all.boxes, all.owned}, backend.storage)->name());
    std::vector<Tensor> inputs;
    for (const ValueId id : site.op.inputs) inputs.push_back(convert(values[at(id.index)], graph.graph.value(id).type.dtype));
    const std::vector<Tensor> results = run_op(backend, site, inputs, all);
    for (int i = 0; i < site.outputs(); ++i)
      EXPECT_LE(relative_error(results[at(i)], values[at(site.op.outputs[at(i)].index)]), backend.tolerance)
          << backend.name << ", " << site.op.name << ", output " << i;
  }
  return names;
}

// Of two samples and one head: queries 0 and 2 of the first sample see no key, query 1 sees key 5 only, and all of the second but
// key 3.
TEST(Attention, MaskThatHidesEveryKey) {
  const OpCase op_case{.name = "hidden", .graph = R"(
graph hidden
input q f32[2, 3, 8]
input k f32[2, 8, 8]
input v f32[2, 8, 8]
state mask f32[2, 1, 3, 8] init=zeros
look: y = attention(q, k, v, mask) mask=1
output y
)"};
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  std::vector<double> mask(2 * 3 * 8, 0.0);
  std::fill_n(mask.begin(), 3 * 8, kHidden);
  mask[8 + 5] = 0.5;
  for (const std::size_t query : {3, 4, 5}) mask[query * 8 + 3] = kHidden;
  for (const Backend* backend : all_backends()) expect_right(*backend, op_case, {{"mask", mask}});
}

// Every choice of block sizes, for a width of heads each, with all that is done to scores.
class FusedBlocks : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  ~FusedBlocks() override { emulated::fused_attention() = {}; }
};

TEST_P(FusedBlocks, AreRight) {
  const auto [width, choice] = GetParam();
  const OpCase op_case{.name = "blocks",
                       .graph = fmt::format(R"(
graph blocks
input q f32[1, 137, {0}]
input k f32[1, 140, {0}]
input v f32[1, 140, {0}]
state mask f32[1, 1, 137, 140] init=zeros
input key i32[4]
look: y = attention(q, k, v, mask, key) mask=1 causal=1 p=0.2 stream=4
output y
)",
                                            width),
                       .integer_limit = 1000};
  emulated::fused_attention() = {true, choice, choice, choice};
  for (const Backend& backend : tf32_backends())
    for (const std::string& name : expect_right(backend, op_case, {})) EXPECT_TRUE(name.starts_with("fused")) << name;
}

INSTANTIATE_TEST_SUITE_P(Attention, FusedBlocks,
                         ::testing::Combine(::testing::Values(32, 64, 128), ::testing::Range(0, kFusedChoices)));

// Which kernel a call takes: fused in TF32, composed in f32, for heads that are too wide or not of whole quads, and where masks and
// random numbers would be read from within a quad.
TEST(Attention, WhichCallsAreFused) {
  const auto names = [](const Backend& backend, int width, int keys, const std::string& rest) {
    const OpCase op_case{.name = "which",
                         .graph = fmt::format(R"(
graph which
input q f32[1, 3, {0}]
input k f32[1, {1}, {0}]
input v f32[1, {1}, {0}]
input key i32[4]
look: y = attention(q, k, v{2}
output y
)",
                                              width, keys, rest)};
    std::string all;
    for (const std::string& name : expect_right(backend, op_case, {})) all += name;
    return all;
  };
  for (const Backend& backend : tf32_backends()) {
    for (const int width : {4, 20, 128}) EXPECT_TRUE(names(backend, width, 5, ")").starts_with("fused")) << width;
    EXPECT_TRUE(names(backend, 8, 8, ", key) p=0.5").starts_with("fused"));
    EXPECT_EQ(names(backend, 8, 6, ", key) p=0.5").find("fused"), std::string::npos);
    for (const int width : {6, 132}) EXPECT_EQ(names(backend, width, 5, ")").find("fused"), std::string::npos) << width;
  }
  for (const Backend& backend : backends())
    if (backend.name == "cuda_host") {
      EXPECT_EQ(names(backend, 8, 5, ")").find("fused"), std::string::npos);
    }
}

}  // namespace
}  // namespace outsize::test
