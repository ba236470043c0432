// What bench/reach/packing.py asks.
//   packing_bench pack FILE UNIT CAPACITY EFFORT       packs the lifetimes of a file (id,lower,upper,size), quick or thorough
//   packing_bench price MODEL IMAGE BATCH DEVICE PLANNERS PERCENT…   the step as each planner's plan has it, and once it is
//                                                      packed, within so much of what keep takes
// Seconds of the packer are those of the thread's processor time.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
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
#include "program/waits.h"
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

// A program whose pieces need not lie in one: memory is a sum of bytes. Those that were free the longest are taken first, and who
// takes them waits until nobody uses them any more. Only that and the flow of data is waited for.
class InBytes {
 public:
  InBytes(Program program, std::int64_t budget) : program_(std::move(program)), untouched_(align_up(budget, kAlignment)) {}

  Program run() {
    wait_for_data_alone();
    find_accesses();
    const auto count = program_.instructions.size();
    std::vector<std::vector<std::size_t>> begin(count), end(count);
    for (std::size_t p = 0; p < program_.pieces.size(); ++p) {
      const Piece& piece = program_.pieces[p];
      if (!is_block(p)) continue;
      if (piece.persistent) {
        untouched_ -= align_up(piece.bytes, kAlignment);
        continue;
      }
      begin[static_cast<std::size_t>(piece.first)].push_back(p);
      end[static_cast<std::size_t>(last_[p])].push_back(p);
    }
    for (std::size_t i = 0; i < count; ++i) {
      for (const std::size_t p : begin[i]) take(align_up(program_.pieces[p].bytes, kAlignment), program_.instructions[i]);
      for (const std::size_t p : end[i]) free_.push_back({align_up(program_.pieces[p].bytes, kAlignment), p});
    }
    return std::move(program_);
  }

 private:
  struct Free {
    std::int64_t bytes;
    std::size_t piece;  // who had them
  };

  std::size_t root_of(std::size_t p) const {
    while (program_.pieces[p].shares) p = static_cast<std::size_t>(program_.pieces[p].shares.index);
    return p;
  }
  // One that takes over no other's bytes.
  bool is_block(std::size_t p) const {
    const Piece& piece = program_.pieces[p];
    return piece.tier == Tier::device && piece.first >= 0 && piece.bytes > 0 && !piece.shares;
  }

  void wait_for_data_alone() {
    std::int64_t end = 0;
    for (std::size_t p = 0; p < program_.pieces.size(); ++p)
      if (is_block(p)) {
        program_.pieces[p].offset = end;
        end += align_up(program_.pieces[p].bytes, kAlignment);
      }
    for (std::size_t p = 0; p < program_.pieces.size(); ++p)
      if (program_.pieces[p].shares) program_.pieces[p].offset = program_.pieces[root_of(p)].offset;
    for (Instruction& one : program_.instructions) one.waits.clear();
    derive_waits(program_);
  }

  // By block and lane, its last instruction that touches it.
  void find_accesses() {
    accesses_.assign(program_.pieces.size(), {});
    last_.assign(program_.pieces.size(), -1);
    std::array<std::int64_t, kLanes> issued{};
    for (const Instruction& one : program_.instructions) {
      const auto lane = static_cast<std::size_t>(one.lane);
      ++issued[lane];
      const auto touch = [&](PieceId id) { accesses_[root_of(static_cast<std::size_t>(id.index))][lane] = issued[lane]; };
      for (const Operand& operand : one.reads) touch(operand.piece);
      for (const Operand& operand : one.writes) touch(operand.piece);
      if (one.workspace) touch(one.workspace);
    }
    for (std::size_t p = 0; p < program_.pieces.size(); ++p)
      last_[root_of(p)] = std::max(last_[root_of(p)], program_.pieces[p].last);
  }

  void take(std::int64_t bytes, Instruction& taker) {
    const std::int64_t fresh = std::min(untouched_, bytes);
    untouched_ -= fresh;
    for (bytes -= fresh; bytes > 0 && !free_.empty();) {
      Free& oldest = free_.front();
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        if (const std::int64_t used = accesses_[oldest.piece][lane]; used > 0 && lane != static_cast<std::size_t>(taker.lane))
          taker.waits.push_back({static_cast<Lane>(lane), used, 0});
      const std::int64_t taken = std::min(bytes, oldest.bytes);
      bytes -= taken;
      oldest.bytes -= taken;
      if (oldest.bytes == 0) free_.pop_front();
    }
  }

  Program program_;
  std::int64_t untouched_;
  std::vector<std::array<std::int64_t, kLanes>> accesses_;
  std::vector<std::int32_t> last_;
  std::deque<Free> free_;
};

struct Unpacked {
  double anywhere = 0;  // packed as low as can be, but into whatever that takes
  double in_bytes = 0;  // within the budget, were memory a sum of bytes; 0: not known, of plans with loops
};

// The step of the planner's first plan.
Unpacked unpacked_seconds(const Graph& graph, Target& target, const Profile& profile, const PrepareOptions& options) {
  PlanRequest request{.graph = graph,
                      .profile = profile,
                      .storage = target.storage(),
                      .budgets = options.budgets,
                      .workspace = [&](const Call& call) { return target.workspace_bytes(call); }};
  const OpCosts costs = costs_of(request);
  request.costs = &costs;
  const Planned<Plan> plan = find_planner(options.planner).make(request);
  if (!plan) return {};
  LowerOptions lowering;
  lowering.storage = request.storage;
  lowering.workspace = request.workspace;
  lowering.whole_workspace = &costs.workspace;
  lowering.chosen_workspace = [&](const Call& call, std::string_view name) { return target.workspace_bytes(call, name); };
  lowering.budgets.host = options.budgets.host;
  const Planned<Program> program = lower(graph, *plan, lowering);
  if (!program) return {};
  Unpacked unpacked{.anywhere = simulate(graph, *program, profile).seconds};
  if (program->loops.empty()) unpacked.in_bytes = simulate(graph, InBytes(*program, options.budgets.device).run(), profile).seconds;
  return unpacked;
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
  PrepareOptions whole;
  whole.planner = "keep";
  const std::int64_t keep_bytes = prepare(step.graph, *backend, profile, whole).take().program.peak_bytes.device;
  for (int k = 5; k < count; ++k)
    for (const std::string& planner : planners) {
      PrepareOptions options;
      options.planner = planner;
      options.budgets.device = keep_bytes / 100 * std::atoll(arguments[k]);
      const Unpacked unpacked = unpacked_seconds(step.graph, *backend, profile, options);
      const double begin = thread_seconds();
      const Planned<Prepared> prepared = prepare(step.graph, *backend, profile, options);
      const double seconds = thread_seconds() - begin;
      std::printf("%s %lld %s %.6f %.6f %.6f %.3f\n", arguments[k], static_cast<long long>(options.budgets.device), planner.c_str(),
                  unpacked.anywhere, unpacked.in_bytes, prepared ? prepared->predicted.seconds : 0, seconds);
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
  std::fprintf(stderr, "packing_bench pack FILE UNIT CAPACITY EFFORT | price MODEL IMAGE BATCH DEVICE PLANNERS PERCENT…\n");
  return 2;
}
