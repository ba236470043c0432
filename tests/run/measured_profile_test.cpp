#include "run/measured_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cost/devices.h"
#include "data/file.h"
#include "graph/step_graph.h"
#include "hand_program.h"
#include "model/zoo.h"
#include "run/profile_cache.h"
#include "search/prepare.h"

namespace outsize {
namespace {

Program program_by(const char* planner, const Graph& graph, Backend& backend) {
  return prepare(graph, backend, {}, {.planner = planner, .plan_text = {}, .plan_file = {}, .budgets = {}}).take().program;
}
Program keep_program(const Graph& graph, Backend& backend) { return program_by("keep", graph, backend); }

Call call_of_op(const Graph& graph, std::string_view op, const Program& program) {
  for (const Instruction& instruction : program.instructions)
    if (instruction.action == Action::kernel && graph.op(instruction.op).name == op) return call_of(graph, program, instruction);
  internal_error("no kernel of op {}", op);
}

// Two convolutions, one with 16 times the work of the other.
constexpr std::string_view kTwoSizes = R"(graph two
input small f32[1, 32, 32, 32]
input large f32[1, 32, 128, 128]
param weight f32[32, 32, 3, 3]
first: a = conv2d(small, weight) padding=[1, 1, 1, 1]
second: b = conv2d(large, weight) padding=[1, 1, 1, 1]
output a
output b
)";

TEST(MeasuredProfile, MoreWorkTakesLongerAndNothingIsTimedTwice) {
  const Graph graph = graph_of(kTwoSizes);
  const auto backend = make_backend("cpu", 1);
  const Program program = keep_program(graph, *backend);
  Profile profile;
  EXPECT_EQ(coverage_of(profile, graph, program).name(), "roofline");
  std::vector<std::int64_t> seen;
  MeasureOptions options;
  options.progress = [&](std::int64_t done, std::int64_t all) { seen.insert(seen.end(), {done, all}); };
  EXPECT_EQ(measure(profile, graph, program, *backend, options), 2);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 2, 1, 2}));
  const double small = profile.seconds_of(call_of_op(graph, "first", program));
  const double large = profile.seconds_of(call_of_op(graph, "second", program));
  EXPECT_GT(small, 0);
  EXPECT_GT(large, small);
  EXPECT_EQ(coverage_of(profile, graph, program).name(), "measured");

  profile.disturbed.clear();  // as on a machine that does nothing else
  EXPECT_EQ(measure(profile, graph, program, *backend), 0);
  EXPECT_EQ(profile.seconds_of(call_of_op(graph, "first", program)), small);
}

TEST(MeasuredProfile, WhatWasDisturbedIsTimedAgainAndTheShorterTimeCounts) {
  const Graph graph = graph_of(kTwoSizes);
  const auto backend = make_backend("cpu", 1);
  const Program program = keep_program(graph, *backend);
  const std::string first = signature(call_of_op(graph, "first", program)),
                    second = signature(call_of_op(graph, "second", program));
  Profile profile;
  profile.seconds = {{first, 1000}, {second, 1e-12}};
  profile.disturbed = {first, second};
  EXPECT_EQ(measure(profile, graph, program, *backend), 2);
  EXPECT_LT(profile.seconds[first], 1000);
  EXPECT_EQ(profile.seconds[second], 1e-12);
}

// All kinds of operands: maps and plain values, statistics, indices, masks, keys of random numbers, ops in place.
TEST(MeasuredProfile, EveryOpOfATrainingStepIsTimed) {
  register_ops();
  const ModelOptions image{.batch = 2, .image_height = 32, .image_width = 32, .classes = 5, .width = 0.125};
  const ModelOptions tokens{.batch = 1, .sequence = 8, .classes = 50, .width = 0.125};
  TrainingOptions training;
  training.optimizer = Optimizer::adam;
  MeasureOptions few;
  few.op_seconds = 0;
  for (const char* const kind : {"cpu", "reference"})
    for (const Graph& model : {build_model("resnet18", image), build_model("gpt2", tokens)})
      for (const char* const planner : {"keep", "zero-offload"}) {  // on the device, and partly on the host
        const StepGraph step = make_step_graph(model, StepKind::whole, training);
        const auto backend = make_backend(kind, 1);
        const Program program = program_by(planner, step.graph, *backend);
        Profile profile;
        measure(profile, step.graph, program, *backend, few);
        const Coverage coverage = coverage_of(profile, step.graph, program);
        EXPECT_EQ(coverage.measured, coverage.ops) << model.name << " on " << kind << " by " << planner;
        for (const auto& [key, seconds] : profile.seconds) EXPECT_GT(seconds, 0) << key;
      }
}

