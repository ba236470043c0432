#include <bit>
#include <set>

#include "graph/autodiff.h"
#include "graph/fusion.h"
#include "graph/text.h"
#include "ops/conv/cuda_convolution.h"
#include "ops/conv/cuda_library.h"
#include "ops/cuda/support.h"
#include "ops/registry.h"
#include "subject.h"

// What is too large for a launch of the card, or for a call of its library, is done in parts; sums that are long.
namespace outsize::test {
namespace {

// Sets the elements that a map may have, for as long as it lives.
class Most {
 public:
  explicit Most(std::int64_t elements) : before_(std::exchange(emulated::most_elements(), elements)) {}
  Most(const Most&) = delete;
  Most& operator=(const Most&) = delete;
  ~Most() { emulated::most_elements() = before_; }

 private:
  std::int64_t before_;
};

TEST(Parts, OfAConvolutionGiveTheWhole) {
  int in_parts = 0;
  for (const Subject& subject : all_subjects(false)) {
    if (subject.backend->name != "cuda_host" || !subject.op.starts_with("conv")) continue;
    const Bench bench(subject.op_case, *subject.backend);
    for (const OpId id : bench.ops()) {
      const OpSite site = bench.graph().site(id);
      if (!site.op.def->kind().starts_with("conv")) continue;
      const Invocation all = whole(site);
      const std::vector<Tensor> inputs = bench.inputs(id);
      const std::vector<Tensor> expected = run_op(*subject.backend, site, inputs, all);
      std::int64_t largest = 0;
      for (const auto* boxes : {&all.boxes.in, &all.boxes.out})
        for (const Box& box : *boxes) largest = std::max(largest, box.elements());
      for (const std::int64_t share : {2, 3, 5}) {
        const Most most(largest / share);
        try {
          const std::vector<Tensor> results = run_op(*subject.backend, site, inputs, all);
          for (std::size_t i = 0; i < results.size(); ++i)
            EXPECT_LE(relative_error(results[i], expected[i]), subject.backend->box_tolerance)
                << subject.op_case.name << ", " << site.op.def->kind() << " in parts of " << largest / share << ", output " << i;
          ++in_parts;
        } catch (const UserError& error) {
          EXPECT_TRUE(std::string_view(error.what()).find("a few rows of one sample") != std::string_view::npos) << error.what();
        }
      }
    }
  }
  EXPECT_GT(in_parts, 200);
}

// Sets what a launch of the families has at most, for as long as it lives.
class MostOfALaunch {
 public:
  MostOfALaunch(std::int64_t positions, std::int64_t rows)
      : positions_(std::exchange(emulated::most_positions(), positions)), rows_(std::exchange(emulated::most_rows(), rows)) {}
  MostOfALaunch(const MostOfALaunch&) = delete;
  MostOfALaunch& operator=(const MostOfALaunch&) = delete;
  ~MostOfALaunch() {
    emulated::most_positions() = positions_;
    emulated::most_rows() = rows_;
  }

