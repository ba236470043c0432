// The kernels that a plan chooses among those that a backend has for an op.
#include <gtest/gtest.h>

#include <utility>

#include "../step_runs.h"
#include "graph/text.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/reckon/lives.h"
#include "run/checkpoint.h"
#include "run/saved_plan.h"
#include "search/prepare.h"

namespace outsize {
namespace {

// A first layer, whose gradient of the weights cuda-host computes by a block program with a workspace, or by plain loops without
// one; and a depthwise layer, which it has two kernels for as well.
constexpr std::string_view kStem = R"(graph stem
input x f32[4, 3, 24, 24]
input labels i32[4]
param conv.weight f32[8, 3, 7, 7] init=normal:0.1
param deep.weight f32[8, 1, 3, 3] init=normal:0.1
param fc.weight f32[5, 8] init=normal:0.1
conv: y = conv2d(x, conv.weight) stride=[2, 2] padding=[3, 3, 3, 3]
act: a = relu(y)
deep: d = conv2d(a, deep.weight) padding=[1, 1, 1, 1] groups=8
pool: p = adaptive_avg_pool(d)
flatten: f = reshape(p) shape=[4, 8]
fc: z = linear(f, fc.weight)
loss: loss = softmax_cross_entropy(z, labels)
output loss
)";

// A backend's kernels, where it is known how long each takes: every next one twice as long as the one before.
class Timed : public Target {
 public:
  explicit Timed(Backend& backend) : backend_(backend) {}
  StorageRule storage() const override { return backend_.storage(); }
  std::int64_t workspace_bytes(const Call& call, std::string_view name) override { return backend_.workspace_bytes(call, name); }
  std::vector<Alternative> alternatives(const Call& call) override {
    std::vector<Alternative> all = backend_.alternatives(call);
    double seconds = 1e-4;
    for (Alternative& one : all) one.seconds = std::exchange(seconds, 2 * seconds);
    return all;
  }

 private:
  Backend& backend_;
};

class KernelChoices : public testing::Test {
 protected:
  KernelChoices() {
    register_ops();
    step_ = make_training_graph(parse_graph(kStem, "stem"), {.gradients = true});
  }
  const Graph& graph() const { return step_.graph; }
  Call call_of_op(std::string_view op) const { return whole_call(graph(), graph().op(graph().find_op(op))); }
  Planned<Prepared> prepare_by(const std::string& planner, std::int64_t memory, const std::string& plan = {}) {
    return prepare_for(*backend_, planner, memory, plan);
  }
  Planned<Prepared> prepare_for(Target& target, const std::string& planner, std::int64_t memory, const std::string& plan = {}) {
    PrepareOptions options;
    options.planner = planner;
    options.plan_text = plan;
    options.plan_file = "test.plan";
    options.budgets.device = memory;
    return prepare(graph(), target, Profile{find_device("cpu"), {}}, options);
  }
  std::string error_of(const std::string& plan) {
    try {
      if (const auto made = prepare_by("keep", kNoLimit, plan); !made) return "refused";
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }

  StepGraph step_;
  std::unique_ptr<Backend> backend_ = make_backend("cuda-host", 1);
};

TEST_F(KernelChoices, ABackendSaysWhichKernelsItHas) {
  const Call weights = call_of_op("conv.grad_weight");
  const std::vector<Alternative> all = backend_->alternatives(weights);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].name, "unfold");
  EXPECT_GT(all[0].workspace_bytes, 0);
  EXPECT_EQ(all[1].name, "loops");
  EXPECT_EQ(all[1].workspace_bytes, 0);
  EXPECT_EQ(backend_->kernel(weights)->name(), "unfold");
  EXPECT_EQ(backend_->kernel(weights, Lane::compute, "loops")->name(), "loops");
  EXPECT_EQ(backend_->workspace_bytes(weights), all[0].workspace_bytes);
  EXPECT_EQ(backend_->workspace_bytes(weights, "loops"), 0);
  EXPECT_EQ(backend_->kernel(weights, Lane::compute, "unfold")->workspace_bytes(), all[0].workspace_bytes);
  // A kind with one kernel has that alone, by its name.
  const Call pool = call_of_op("pool");
  ASSERT_EQ(backend_->alternatives(pool).size(), 1U);
  EXPECT_EQ(backend_->kernel(pool, Lane::compute, backend_->alternatives(pool)[0].name)->name(), backend_->kernel(pool)->name());
  EXPECT_THROW(backend_->kernel(pool, Lane::compute, "unfold"), UserError);
  try {
    backend_->kernel(weights, Lane::compute, "cudnn:engine1");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "op conv.grad_weight: backend cuda-host has no kernel 'cudnn:engine1' for it here; it has unfold, loops");
  }
}

