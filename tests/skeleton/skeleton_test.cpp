// The skeleton: hand-written plans that swap, recompute, tile, share and stream one small network must train as `keep` does.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "../step_runs.h"
#include "graph/text.h"
#include "ops/registry.h"
#include "plan/planner.h"

namespace outsize {
namespace {

std::string read_file(const std::string& name) {
  std::ifstream file(OUTSIZE_TESTS "/skeleton/" + name);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

std::string in_f64(std::string text) {
  for (std::size_t at = text.find("f32"); at != std::string::npos; at = text.find("f32", at)) text.replace(at, 3, "f64");
  return text;
}

struct Case {
  std::string graph;
  std::string plan;
  bool bitwise = false;
  std::string backend;
  DType dtype = DType::f32;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.graph << " " << c.plan << " " << c.backend << " " << name_of(c.dtype);
  }
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const char* graph : {"skeleton", "strided"})
    for (const char* plan : {"b-swap-host", "b-swap-disk", "b-update-host", "b-update-disk", "c-recompute", "d-rows-overlap",
                             "e1-rows-share-down", "e2-rows-share-up", "f-tiles-2d", "g-streamed-input", "h-all-at-once"}) {
      const bool bitwise = plan[0] == 'b' || plan[0] == 'c';
      cases.push_back({graph, plan, bitwise, "reference", DType::f64});
      cases.push_back({graph, plan, bitwise, "reference", DType::f32});
      cases.push_back({graph, plan, bitwise, "cpu", DType::f32});
    }
  for (const auto& [backend, dtype] :
       {std::pair("reference", DType::f64), std::pair("reference", DType::f32), std::pair("cpu", DType::f32)}) {
    cases.push_back({"clipped", "i-rows-clipped", false, backend, dtype});
    for (const char* plan : {"j-norms-again", "k-norms-once"}) cases.push_back({"norms", plan, false, backend, dtype});
  }
  return cases;
}

class Skeleton : public testing::TestWithParam<Case> {
 protected:
  static StepGraph make(const Case& c) {
    register_ops();
    std::string text = read_file(c.graph + ".graph");
    if (c.dtype == DType::f64) text = in_f64(text);
    TrainingOptions options;
    options.gradients = true;
    return make_training_graph(parse_graph(text, c.graph), options);
  }
  static Plan keep(const StepGraph& training, Backend& backend) {
    const Profile profile{find_device("cpu"), {}};
    return find_planner("keep").make({training.graph, profile, backend.storage()}).take();
  }
};

TEST_P(Skeleton, TrainsAsKeepDoes) {
  const Case c = GetParam();
  const StepGraph training = make(c);
  const std::unique_ptr<Backend> backend = make_backend(c.backend, 2);
  const Outcome kept = train(training, keep(training, *backend), *backend, true, 0);
  const Plan plan = parse_plan(training.graph, read_file(c.plan + ".plan"), c.plan);

  // The text form says all there is to say.
  const std::string text = print_plan(training.graph, plan);
  EXPECT_EQ(print_plan(training.graph, parse_plan(training.graph, text, "printed")), text);

  for (const bool loops : {true, false}) {
    const Outcome planned = train(training, plan, *backend, loops, 256);
    SCOPED_TRACE(loops ? "in loops" : "unrolled");
    EXPECT_TRUE(loops || planned.program.loops.empty());
    expect_close(training.graph, planned, kept, c.dtype == DType::f64 ? 1e-9 : 1e-4);
    EXPECT_TRUE(!c.bitwise || planned.results == kept.results) << "bits differ";
  }
}

// What a pass cannot be driven by is refused, never computed wrongly.
TEST(SkeletonRefuses, ReductionsAndChannelsAsDrivers) {
  register_ops();
  const StepGraph training = make_training_graph(parse_graph(read_file("skeleton.graph"), "skeleton"), {});
  const std::unique_ptr<Backend> backend = make_backend("reference", 1);
  LowerOptions options;
  options.storage = backend->storage();
  const auto refusal = [&](const std::string& plan) -> std::string {
    try {
      lower(training.graph, parse_plan(training.graph, plan, "bad.plan"), options).take();
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(refusal("run shortcut\npass r.a driver=stats grid=[2, 1] ops=[conv1, bn.stats]\nrest\n").find("result of a reduction"),
            std::string::npos);
  EXPECT_NE(
      refusal("until conv1\npass r.a driver=y grid=[1, 1, 2, 1] ops=[conv1, bn.stats, bn.finalize]\nrest\n").find("complete only"),
      std::string::npos);
  // Whole blocks of channels can be cut, parts of them cannot.
  options.storage = make_backend("cpu", 1)->storage();
  EXPECT_NE(refusal("until conv1\npass r.a driver=y grid=[1, 8, 1, 1] ops=[conv1]\nrest\n").find("channels of y"),
            std::string::npos);
}

TEST(SkeletonRefuses, HostRunsThatCannotBe) {
  register_ops();
  const StepGraph training = make_training_graph(parse_graph(read_file("skeleton.graph"), "skeleton"), {});
  const auto refusal = [&](const std::string& text) -> std::string {
    try {
      check_plan(training.graph, parse_plan(training.graph, text, "bad.plan"));
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal("run shortcut host\n"), "bad.plan:1: op shortcut is no update: only updates run on the host");
  EXPECT_EQ(refusal("until fc.weight.sgd\nrun fc.weight.sgd disk\n"),
            "bad.plan:2: op fc.weight.sgd cannot run on disk; expected host, or nothing for the device");
  EXPECT_NE(refusal("until fc.weight.sgd\nrun fc.weight.sgd host\n").find("reads fc.weight, which is not there; `out` it before"),
            std::string::npos);
  EXPECT_EQ(refusal("stream fc.weight host\nin fc.weight\nout fc.weight host\n"),
            "bad.plan:3: out fc.weight: it lives on host and is there already");
  EXPECT_NE(refusal("until fc.weight.sgd\nout fc.weight host\nout fc.grad_weight host\nout learning_rate host\n"
                    "out fc.weight.momentum host\nrun fc.weight.sgd host\n")
                .find("updates fc.weight, which lives on the device; `stream` it"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Plans, Skeleton, testing::ValuesIn(all_cases()), [](const auto& tested) {
  std::string name =
      tested.param.graph + "_" + tested.param.plan + "_" + tested.param.backend + "_" + std::string(name_of(tested.param.dtype));
  for (char& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  return name;
});

}  // namespace
}  // namespace outsize
