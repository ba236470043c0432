// What waits between passes is stored or made again: the results are those of whole values, and the choice is by room and time.
#include "plan/tiling/remake.h"

#include <gtest/gtest.h>

#include <map>

#include "../step_runs.h"
#include "graph/opdef.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/tiling/tiled.h"
#include "search/prepare.h"

namespace outsize {
namespace {

Prepared prepare_by(const StepGraph& step, Backend& backend, const Device& device, const std::string& planner,
                    const Budgets& budgets) {
  PrepareOptions options;
  options.planner = planner;
  options.budgets = budgets;
  return prepare(step.graph, backend, Profile{device, {}}, options).take();
}

// How often convolutions of forward run beyond once, in parts of themselves.
double made_again(const Graph& graph, const Prepared& prepared) {
  std::vector<std::int64_t> times(prepared.program.instructions.size(), 1);
  for (const Loop& loop : prepared.program.loops)
    for (std::int32_t i = loop.begin; i < loop.end; ++i) times[static_cast<std::size_t>(i)] = loop.count;
  double again = 0, once = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Instruction& instruction = prepared.program.instructions[i];
    if (instruction.action != Action::kernel) continue;
    const Op& op = graph.op(instruction.op);
    if (op.phase != Phase::forward || op.def->kind() != "conv2d") continue;
    const Call call = call_of(graph, prepared.program, instruction);
    (instruction.recompute ? again : once) += op.def->cost({graph, op}, call.boxes).flops * static_cast<double>(times[i]);
  }
  return again / once;
}

class MadeAgain : public testing::TestWithParam<const char*> {};

// A step in f64, all layers in rows that overlap or are shared: also running statistics are those of whole values.
TEST_P(MadeAgain, TrainsAsWholeValuesDo) {
  register_ops();
  const ModelOptions model{.batch = 2, .image_height = 64, .image_width = 64, .classes = 4, .width = 0.125, .dtype = DType::f64};
  const StepGraph step = make_training_graph(build_model(GetParam(), model), {.gradients = true});
  const std::unique_ptr<Backend> backend = make_backend("reference", 2);
  const Device& device = find_device("cpu");
  const Outcome kept = train(step, prepare_by(step, *backend, device, "keep", {}).plan, *backend, true, 0, 1);
  for (const std::string planner : {"overl", "2ps"}) {
    std::map<std::string, double> again;
    for (const std::string way : {"none", "cheaper", "once", "backward", "all"}) {
      SCOPED_TRACE(planner + " " + way);
      const Prepared prepared = prepare_by(step, *backend, device, planner + ":rows=2,layers=100,remake=" + way, {});
      again[way] = made_again(step.graph, prepared);
      const Outcome tiled = train(step, prepared.plan, *backend, true, 256, 1);
      expect_close(step.graph, tiled, kept, 1e-9);
    }
    EXPECT_EQ(again["none"], 0);
    EXPECT_GE(again["once"], 0.9);  // a forward, but for what no norm comes after
    EXPECT_GT(again["backward"], again["once"]);
    EXPECT_GT(again["all"], again["backward"]);
  }
}

// Without host memory, what is made again is what makes a batch fit.
TEST(Remake, FitsMoreOnTheDevice) {
  register_ops();
  const auto step = [](std::int64_t batch) {
    return make_training_graph(
        build_model("resnet50", {.batch = batch, .image_height = 64, .image_width = 64, .classes = 10, .width = 0.25}), {});
  };
  const std::unique_ptr<Backend> backend = make_backend("cpu", 1);
  const Device& device = find_device("rtx-3090-24");
  const Budgets budgets{.device = prepare_by(step(16), *backend, device, "keep", {}).program.peak_bytes.device};
  const StepGraph twice = step(32);
  for (const std::string planner : {"2ps-h:stream=none", "overl-h:cut=rows,stream=none"}) {
    EXPECT_THROW(prepare_by(twice, *backend, device, planner + ",remake=none", budgets), BudgetError) << planner;
    const Prepared prepared = prepare_by(twice, *backend, device, planner, budgets);
    EXPECT_LE(prepared.program.peak_bytes.device, budgets.device) << planner;
    EXPECT_GT(made_again(twice.graph, prepared), 0) << planner;
    EXPECT_EQ(figures_of(twice.graph, prepared).swapped_bytes, 0) << planner;
  }
}

// With it, it is the link that decides.
TEST(Remake, IsChosenWhereCopiesTakeLonger) {
  register_ops();
  const StepGraph step = make_training_graph(
      build_model("darknet19", {.batch = 1, .image_height = 512, .image_width = 512, .classes = 10, .width = 0.25}), {});
  const std::unique_ptr<Backend> backend = make_backend("cpu", 1);
  Device device = find_device("rtx-2080ti-11");
  const Budgets budgets{.device = prepare_by(step, *backend, device, "keep", {}).program.peak_bytes.device / 3};
  for (const std::string planner : {"sft", "2ps-h"}) {
    device.link_in = device.link_out = 1e13;
    const Prepared fast = prepare_by(step, *backend, device, planner, budgets);
    const Prepared copied = prepare_by(step, *backend, device, planner + ":remake=none", budgets);
    EXPECT_LE(made_again(step.graph, fast), made_again(step.graph, copied)) << planner;
    EXPECT_LE(fast.predicted.seconds, copied.predicted.seconds * 1.05) << planner;  // about as long, where the host holds less
    device.link_in = device.link_out = 1e9;
    const Prepared slow = prepare_by(step, *backend, device, planner, budgets);
    const Prepared stored = prepare_by(step, *backend, device, planner + ":remake=none", budgets);
    EXPECT_LT(slow.predicted.seconds, stored.predicted.seconds) << planner;
    EXPECT_LT(figures_of(step.graph, slow).swapped_bytes, figures_of(step.graph, stored).swapped_bytes) << planner;
    EXPECT_GT(made_again(step.graph, slow), made_again(step.graph, stored)) << planner;
  }
}

// With all that pools make stored, and which of what they read it was, nothing of forward that leads to them is made again but
// what the layers between two of them need.
TEST(Indices, AreStoredInsteadOfWhatPoolsRead) {
  register_ops();
  const StepGraph step = make_training_graph(
      build_model("vgg16-features", {.batch = 1, .image_height = 64, .image_width = 64, .width = 0.125, .dtype = DType::f64}),
      {.gradients = true});
  const Graph& graph = step.graph;
  const std::unique_ptr<Backend> backend = make_backend("reference", 2);
  const Profile profile{find_device("cpu"), {}};
  const PlanRequest request{.graph = graph, .profile = profile, .storage = backend->storage()};
  IdVector<OpId, bool> tiled;
  IdVector<ValueId, bool> cuts(graph.value_count());
  std::vector<OpId> once;  // pools, and the convolutions before them
  for (std::int64_t o = 0; o < graph.op_count(); ++o) {
    const Op& op = graph.op(OpId(o));
    tiled.push_back(can_tile(graph, OpId(o), Cut::space));
    if (op.def->kind() != "max_pool") continue;
    cuts[op.outputs[0]] = true;
    once.insert(once.end(), {OpId(o), graph.value(op.inputs[0]).producer});
  }
  ASSERT_EQ(once.size(), 10);
  Plan plan = plan_of(graph, tiling_of(request, tiled, cuts, Remake::none), "test");
  std::map<OpId, int> runs;
  for (Pass& pass : plan.passes) {
    for (const OpId op : pass.ops) ++runs[op];
    const Dims& shape = graph.value(pass.driver).type.shape;
    pass.cuts.resize(4);
    if (shape[2] > 1) pass.cuts[2] = {shape[2] / 2};
  }
  for (const OpId op : once) EXPECT_EQ(runs[op], 1) << graph.op(op).name;
  for (const ValueId value : streamable(graph, plan, values_read_later(graph, plan))) plan.home[value] = Tier::host;
  const Outcome kept = train(step, find_planner("keep").make(request).take(), *backend, true, 0, 1);
  const Outcome found = train(step, plan, *backend, true, 256, 1);
  expect_close(graph, found, kept, 1e-9);
}

// Of the places where maps become smaller, what the first ones make does not fit the host; what the last ones make does, and is
// stored.
TEST(Indices, AsManyAreStoredAsTheHostHasRoomFor) {
  register_ops();
  const StepGraph step =
      make_training_graph(build_model("slide-s", {.batch = 1, .image_height = 2048, .image_width = 2048, .classes = 8}), {});
  const Graph& graph = step.graph;
  const std::unique_ptr<Backend> backend = make_backend("cpu", 1);
  const Profile profile{find_device("cpu"), {}};
  const auto bytes = [&](const char* value) {
    const ValueType& type = graph.value(graph.find_value(value)).type;
    return stored_bytes(backend->storage(), type, type.shape);
  };
  const std::int64_t last = bytes("features.14") + bytes("features.14.argmax");
  ASSERT_GT(bytes("features.7"), 4 * last);
  PrepareOptions options{.planner = "overl-h", .plan_text = {}, .plan_file = {}, .budgets = {}, .windows = true};
  options.budgets = {.device = 32 << 20, .host = 4 * last};
  const Prepared found = prepare(graph, *backend, profile, options).take();
  EXPECT_EQ(found.plan.home_of(graph.find_value("features.14")), Tier::host);
  EXPECT_EQ(found.plan.home_of(graph.find_value("features.14.argmax")), Tier::host);
  EXPECT_EQ(found.plan.home_of(graph.find_value("features.7")), Tier::device);  // where no pass leaves it
  EXPECT_LE(found.program.peak_bytes.host, options.budgets.host);
  int runs = 0;
  for (const Pass& pass : found.plan.passes)
    runs += static_cast<int>(std::ranges::count_if(pass.ops, [&](OpId op) { return graph.op(op).name == "features.12"; }));
  EXPECT_EQ(runs, 1);
}

INSTANTIATE_TEST_SUITE_P(Models, MadeAgain, testing::Values("resnet18", "darknet19"), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace outsize