// Beside a card, updates on the host are another processor's work: they are neither timed on the card nor counted as its ops.
TEST(MeasuredProfile, WhatRunsOnTheHostBesideACardIsNotTimed) {
  register_ops();
  const ModelOptions image{.batch = 2, .image_height = 8, .image_width = 8, .classes = 5, .width = 0.05};
  const StepGraph step = make_step_graph(build_model("mlp", image), StepKind::whole, {});
  const auto backend = make_backend("cpu", 1);
  const Program program = program_by("zero-offload", step.graph, *backend);
  const auto updates = [](const Profile& profile) {
    return std::ranges::count_if(profile.seconds, [](const auto& entry) { return entry.first.starts_with("sgd"); });
  };
  MeasureOptions few;
  few.op_seconds = 0;
  Profile host, card;
  card.device.host_bandwidth = 1e10;
  measure(host, step.graph, program, *backend, few);
  measure(card, step.graph, program, *backend, few);
  EXPECT_GT(updates(host), 0);
  EXPECT_EQ(updates(card), 0);
  EXPECT_EQ(host.seconds.size() - card.seconds.size(), static_cast<std::size_t>(updates(host)));
  EXPECT_EQ(coverage_of(card, step.graph, program).name(), "measured");
}

TEST(MeasuredProfile, TimeAndMemoryAreBounded) {
  const Graph graph = graph_of(kTwoSizes);
  const auto backend = make_backend("cpu", 1);
  const Program program = keep_program(graph, *backend);
  Profile profile;
  MeasureOptions options;
  options.seconds = 0;
  EXPECT_EQ(measure(profile, graph, program, *backend, options), 0);
  options.seconds = 30;
  options.free_bytes = 1;
  EXPECT_EQ(measure(profile, graph, program, *backend, options), 0);
}

// Convolutions of 0.38 to 0.75 ms by the roofline of 10¹¹ operations a second: 2 · 9 · 32 · 32 of them a pixel.
constexpr std::string_view kFourSizes = R"(graph four
input a f32[1, 32, 32, 64]
input b f32[1, 32, 32, 80]
input c f32[1, 32, 32, 96]
input d f32[1, 32, 32, 128]
param weight f32[32, 32, 3, 3]
first: p = conv2d(a, weight) padding=[1, 1, 1, 1]
second: q = conv2d(b, weight) padding=[1, 1, 1, 1]
third: r = conv2d(c, weight) padding=[1, 1, 1, 1]
fourth: s = conv2d(d, weight) padding=[1, 1, 1, 1]
output p, q, r, s
)";

// A profile that has measured ops of a program at so many times their roofline, and learns from that alone.
Profile measured_at(const Graph& graph, const Program& program, Backend& backend,
                    const std::vector<std::pair<std::string_view, double>>& ratios) {
  Profile profile;
  for (const auto& [op, ratio] : ratios) {
    const Call call = call_of_op(graph, op, program);
    profile.seconds[signature(call)] = ratio * roofline_seconds(profile.device, call);
  }
  MeasureOptions options;
  options.seconds = 0;
  measure(profile, graph, program, backend, options);
  return profile;
}

TEST(MeasuredProfile, WhatIsNotTimedIsScaledAsItsKind) {
  const Graph graph = graph_of(kFourSizes);
  const auto backend = make_backend("cpu", 1);
  const Program program = keep_program(graph, *backend);
  const Profile profile = measured_at(graph, program, *backend, {{"first", 2}, {"second", 3}, {"third", 500}});
  const Call fourth = call_of_op(graph, "fourth", program);
  EXPECT_DOUBLE_EQ(profile.seconds_of(fourth), 3 * roofline_seconds(profile.device, fourth));
  const Coverage coverage = coverage_of(profile, graph, program);
  EXPECT_EQ(coverage.name(), "partly");
  EXPECT_EQ(coverage.scaled, 1);
  ASSERT_EQ(coverage.scales.size(), 1U);
  EXPECT_DOUBLE_EQ(coverage.scales.at("conv2d").ratio, 3);
  EXPECT_EQ(coverage.scales.at("conv2d").ops, 3);
}

TEST(MeasuredProfile, TooFewOpsScaleNothing) {
  const Graph graph = graph_of(kFourSizes);
  const auto backend = make_backend("cpu", 1);
  const Program program = keep_program(graph, *backend);
  const Profile profile = measured_at(graph, program, *backend, {{"first", 2}, {"second", 3}});
  const Call fourth = call_of_op(graph, "fourth", program);
  EXPECT_DOUBLE_EQ(profile.seconds_of(fourth), roofline_seconds(profile.device, fourth));
  EXPECT_EQ(coverage_of(profile, graph, program).scaled, 0);
}

TEST(MeasuredProfile, WhatWasDisturbedScalesNothing) {
  const Graph graph = graph_of(kFourSizes);
  const auto backend = make_backend("cpu", 1);
  const Program program = keep_program(graph, *backend);
  Profile profile;
  for (const char* const op : {"first", "second", "third"}) {
    const Call call = call_of_op(graph, op, program);
    profile.seconds[signature(call)] = 5 * roofline_seconds(profile.device, call);
    profile.disturbed.insert(signature(call));
  }
  MeasureOptions options;
  options.seconds = 0;
  measure(profile, graph, program, *backend, options);
  EXPECT_TRUE(profile.scale.empty());
}