 private:
  std::int64_t positions_, rows_;
};

bool same_bits(const Tensor& a, const Tensor& b) {
  return std::ranges::equal(a.numbers, b.numbers,
                            [](double x, double y) { return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y); });
}

// Every op gives the same bits where its families make many launches of what fits one.
TEST(Parts, OfALaunchGiveTheSameBits) {
  std::set<std::string> kinds_in_parts;
  int calls = 0;
  for (const Subject& subject : all_subjects(false)) {
    if (subject.backend->name != "cuda_host") continue;
    const Bench bench(subject.op_case, *subject.backend);
    for (const OpId id : bench.ops()) {
      const OpSite site = bench.graph().site(id);
      const Invocation all = whole(site);
      const std::vector<Tensor> inputs = bench.inputs(id);
      std::int64_t before = emulated::emulated_launches();
      const std::vector<Tensor> expected = run_op(*subject.backend, site, inputs, all);
      const std::int64_t launches = emulated::emulated_launches() - before;
      for (const auto& [positions, rows] : {std::pair{8, 1}, std::pair{29, 3}}) {
        const MostOfALaunch most(positions, rows);
        before = emulated::emulated_launches();
        const std::vector<Tensor> results = run_op(*subject.backend, site, inputs, all);
        for (std::size_t i = 0; i < results.size(); ++i)
          EXPECT_TRUE(same_bits(results[i], expected[i]))
              << subject.op << " " << subject.op_case.name << ", " << site.op.def->kind() << " in launches of " << positions
              << " positions, output " << i;
        if (emulated::emulated_launches() - before > launches) kinds_in_parts.insert(std::string(site.op.def->kind()));
        ++calls;
      }
    }
  }
  EXPECT_GT(calls, 1000);
  // Maps, reductions, moves, windows, resampling, updates.
  for (const char* const kind : {"relu", "batch_norm_apply", "group_norm_stats", "permute", "pad", "concat", "max_pool",
                                 "max_pool_grad", "avg_pool", "upsample", "adam", "sgd", "mean_squared_error_grad"})
    EXPECT_TRUE(kinds_in_parts.contains(kind)) << kind;
}

// Launches are looked at but not run for as long as it lives.
class Dry {
 public:
  Dry() { emulated::emulation_is_dry() = true; }
  Dry(const Dry&) = delete;
  Dry& operator=(const Dry&) = delete;
  ~Dry() { emulated::emulation_is_dry() = false; }
};

// Ops of a graph, and of its gradients with respect to its inputs.
Graph with_gradients(const std::string& text) {
  Graph graph = parse_graph("graph large\n" + text, "large");
  AutodiffOptions options{graph.outputs(), {}};
  for (std::int64_t i = 0; i < graph.value_count(); ++i)
    if (const Value& value = graph.value(ValueId(i)); value.role == Role::input && is_float(value.type.dtype))
      options.with_respect.push_back(ValueId(i));
  differentiate(graph, options);
  return graph;
}

// Nothing has the memory for these calls here: each launch must be one that a card takes.
TEST(Parts, CallsAbove2To31ElementsAreLaunchesThatACardTakes) {
  const std::string map = "f32[5, 16, 6000, 6000]", volume = "f32[2, 3, 800, 800, 800]", rows = "f32[50000, 50257]";
  const std::string graphs[]{
      fmt::format("input x {}\nrelu: a = relu(x)\npool: y = max_pool(a)\noutput y\n", map),
      fmt::format("input x {}\ninput x2 {}\nadd: a = add(x, x2)\nmul: y = mul(a, x)\noutput y\n", map, map),
      fmt::format("input x {}\nparam c f32[16]\nstats: s = batch_norm_stats(x)\nfinal: m = batch_norm_finalize(s)\n"
                  "apply: y = batch_norm_apply(x, m, c, c)\noutput y\n",
                  map),
      fmt::format("input x {}\npool: y = avg_pool(x) kernel=[2, 2] stride=[2, 2]\noutput y\n", map),
      fmt::format("input x {}\nup: y = upsample(x) output=[12000, 12000]\noutput y\n", "f32[1, 16, 6000, 6000]"),
      fmt::format("input x {}\nrelu: a = relu(x)\npool: y = max_pool(a) kernel=[2, 2, 2] stride=[2, 2, 2]\noutput y\n", volume),
      fmt::format("input x {}\npad: y = pad(x) before=[0, 0, 1, 1] after=[0, 0, 1, 1]\noutput y\n", map),
      fmt::format("input x {}\nsoft: y = softmax(x)\noutput y\n", rows),
      fmt::format("input x {}\ninput labels i32[50000]\nloss: y = softmax_cross_entropy(x, labels)\noutput y\n", rows),
      fmt::format("input x {}\nparam g f32[50257]\nnorm: y = layer_norm(x, g, g)\noutput y\n", rows),
      fmt::format("input x {}\nturn: y = permute(x) order=[1, 0]\noutput y\n", rows),
      fmt::format("input x {}\ninput t {}\nloss: y = mean_squared_error(x, t)\noutput y\n", rows, rows),
      fmt::format("input x {}\ninput b f32[50257]\nadd: y = add(x, b)\noutput y\n", rows),
  };
  const KernelTable kernels = cuda_host_kernels();
  const StorageRule storage{.channels_last = true};
  const Dry dry;
  std::set<std::string> kinds;
  int with_several = 0;
  for (const std::string& text : graphs) {
    const Graph graph = with_gradients(text);
    for (std::int64_t i = 0; i < graph.op_count(); ++i) {
      const OpSite site{graph, graph.op(OpId(i))};
      const Call call{site, whole(site).boxes, whole(site).owned};
      // Addresses that nobody follows.
      std::byte* const nowhere = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
      const std::vector<const std::byte*> in(call.boxes.in.size(), nowhere);
      const std::vector<std::byte*> out(call.boxes.out.size(), nowhere);
      const std::int64_t before = emulated::emulated_launches();
      EXPECT_NO_THROW(kernels.prepare(call, storage)->run({in, out, nowhere, call.boxes.in, call.boxes.out, call.owned}))
          << text << site.op.def->kind();
      EXPECT_GT(emulated::emulated_launches(), before) << text << site.op.def->kind();
      with_several += emulated::emulated_launches() > before + 1;
      kinds.insert(std::string(site.op.def->kind()));
    }
  }
  EXPECT_GT(kinds.size(), 25U);
  EXPECT_GT(with_several, 10);
}

// The library is asked for parts below 2^31 elements that cover what a call has.
TEST(Parts, ConvolutionsAbove2To31ElementsAreCalledInPartsBelow) {
  const std::string graphs[]{
      "input x f32[3, 64, 4096, 4096]\nparam w f32[64, 64, 3, 3]\nconv: y = conv2d(x, w) padding=[1, 1, 1, 1]\noutput y\n",
      "input x f32[1, 64, 20480, 20480]\nparam w f32[64, 64, 3, 3]\nconv: y = conv2d(x, w) padding=[1, 1, 1, 1]\noutput y\n",
      "input x f32[1, 3, 20480, 20480]\nparam w f32[64, 3, 3, 3]\nconv: y = conv2d(x, w) padding=[1, 1, 1, 1]\noutput y\n",
      "input x f32[1, 32, 512, 512, 512]\nparam w f32[64, 32, 3, 3, 3]\n"
      "conv: y = conv3d(x, w) padding=[1, 1, 1, 1, 1, 1]\noutput y\n",
      "input x f32[300, 64, 512, 512]\nparam w f32[128, 64, 3, 3]\n"
      "conv: y = conv2d(x, w) stride=[2, 2] padding=[1, 1, 1, 1]\noutput y\n",
      "input x f32[1, 64, 256, 256, 256]\nparam w f32[64, 32, 2, 2, 2]\n"
      "up: y = conv_transpose3d(x, w) stride=[2, 2, 2]\noutput y\n",
  };
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
  int passes = 0;
  for (const std::string& text : graphs) {
    const Graph graph = with_gradients(text);
    for (std::int64_t i = 0; i < graph.op_count(); ++i) {
      const OpSite site{graph, graph.op(OpId(i))};
      if (!site.op.def->kind().starts_with("conv")) continue;
      const Call call{site, whole(site).boxes, whole(site).owned};
      const std::vector<ConvolutionSignature> parts = emulated::convolution_signatures(call, true);
      EXPECT_GT(parts.size(), 1U) << text << site.op.def->kind();
      const bool spreads = parts[0].pass == ConvolutionPass::data;
      std::int64_t covered = 0, all = 0;
      for (const ConvolutionSignature& part : parts) {
        EXPECT_LE(part.x.product(), kMost) << to_string(part);
        EXPECT_LE(part.y.product(), kMost) << to_string(part);
        EXPECT_NO_THROW(check(part)) << to_string(part);
        covered += spreads ? part.x.product() : part.y.product();
        // One after another is added to the same weights.
        EXPECT_EQ(part.accumulate, part.pass == ConvolutionPass::weights && &part != parts.data()) << to_string(part);
      }
      // What a pass computes, or for weights all that it adds up, is covered once.
      const bool weights = site.op.def->kind().ends_with("_grad_weight");
      for (const Box& box : weights ? call.boxes.in : call.boxes.out) {
        all = box.elements();
        break;
      }
      EXPECT_EQ(covered, all) << text << site.op.def->kind();
      ++passes;
    }
  }
  EXPECT_GE(passes, 12);
}

// So many positions that a thread goes over from f32 to f64, and more outputs than a block has.
TEST(Unfolded, SumsOfManyPositions) {
  const OpCase op_case{.name = "stem", .graph = R"(
graph stem
input x f32[1, 3, 150, 170]
param weight f32[66, 3, 7, 7] init=normal:0.3
conv: y = conv2d(x, weight) padding=[3, 3, 2, 3]
output y
)"};
  int checked = 0;
  for (const Backend& backend : backends()) {
    if (!backend.name.starts_with("cuda_host")) continue;
    const Bench bench(op_case, backend);
    for (const OpId id : bench.ops()) {
      const OpSite site = bench.graph().site(id);
      if (site.op.def->kind() != "conv2d_grad_weight") continue;
      const Tensor found = run_op(backend, site, bench.inputs(id), whole(site))[0];
      const Tensor exact = run_op(exact_backend(), bench.exact_graph().site(id), bench.exact_inputs(id), whole(site))[0];
      EXPECT_LE(relative_error(found, exact), 1e-6) << backend.name;
      ++checked;
    }
  }
  EXPECT_EQ(checked, 2);
}

}  // namespace
}  // namespace outsize::test
