// How many instructions a second lowering makes of plans, phase by phase: `lower_bench [REPETITIONS [MODEL]]`. Seconds are the
// thread's own, so that other processes count only by the caches they share.
#include <cstdio>
#include <ctime>

#include "backend/interface.h"
#include "cost/devices.h"
#include "graph/step_graph.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/reckon/lives.h"
#include "program/lower.h"
#include "search/prepare.h"

namespace outsize {
namespace {

struct Case {
  const char* model;
  ModelOptions options;
  const char* planner;
  int percent;  // of what keep needs
};

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void measure(const Case& c, int repetitions) {
  const StepGraph step = make_training_graph(build_model(c.model, c.options), {});
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  const Profile profile{find_device("cpu"), {}};
  PrepareOptions options;
  options.planner = "keep";
  options.budgets.device = prepare(step.graph, *backend, profile, options).take().program.peak_bytes.device * c.percent / 100;
  options.planner = c.planner;
  const Prepared prepared = prepare(step.graph, *backend, profile, options).take();

  LowerOptions lowering;
  lowering.storage = backend->storage();
  lowering.workspace = [&](const Call& call) { return backend->kernel(call)->workspace_bytes(); };
  // As prepare() has them from the planner.
  const OpCosts costs =
      costs_of({.graph = step.graph, .profile = profile, .storage = lowering.storage, .workspace = lowering.workspace});
  lowering.whole_workspace = &costs.workspace;
  lowering.budgets.device = options.budgets.device;
  std::vector<std::pair<std::string, double>> phases;
  double last = 0;
  const auto end_of = [&](std::string_view phase) {
    const double now = thread_seconds();
    phases.emplace_back(phase, now - last);
    last = now;
  };
  lowering.observe = [&](std::string_view phase, const Program&) { end_of(phase); };
  double best = 0;
  std::string text;
  for (int k = 0; k < repetitions; ++k) {
    phases.clear();
    const double begin = last = thread_seconds();
    const Program program = lower(step.graph, prepared.plan, lowering).take();
    end_of("check");
    const double rate = static_cast<double>(program.instructions.size()) / (last - begin);
    if (rate <= best) continue;
    best = rate;
    text.clear();
    for (const auto& [phase, seconds] : phases) text += fmt::format("  {} {:.1f} ms", phase, 1e3 * seconds);
  }
  std::printf("%-14s %-14s %3d %%  %7zu instructions  %9.0f a second %s\n", c.model, c.planner, c.percent,
              prepared.program.instructions.size(), best, text.c_str());
}

}  // namespace
}  // namespace outsize

int main(int count, char** arguments) {
  using namespace outsize;
  register_ops();
  const int repetitions = count > 1 ? std::atoi(arguments[1]) : 5;
  const ModelOptions images{.batch = 32, .image_height = 64, .image_width = 64};
  const Case cases[]{{"resnet50", images, "keep", 100},
                     {"resnet152", images, "dynprog", 80},
                     {"resnet1001", {.batch = 16}, "greedy", 70},
                     {"densenet201", images, "vdnn-all", 90},
                     {"gpt2-xl", {.batch = 1, .sequence = 64}, "fairscale", 60}};
  const std::string_view model = count > 2 ? arguments[2] : "";
  for (const Case& c : cases)
    if (model.empty() || model == c.model) measure(c, repetitions);
}
