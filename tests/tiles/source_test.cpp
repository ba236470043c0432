// Inputs that are read from the data window by window train as inputs in memory do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../batches.h"
#include "../step_runs.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "run/batch_spec.h"
#include "run/trainer.h"

namespace outsize {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kSeed = 5;

class Source : public testing::Test {
 protected:
  Source() {
    register_ops();
    training_ = make_training_graph(
        build_model("slide-s", {.batch = 2, .image_height = 256, .image_width = 256, .classes = 4, .width = 0.25}), {});
  }

  // Half of what keep takes, and so little of the host that x is much.
  PrepareOptions options(const char* planner) {
    PrepareOptions options{.planner = "keep", .plan_text = {}, .plan_file = {}, .budgets = {}, .windows = true};
    options.budgets = {.device = prepared(options).program.peak_bytes.device / 2, .host = 9 << 20};
    options.planner = planner;
    return options;
  }
  Prepared prepared(const PrepareOptions& options) { return prepare(training_.graph, *backend_, profile_, options).take(); }

  struct Run {
    std::vector<double> losses;
    std::string parameters;
  };
  // Two steps on slides that are flipped and cropped.
  Run train(Prepared made, bool leave_x_out) {
    const BatchSpec spec = batch_spec_of(training_);
    Loader loader(make_generated_slides("size=300x280,count=4", {.spec = spec, .seed = kSeed}), spec,
                  {.augment = {.flip = true, .crop = true}, .seed = kSeed, .threads = 1});
    if (leave_x_out) loader.leave_out();
    Trainer trainer({training_, std::move(made)}, *backend_, kSeed, {}, {}, true);
    Run run;
    for (int step = 0; step < 2; ++step) {
      const Batch& batch = loader.batch(step);
      EXPECT_EQ(batch.x.empty(), leave_x_out);
      run.losses.push_back(trainer.step(batch, 0.01));
    }
    run.parameters = trainer.parameters_sha256();
    return run;
  }

  StepGraph training_;
  std::unique_ptr<Backend> backend_ = make_backend("cpu", 2);
  Profile profile_{find_device("cpu"), {}};
};

TEST_F(Source, TrainsAsFromMemory) {
  for (const char* const planner : {"overl", "2ps"}) {
    SCOPED_TRACE(planner);
    const Prepared sourced = prepared(options(planner));
    EXPECT_EQ(sourced.plan.home_of(training_.x), Tier::source);
    EXPECT_EQ(sourced.program.peak_bytes.disk, 0);
    std::string text = print_plan(training_.graph, sourced.plan);
    const std::string line = "stream x source\n";
    const std::size_t at = text.find(line);
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(print_plan(training_.graph, parse_plan(training_.graph, text, "test.plan")), text);
    PrepareOptions host = options(planner);
    host.budgets.host = kNoLimit;
    host.plan_text = text.replace(at, line.size(), "stream x host\n");
    host.plan_file = "test.plan";
    const Prepared in_memory = prepared(host);
    EXPECT_EQ(in_memory.plan.home_of(training_.x), Tier::host);

    const Run expected = train(in_memory, false);
    for (const bool leave_x_out : {true, false}) {
      const Run found = train(sourced, leave_x_out);
      EXPECT_EQ(found.losses, expected.losses);
      EXPECT_EQ(found.parameters, expected.parameters);
    }
    // Windows pass through host memory where the device has its own.
    PrepareOptions elsewhere = options(planner);
    elsewhere.budgets.host = kNoLimit;
    elsewhere.plan_text = print_plan(training_.graph, sourced.plan);
    elsewhere.plan_file = "test.plan";
    const Prepared through_host = prepare(training_.graph, *backend_, Profile{find_device("rtx-2080ti-11"), {}}, elsewhere).take();
    EXPECT_GT(through_host.program.peak_bytes.host, sourced.program.peak_bytes.host);
    EXPECT_EQ(train(through_host, true).parameters, expected.parameters);
    // A program that takes x whole reads it whole.
    EXPECT_EQ(train(in_memory, true).parameters, expected.parameters);

    PrepareOptions unlimited = options("keep");
    unlimited.budgets = {};
    const Run kept = train(prepared(unlimited), false);
    for (std::size_t i = 0; i < kept.losses.size(); ++i) EXPECT_NEAR(expected.losses[i], kept.losses[i], 1e-4 * kept.losses[i]);
  }
}

TEST_F(Source, SmallInputsStayInMemory) {
  PrepareOptions whole = options("overl");
  whole.budgets.host = kNoLimit;
  EXPECT_EQ(prepared(whole).plan.home_of(training_.x), Tier::host);
  whole.budgets.host = 9 << 20;  // x takes 8, and a debug build leaves some between
  whole.windows = false;
  EXPECT_EQ(prepared(whole).plan.home_of(training_.x), Tier::host);
}

TEST_F(Source, ErrorsOfTheReaderEndTheStep) {
  const Prepared made = prepared(options("overl"));
  Executor executor(training_.graph, made.program, *backend_);
  EXPECT_TRUE(executor.takes_windows(training_.x));
  EXPECT_FALSE(executor.takes_windows(training_.y));
  const auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const UserError& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_THAT(message([&] { executor.step(); }), HasSubstr("value x of program"));
  EXPECT_THAT(message([&] { executor.source(training_.y, nullptr); }), HasSubstr("labels is not streamed from a source"));
  const std::vector<std::byte> whole(
      static_cast<std::size_t>(training_.graph.value(training_.x).type.elements() * size_of(DType::f32)));
  EXPECT_THAT(message([&] { executor.write(training_.x, whole); }), HasSubstr("x comes from its source window by window"));
  for (const ValueId input : {training_.y, training_.loss_gradient, training_.learning_rate}) {
    const ValueType& type = training_.graph.value(input).type;
    executor.write(input, std::vector<std::byte>(static_cast<std::size_t>(type.elements() * size_of(type.dtype))));
  }
  int calls = 0;
  executor.source(training_.x, [&](const Box&, std::byte*) {
    if (++calls == 3) user_error("slide 7 is torn");
  });
  EXPECT_EQ(message([&] { executor.step(); }), "slide 7 is torn");
}

TEST_F(Source, OnlyInputsHaveOne) {
  const auto message = [&](std::string text) -> std::string {
    try {
      check_plan(training_.graph, parse_plan(training_.graph, text, "test.plan"));
    } catch (const UserError& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_THAT(message("stream loss source\nrest\n"),
              HasSubstr("test.plan: stream loss source: only inputs of the step come from the data"));
  EXPECT_THAT(message("out x source\n"), HasSubstr("expected a tier (host or disk), found 'source'"));
  EXPECT_THAT(message("stream x source\nrest\n"), HasSubstr("which is streamed: only a pass may read it"));
}

}  // namespace
}  // namespace outsize