TEST_F(KernelChoices, APlanHasChoicesAsText) {
  const Plan keep = prepare_by("keep", kNoLimit)->plan;
  EXPECT_FALSE(rounds(graph(), keep));
  EXPECT_EQ(print_plan(graph(), keep).find("kernel "), std::string::npos);
  const std::string text = "plan stem by hand\nkernel deep cudnn:engine67/2-1+bias\nkernel conv.grad_weight loops rounding\n";
  const Plan plan = parse_plan(graph(), text + "rest\n", "test.plan");
  ASSERT_EQ(plan.kernels.size(), 2U);
  EXPECT_EQ(plan.kernels.at(graph().find_op("deep")), (KernelChoice{"cudnn:engine67/2-1+bias", false}));
  EXPECT_EQ(plan.kernels.at(graph().find_op("conv.grad_weight")), (KernelChoice{"loops", true}));
  EXPECT_TRUE(rounds(graph(), plan));
  const std::string printed = print_plan(graph(), plan);
  EXPECT_EQ(printed.substr(0, text.size()), text);
  EXPECT_EQ(print_plan(graph(), parse_plan(graph(), printed, "printed")), printed);

  EXPECT_EQ(error_of("kernel conv loops\nkernel conv loops\nrest\n"), "test.plan:2: op conv has a kernel already");
  EXPECT_EQ(error_of("kernel conv9 loops\nrest\n"), "test.plan:1: graph stem has no op 'conv9'; did you mean 'conv'?");
  EXPECT_EQ(error_of("kernel conv loops often\nrest\n"),
            "test.plan:1: expected 'rounding' or nothing after the kernel's name, found 'often'");
  EXPECT_EQ(error_of("kernel conv\nrest\n"), "test.plan:1: expected a kernel's name, found the end of the line");
  EXPECT_EQ(error_of("kernel conv.grad_weight fold\nrest\n"),
            "test.plan: op conv.grad_weight: backend cuda-host has no kernel 'fold' for it here; it has unfold, loops");
}

TEST_F(KernelChoices, AChosenKernelRuns) {
  const Prepared first = prepare_by("keep", kNoLimit).take();
  const Prepared chosen = prepare_by("keep", kNoLimit, "kernel conv.grad_weight loops\nrest\n").take();
  EXPECT_TRUE(rounds(graph(), chosen.plan));  // whether or not the text says so
  EXPECT_NE(print_program(graph(), chosen.program).find("  by loops"), std::string::npos);
  const std::vector<std::string> table = kernel_table(graph(), chosen.program, *backend_);
  EXPECT_EQ(std::ranges::count(table, "conv.grad_weight: loops"), 1);
  // The same kernel by its name is no other choice: not to rounding, and its times are not others.
  const Prepared named = prepare_by("keep", kNoLimit, "kernel conv.grad_weight unfold\nrest\n").take();
  EXPECT_FALSE(rounds(graph(), named.plan));
  EXPECT_TRUE(named.program.kernels.empty());
  EXPECT_EQ(std::ranges::count(kernel_table(graph(), named.program, *backend_), "conv.grad_weight: unfold"), 1);

  const Outcome a = train(step_, first.plan, *backend_, true, 0), b = train(step_, chosen.plan, *backend_, true, 0);
  ASSERT_EQ(a.results.size(), b.results.size());
  bool differs = false;
  for (std::size_t i = 0; i < a.results.size(); ++i) {
    const std::vector<double> one = as_doubles(DType::f32, a.results[i].second),
                              other = as_doubles(DType::f32, b.results[i].second);
    ASSERT_EQ(one.size(), other.size());
    for (std::size_t k = 0; k < one.size(); ++k) ASSERT_NEAR(one[k], other[k], 1e-5) << a.results[i].first;
    differs = differs || a.results[i].second != b.results[i].second;
  }
  EXPECT_TRUE(differs);  // by another order of the sums
}