// Layers of a few microseconds by their roofline, of which calling them takes most.
TEST(MeasuredProfile, TheLayersOfASmallNetworkScaleNothing) {
  const Graph graph = graph_of(R"(graph layers
input x f32[64, 64]
input large f32[64, 4096]
param w1 f32[10, 64]
param w2 f32[20, 64]
param w3 f32[30, 64]
param w4 f32[4096, 4096]
first: a = linear(x, w1)
second: b = linear(x, w2)
third: c = linear(x, w3)
fourth: d = linear(large, w4)
output a, b, c, d
)");
  const auto backend = make_backend("cpu", 1);
  const Program program = keep_program(graph, *backend);
  const Profile profile = measured_at(graph, program, *backend, {{"first", 279}, {"second", 279}, {"third", 279}});
  const Call fourth = call_of_op(graph, "fourth", program);
  EXPECT_DOUBLE_EQ(profile.seconds_of(fourth), roofline_seconds(profile.device, fourth));
}

class ProfileCache : public testing::Test {
 protected:
  ProfileCache() {
    folder_ = std::filesystem::temp_directory_path() / ("outsize_profile_" + std::to_string(::getpid()));
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
    on_.machine.processor = "processor";
    on_.backend = "cpu";
    on_.libraries = "library 1.2";
    on_.version = "0.1";
    profile_.device = find_device("cpu");
    profile_.device.flops = 123;
    profile_.scale["relu"] = {2, 5};
    profile_.scale["exp"] = {2, 9};
    profile_.seconds["relu : f32[4] -> f32[4]"] = 0.5;
  }
  ~ProfileCache() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
  MeasuredOn on_;
  Profile profile_;
};

TEST_F(ProfileCache, HasAFileForEachMachineBackendAndVersion) {
  const std::string path = profile_cache_path(on_);
  EXPECT_EQ(path.find((folder_ / "outsize" / "profile-").string()), 0U) << path;
  EXPECT_EQ(profile_cache_path(on_), path);
  MeasuredOn other = on_;
  other.threads = 2;
  EXPECT_NE(profile_cache_path(other), path);
  other = on_;
  other.backend = "reference";
  EXPECT_NE(profile_cache_path(other), path);
  other = on_;
  other.libraries = "library 1.3";
  EXPECT_NE(profile_cache_path(other), path);
  other = on_;
  other.version = "0.2";
  EXPECT_NE(profile_cache_path(other), path);
  // A relative name counts as none.
  setenv("XDG_CACHE_HOME", "here", 1);
  setenv("HOME", "/home/somebody", 1);
  EXPECT_EQ(profile_cache_path(on_).find("/home/somebody/.cache/outsize/profile-"), 0U);
}

TEST_F(ProfileCache, RoundTripsAndMerges) {
  const std::string path = profile_cache_path(on_);
  EXPECT_FALSE(read_profile_cache(path));
  write_profile_cache(path, on_, profile_);
  profile_.seconds["exp : f32[4] -> f32[4]"] = 0.125;
  profile_.disturbed = {"relu : f32[4] -> f32[4]", "exp : f32[4] -> f32[4]"};
  write_profile_cache(path, on_, profile_);
  Profile other;
  other.device.flops = 456;
  other.seconds["exp : f32[4] -> f32[4]"] = 0.0625;  // and calm
  other.seconds["add : f32[4] f32[4] -> f32[4]"] = 0.25;
  other.scale["relu"] = {3, 5};
  other.scale["exp"] = {3, 8};  // rests on fewer ops
  write_profile_cache(path, on_, other);
  EXPECT_NE(read_text(path).find("# processor, "), std::string::npos);
  const std::optional<Profile> back = read_profile_cache(path);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->device.flops, 456);
  EXPECT_EQ(back->scale, (std::unordered_map<std::string, Scale>{{"relu", {3, 5}}, {"exp", {2, 9}}}));
  EXPECT_EQ(back->seconds,
            (std::unordered_map<std::string, double>{
                {"relu : f32[4] -> f32[4]", 0.5}, {"exp : f32[4] -> f32[4]", 0.0625}, {"add : f32[4] f32[4] -> f32[4]", 0.25}}));
  EXPECT_EQ(back->disturbed, (std::unordered_set<std::string>{"relu : f32[4] -> f32[4]"}));
}

TEST_F(ProfileCache, WhatCannotBeReadIsToldOnceAndReplaced) {
  const std::string path = profile_cache_path(on_);
  std::filesystem::create_directories(folder_ / "outsize");
  std::ofstream(path) << "device flops=often\n";
  testing::internal::CaptureStderr();
  EXPECT_FALSE(read_profile_cache(path));
  write_profile_cache(path, on_, profile_);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(told, '\n'), 1) << told;
  EXPECT_NE(told.find(path + ":1: flops must be above 0"), std::string::npos) << told;
  EXPECT_TRUE(read_profile_cache(path));
}

TEST_F(ProfileCache, WhatCannotBeWrittenIsTold) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "outsize") << "a file where a directory should be";
  testing::internal::CaptureStderr();
  write_profile_cache(profile_cache_path(on_), on_, profile_);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(told, '\n'), 1) << told;
  EXPECT_NE(told.find("cannot be written"), std::string::npos) << told;
}

}  // namespace
}  // namespace outsize
