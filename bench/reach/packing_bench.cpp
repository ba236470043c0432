// What bench/reach/packing.py asks.
//   packing_bench pack FILE UNIT CAPACITY EFFORT       packs the lifetimes of a file (id,lower,upper,size), quick or thorough
//   packing_bench price MODEL IMAGE BATCH DEVICE PLANNERS BYTES…   the step as each planner's plan has it, and once it is packed
// Seconds of the packer are those of the thread's processor time.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

#include "backend/interface.h"
#include "cost/devices.h"
#include "graph/step_graph.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/reckon/lives.h"
#include "program/lower.h"
#include "program/offsets.h"
#include "program/simulator.h"
#include "search/prepare.h"

namespace outsize {
namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int pack_file(char** arguments) {
  std::ifstream in(arguments[0]);
  const std::int64_t unit = std::atoll(arguments[1]), capacity = std::atoll(arguments[2]);
  const Effort effort = arguments[3] == std::string_view("thorough") ? Effort::thorough : Effort::quick;
  std::string line;
  std::getline(in, line);
  std::vector<Lifetime> lives;
  char comma = 0;
  for (std::int64_t id = 0, lower = 0, upper = 0, size = 0; in >> id >> comma >> lower >> comma >> upper >> comma >> size;)
    lives.push_back({size * unit, lower, upper - 1});
  const double begin = thread_seconds();
  const Packing packing = pack(lives, capacity * unit, effort);
  const double seconds = thread_seconds() - begin;
  std::printf("%zu %lld %lld %lld %.3f\n", lives.size(), static_cast<long long>(largest_live_sum(lives)),
              static_cast<long long>(packing.peak), static_cast<long long>(packing.looks), seconds);
  return 0;
}

// The step of the planner's first plan, packed as low as can be but into whatever that takes.
double unpacked_seconds(const Graph& graph, Target& target, const Profile& profile, const PrepareOptions& options) {
  PlanRequest request{.graph = graph,
                      .profile = profile,
                      .storage = target.storage(),
                      .budgets = options.budgets,
                      .workspace = [&](const Call& call) { return target.workspace_bytes(call); }};
  const OpCosts costs = costs_of(request);
  request.costs = &costs;
  const Planned<Plan> plan = find_planner(options.planner).make(request);
  if (!plan) return 0;
  LowerOptions lowering;
  lowering.storage = request.storage;
  lowering.workspace = request.workspace;
  lowering.whole_workspace = &costs.workspace;
  lowering.chosen_workspace = [&](const Call& call, std::string_view name) { return target.workspace_bytes(call, name); };
  lowering.budgets.host = options.budgets.host;
  const Planned<Program> program = lower(graph, *plan, lowering);
  return program ? simulate(graph, *program, profile).seconds : 0;
}

int price(int count, char** arguments) {
  register_ops();
  const std::int64_t image = std::atoll(arguments[1]);
  ModelOptions model;
  model.batch = std::atoll(arguments[2]);
  model.image_height = image;
  model.image_width = image;
  const StepGraph step = make_training_graph(build_model(arguments[0], model), {});
  const Profile profile{find_device(arguments[3]), {}};
  const std::unique_ptr<Backend> backend = make_backend("cpu", 1);
  std::vector<std::string> planners;
  std::istringstream names(arguments[4]);
  for (std::string name; std::getline(names, name, ',');) planners.push_back(name);
  for (int k = 5; k < count; ++k)
    for (const std::string& planner : planners) {
      PrepareOptions options;
      options.planner = planner;
      options.budgets.device = std::atoll(arguments[k]);
      const double estimate = unpacked_seconds(step.graph, *backend, profile, options);
      const double begin = thread_seconds();
      const Planned<Prepared> prepared = prepare(step.graph, *backend, profile, options);
      const double seconds = thread_seconds() - begin;
      std::printf("%s %s %.6f %.6f %.3f\n", arguments[k], planner.c_str(), estimate, prepared ? prepared->predicted.seconds : 0,
                  seconds);
      std::fflush(stdout);
    }
  return 0;
}

}  // namespace
}  // namespace outsize

int main(int count, char** arguments) {
  const std::string_view mode = count > 1 ? arguments[1] : "";
  if (mode == "pack" && count == 6) return outsize::pack_file(arguments + 2);
  if (mode == "price" && count > 7) return outsize::price(count - 2, arguments + 2);
  std::fprintf(stderr, "packing_bench pack FILE UNIT CAPACITY EFFORT | price MODEL IMAGE BATCH DEVICE PLANNERS BYTES…\n");
  return 2;
}