// A budget that lacks a byte of what the workspace takes.
TEST_F(KernelChoices, ShortMemoryTakesKernelsWithLessWorkspace) {
  const Prepared keep = prepare_by("keep", kNoLimit).take();
  const std::int64_t workspace = backend_->workspace_bytes(call_of_op("conv.grad_weight"));
  // Its peak is there; without the workspace less is enough.
  const Prepared loops = prepare_by("keep", kNoLimit, "kernel conv.grad_weight loops\nrest\n").take();
  ASSERT_LT(loops.program.peak_bytes.device, keep.program.peak_bytes.device);
  ASSERT_LE(keep.program.peak_bytes.device - loops.program.peak_bytes.device, workspace);
  const std::int64_t memory = keep.program.peak_bytes.device - 1;
  // A kernel of which nobody knows how long it takes is not chosen.
  EXPECT_FALSE(prepare_by("keep", memory));
  Timed timed(*backend_);
  const Planned<Prepared> less = prepare_for(timed, "keep", memory);
  ASSERT_TRUE(less);
  EXPECT_EQ(less->plan.kernels.at(graph().find_op("conv.grad_weight")), (KernelChoice{"loops", true}));
  EXPECT_TRUE(rounds(graph(), less->plan));
  EXPECT_LE(less->program.peak_bytes.device, memory);
  EXPECT_NE(print_plan(graph(), less->plan).find("kernel conv.grad_weight loops rounding\n"), std::string::npos);
  train(step_, less->plan, *backend_, true, 0, 1);  // whose measured peak is the program's
  // With a byte more nothing is chosen, and what no workspace makes up for is refused as before.
  EXPECT_TRUE(prepare_for(timed, "keep", memory + 1)->plan.kernels.empty());
  EXPECT_FALSE(prepare_for(timed, "keep", loops.program.peak_bytes.device / 2));
}

TEST_F(KernelChoices, ASavedPlanNamesTheKernelsThatRan) {
  const Prepared keep = prepare_by("keep", kNoLimit).take();
  const Plan saved = with_kernels(graph(), keep.plan, keep.program, *backend_);
  EXPECT_EQ(saved.kernels.at(graph().find_op("conv.grad_weight")), (KernelChoice{"unfold", false}));
  EXPECT_EQ(saved.kernels.at(graph().find_op("deep")).name, "depthwise");
  EXPECT_FALSE(saved.kernels.contains(graph().find_op("pool")));
  EXPECT_FALSE(rounds(graph(), saved));
  // Taken up again it is the same program.
  const Prepared again = prepare_by("keep", kNoLimit, print_plan(graph(), saved)).take();
  EXPECT_FALSE(rounds(graph(), again.plan));
  EXPECT_EQ(print_program(graph(), again.program), print_program(graph(), keep.program));
  // A choice that was made stays, with what it means.
  const Prepared chosen = prepare_by("keep", kNoLimit, "kernel conv.grad_weight loops\nrest\n").take();
  EXPECT_EQ(with_kernels(graph(), chosen.plan, chosen.program, *backend_).kernels.at(graph().find_op("conv.grad_weight")),
            (KernelChoice{"loops", true}));
}

