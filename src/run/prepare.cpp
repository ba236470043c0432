#include "run/prepare.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>

#include "program/lower.h"
#include "run/simulator.h"

namespace outsize {

namespace {

constexpr int kAttempts = 12;
constexpr std::int64_t kLess = 16;  // a planner that refuses is asked again with a sixteenth less

// The persistent values that the run keeps in lower tiers.
std::map<std::string, Tier> homes_of(const PersistentLayout* layout) {
  std::map<std::string, Tier> homes;
  if (layout)
    for (const auto& [name, place] : layout->places)
      if (place.tier != Tier::device) homes.emplace(name, place.tier);
  return homes;
}

Plan make_plan(const Graph& graph, Backend& backend, const Profile& profile, const PrepareOptions& options,
               std::int64_t device_budget) {
  if (!options.plan_text.empty()) return parse_plan(graph, options.plan_text, options.plan_file);
  const PlanRequest request{.graph = graph,
                            .profile = profile,
                            .storage = backend.storage(),
                            .device_budget = device_budget,
                            .host_budget = options.budgets.host,
                            .disk_budget = options.budgets.disk,
                            .homes = homes_of(options.layout),
                            .spill = options.budgets.spill,
                            .workspace = [&backend](const Call& call) { return backend.kernel(call)->workspace_bytes(); }};
  return find_planner(options.planner).make(request);
}

Program make_program(const Graph& graph, const Plan& plan, Backend& backend, const PrepareOptions& chosen) {
  const Budgets& budgets = chosen.budgets;
  LowerOptions options;
  options.storage = backend.storage();
  options.canary_bytes = kCanaryBytes;
  options.workspace = [&backend](const Call& call) { return backend.kernel(call)->workspace_bytes(); };
  options.device_budget = budgets.device;
  options.host_budget = budgets.host;
  options.disk_budget = budgets.disk;
  options.layout = chosen.layout;
  return lower(graph, plan, options);
}

// The number in a line such as "MemAvailable:   123 kB" of a file, or the first number of the file when `key` is empty.
std::int64_t number_in(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    if (!key.empty() && word != key) continue;
    if (!key.empty() && !(file >> word)) break;
    return word.find_first_not_of("0123456789") == std::string::npos ? std::stoll(word) : -1;
  }
  return -1;
}

std::int64_t repetitions(const Program& program, std::size_t instruction) {
  for (const Loop& loop : program.loops)
    if (static_cast<std::size_t>(loop.begin) <= instruction && instruction < static_cast<std::size_t>(loop.end)) return loop.count;
  return 1;
}

bool moves_between_tiers(Action action) {
  return action == Action::copy_out || action == Action::copy_in || action == Action::disk_out || action == Action::disk_in;
}

}  // namespace

Prepared prepare(const Graph& graph, Backend& backend, const Profile& profile, const PrepareOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  Prepared prepared;
  std::int64_t asked = options.budgets.device;
  std::optional<BudgetError> refusal;  // the nearest miss so far
  for (int attempt = 1;; ++attempt) {
    std::int64_t missing = 0;
    try {
      Plan plan = make_plan(graph, backend, profile, options, asked);
      if (attempt > 1 && plan.steps == prepared.plan.steps) attempt = kAttempts;  // it does not care what it is given
      prepared.plan = std::move(plan);
    } catch (const BudgetError& error) {
      if (!refusal) refusal = error;  // a refusal of less than the user's budget would state the wrong bytes
      missing = error.missing_bytes();
    }
    try {
      if (missing == 0) {
        prepared.program = make_program(graph, prepared.plan, backend, options);
        break;
      }
    } catch (const UserError& error) {
      if (options.plan_text.empty())
        internal_error("planner {} made a plan that does not check: {}", options.planner, error.what());
      user_error("{}: {}", options.plan_file, error.what());
    } catch (const BudgetError& error) {
      if (!refusal || error.missing_bytes() < refusal->missing_bytes()) refusal = error;
      missing = error.missing_bytes();
    }
    // A planner sums live bytes, and packing them leaves gaps; and a plan made for less may fit where one made for more does not.
    asked -= std::max({missing, asked / kLess, std::int64_t{1}});
    if (!options.plan_text.empty() || asked <= 0 || attempt == kAttempts) throw *refusal;
  }
  prepared.predicted = simulate(graph, prepared.program, profile);
  prepared.plan_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return prepared;
}

PlanFigures figures_of(const Prepared& prepared) {
  PlanFigures figures;
  const Program& program = prepared.program;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.action == Action::kernel && instruction.recompute) figures.recomputed_ops += repetitions(program, i);
    if (!moves_between_tiers(instruction.action)) continue;
    const Operand& moved = instruction.reads[0];
    figures.swapped_bytes +=
        repetitions(program, i) * stored_bytes(program.storage, program.piece(moved.piece).type, moved.box.shape());
  }
  for (const Pass& pass : prepared.plan.passes) {
    std::int64_t tiles = 1;
    for (const auto& cuts : pass.cuts) tiles *= static_cast<std::int64_t>(cuts.size()) + 1;
    figures.tiles += tiles;
  }
  return figures;
}

double op_seconds(const Graph& graph, const Op& op, const Profile& profile) {
  const OpSite site{graph, op};
  CallBoxes boxes;
  for (ValueId input : op.inputs) boxes.in.push_back(Box::whole(graph.value(input).type.shape));
  for (ValueId output : op.outputs) boxes.out.push_back(Box::whole(graph.value(output).type.shape));
  const Box owned = boxes.in.empty() ? Box() : boxes.in[static_cast<std::size_t>(op.def->push_driver(site))];
  return profile.seconds_of({site, boxes, owned});
}

double lower_bound_seconds(const Graph& graph, const Profile& profile) {
  double seconds = 0;
  for (const Op& op : graph.ops()) seconds += op_seconds(graph, op, profile);
  return seconds;
}

std::int64_t free_device_bytes() {
  std::int64_t bytes = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  if (const std::int64_t kibibytes = number_in("/proc/meminfo", "MemAvailable:"); kibibytes > 0)
    bytes = std::min(bytes, kibibytes * 1024);
  // A container may be allowed less than the machine has.
  const std::int64_t limit = number_in("/sys/fs/cgroup/memory.max", ""), used = number_in("/sys/fs/cgroup/memory.current", "");
  if (limit > 0 && used > 0) bytes = std::min(bytes, std::max<std::int64_t>(limit - used, 0));
  return bytes;
}

std::string default_planner() {
  const std::vector<Planner>& all = planners();
  const bool has_auto = std::any_of(all.begin(), all.end(), [](const Planner& planner) { return planner.name == "auto"; });
  return has_auto ? "auto" : std::string(all.front().name);
}

}  // namespace outsize
