#include "ops/conv/cuda_convolution.h"
#include "subject.h"

// Convolutions of the card whose maps have more elements than its library takes are done in parts; sums that are long.
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