// What every backend offers for the convolutions of a network computes the same.
TEST_F(KernelChoices, AllKernelsForACallAgree) {
  for (const char* const name : {"cpu", "cuda-host"}) {
    const auto backend = make_backend(name, 1);
    const StepGraph step = make_training_graph(
        build_model("vit-b16", {.batch = 1, .image_height = 32, .image_width = 32, .classes = 4, .width = 0.125}),
        {.gradients = true});
    const StepGraph stem = make_training_graph(parse_graph(kStem, "stem"), {.gradients = true});
    int several = 0;
    for (const StepGraph* of : {&step, &stem})
      for (const Op& op : of->graph.ops()) {
        if (!op.def->kind().starts_with("conv2d")) continue;
        const Call call = whole_call(of->graph, op);
        const std::vector<Alternative> all = backend->alternatives(call);
        ASSERT_FALSE(all.empty()) << op.name;
        EXPECT_EQ(all.front().name, backend->kernel(call)->name());
        several += all.size() > 1 ? 1 : 0;
        std::vector<double> expected;
        for (const Alternative& one : all) {
          const auto kernel = backend->kernel(call, Lane::compute, one.name);
          EXPECT_EQ(kernel->workspace_bytes(), one.workspace_bytes);
          std::vector<std::vector<float>> in, out;
          std::vector<const std::byte*> in_at;
          std::vector<std::byte*> out_at;
          const auto floats = [&](const ValueType& type, const Box& box) {
            std::vector<float> numbers(static_cast<std::size_t>(stored_bytes(backend->storage(), type, box.shape()) / 4));
            return numbers;
          };
          for (std::size_t i = 0; i < call.boxes.in.size(); ++i) {
            const ValueType& type = call.site.in(static_cast<int>(i));
            in.push_back(floats(type, call.boxes.in[i]));
            // Padding channels stay zero.
            std::vector<double> plain(static_cast<std::size_t>(type.elements()));
            for (std::size_t k = 0; k < plain.size(); ++k) plain[k] = std::sin(static_cast<double>(k + i));
            for (std::int64_t k = 0; const double number : plain) {
              Dims at = type.shape;
              std::int64_t rest = k++;
              for (int d = type.shape.rank(); d-- > 0; rest /= type.shape[d]) at[d] = rest % type.shape[d];
              in.back()[static_cast<std::size_t>(stored_offset(backend->storage(), type.format, Box::whole(type.shape), at))] =
                  static_cast<float>(number);
            }
          }
          for (std::size_t i = 0; i < call.boxes.out.size(); ++i)
            out.push_back(floats(call.site.out(static_cast<int>(i)), call.boxes.out[i]));
          for (auto& numbers : in) in_at.push_back(reinterpret_cast<const std::byte*>(numbers.data()));
          for (auto& numbers : out) out_at.push_back(reinterpret_cast<std::byte*>(numbers.data()));
          std::byte* const workspace = backend->allocate(Tier::device, one.workspace_bytes + 1);
          kernel->run({in_at, out_at, workspace, call.boxes.in, call.boxes.out, call.owned});
          backend->deallocate(Tier::device, workspace, one.workspace_bytes + 1);
          std::vector<double> found;
          for (const auto& numbers : out) found.insert(found.end(), numbers.begin(), numbers.end());
          if (expected.empty()) expected = found;
          ASSERT_EQ(found.size(), expected.size());
          for (std::size_t k = 0; k < found.size(); ++k)
            ASSERT_NEAR(found[k], expected[k], 1e-4 * (1 + std::abs(expected[k])))
                << op.name << " by " << one.name << " on " << name;
        }
      }
    EXPECT_GT(several, 0) << name;
  }
}

}  // namespace
}  // namespace outsize
