// Host memory so small that values go to disk: every planner that spills trains as `keep` does, bit by bit, and every tier's peak
// is the predicted one, to the byte.
#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "../trained.h"
#include "cost/devices.h"
#include "definitions.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "program/offsets.h"

namespace outsize {
namespace {

struct Case {
  std::string name;
  ModelOptions options;
};

class DiskLadder {
 public:
  explicit DiskLadder(const Case& c) : step_(make_training_graph(build_model(c.name, c.options), {})) {}

  // `windows`: inputs may be read part by part from where they come from.
  Prepared prepare_by(std::string_view planner, const Budgets& budgets, bool windows = false) {
    PrepareOptions options;
    options.planner = planner;
    options.budgets = budgets;
    options.windows = windows;
    return prepare(step_.graph, *backend_, profile_, options).take();
  }

  const StepGraph& step() const { return step_; }
  const Graph& graph() const { return step_.graph; }
  PlanRequest request() const {
    return {.graph = step_.graph, .profile = profile_, .storage = backend_->storage(), .workspace = [this](const Call& call) {
              return backend_->kernel(call)->workspace_bytes();
            }};
  }
  std::string text_of(const Prepared& prepared) const { return print_program(step_.graph, prepared.program); }

  // With the check of everything that comes back.
  Trained train(Prepared prepared) {
    Trainer trainer({step_, std::move(prepared)}, *backend_, 3, "", {}, true);
    Trained trained = outsize::train(trainer, 3);
    for (const Tier tier : {Tier::device, Tier::host, Tier::disk})
      EXPECT_EQ(trainer.measured_peak_bytes(tier), trainer.predicted_peak_bytes(tier)) << name_of(tier);
    return trained;
  }

 private:
  StepGraph step_;
  std::unique_ptr<Backend> backend_ = make_backend("cpu", 1);
  Profile profile_{find_device("cpu"), {}};
};

bool spills(const Prepared& prepared) { return prepared.program.peak_bytes.host > 0; }

TEST(DiskLadder, TrainsAsKeepDoes) {
  register_ops();
  const std::vector<Case> cases{
      {"mlp", {.batch = 512, .image_height = 8, .image_width = 8, .classes = 10, .width = 0.125}},
      {"resnet18", {.batch = 8, .image_height = 32, .image_width = 32, .classes = 10, .width = 0.125}},
      {"gpt2", {.batch = 2, .sequence = 32, .classes = 100, .width = 0.09}},
  };
  const Rounding rounding;
  std::string table;
  for (const Case& c : cases) {
    DiskLadder ladder(c);
    Prepared keep = ladder.prepare_by("keep", {});
    const std::int64_t whole = keep.program.peak_bytes.device;
    const Trained expected = ladder.train(std::move(keep));
    const PlanRequest request = ladder.request();
    const Definitions definitions(ladder.step(), request);
    int on_disk = 0;
    std::set<std::string> trained;
    for (const Planner& planner : planners()) {
      // Those that tile share what they do with a disk: one of them stands for all.
      const std::set<std::string_view> tile{"overl", "2ps", "overl-h", "sft"};
      if (tile.contains(planner.name)) continue;
      std::string row;
      for (const int percent : {100, 95, 75}) {
        const Budgets budgets{.device = whole * percent / 100, .disk = kNoLimit};
        const std::string what = fmt::format("{}, {}, {} %", c.name, planner.name, percent);
        std::optional<Prepared> in_host;
        try {
          in_host = ladder.prepare_by(planner.name, budgets);
        } catch (const BudgetError& error) {
          EXPECT_EQ(error.refusal().tier, Tier::device) << what;
          EXPECT_GT(error.refusal().missing(), 0) << what;
          EXPECT_LT(static_cast<double>(budgets.device), 1.03 * static_cast<double>(definitions.bytes_of(planner.name)))
              << what << " is refused, which its definition fits in";
          continue;
        }
        if (!spills(*in_host)) continue;
        // Three quarters of what it takes, half of it, then hardly more than its largest value.
        std::int64_t largest = 0;
        for (const Piece& piece : in_host->program.pieces)
          if (piece.tier == Tier::host) largest = std::max(largest, piece.bytes);
        const std::int64_t most = in_host->program.peak_bytes.host;
        for (const std::int64_t host : {most * 3 / 4, most / 2, largest + kAlignment}) {
          Budgets less = budgets;
          less.host = std::max(host, largest + 2 * kCanaryBytes);
          std::optional<Prepared> prepared;
          try {
            prepared = ladder.prepare_by(planner.name, less);
          } catch (const BudgetError& error) {
            // What the host updates takes the weight, its gradient and its momentum at once; tiles hold there what they add up.
            const bool updates = planner.name == "zero-offload" || planner.name == "fairscale" || planner.name == "stream" ||
                                 planner.name == "blend";
            EXPECT_EQ(error.refusal().tier, Tier::host) << what;
            EXPECT_GT(error.refusal().missing(), 0) << what;
            EXPECT_TRUE(planner.name == "2ps-h" || (updates && less.host < 3 * largest + 2 * kCanaryBytes))
                << what << " is refused in " << less.host << " bytes of host memory";
            continue;
          }
          const bool disk = prepared->program.peak_bytes.disk > 0;
          EXPECT_LE(prepared->program.peak_bytes.host, less.host);
          EXPECT_TRUE(disk || prepared->program.peak_bytes.host < most || less.host >= most) << what;
          on_disk += disk;
          row += fmt::format("  {} %, host {}{}", percent, less.host, disk ? " + disk" : "");
          // Many budgets and planners come to the same program, but for the first line, which names who made it.
          const std::string program = ladder.text_of(*prepared);
          if (trained.insert(program.substr(program.find('\n'))).second) {
            const bool to_rounding = rounds(ladder.graph(), prepared->plan);
            expect_same(ladder.train(*std::move(prepared)), expected, to_rounding ? &rounding : nullptr, what);
          }
          // Not even as much disk as that. `stream` and `blend` make again what has no place to wait.
          if (!disk || planner.name == "stream" || planner.name == "blend") continue;
          less.disk = 1;
          EXPECT_THROW(ladder.prepare_by(planner.name, less), BudgetError) << what;
        }
      }
      if (!row.empty()) table += fmt::format("{:<10} {:<16}{}\n", c.name, planner.name, row);
    }
    EXPECT_GE(on_disk, 4) << c.name;
  }
  std::printf("%s", table.c_str());
}

// Planners in tiles put gradients on disk too, and count on what passes through host memory on its way there: a budget that is
// larger than another that fits is not too small. Where hardly anything can pass, a plan without disk is found.
TEST(DiskLadder, HostMemoryOfTilesMayBeSmall) {
  register_ops();
  DiskLadder ladder({"resnet18", {.batch = 32, .image_height = 32, .image_width = 32, .classes = 5, .width = 0.125}});
  Prepared keep = ladder.prepare_by("keep", {});
  const std::int64_t whole = keep.program.peak_bytes.device, device = whole * 48 / 100;
  const Trained expected = ladder.train(std::move(keep));
  const Rounding rounding;
  int gradients = 0;
  constexpr std::int64_t kImages = 384 << 10;  // which do not go to disk
  // What the first convolution makes is 32 × 8 × 16² × 4 bytes where channels are stored in blocks of 8, and twice as much, 512 KiB,
  // where blocks have 16. The pass of the norm behind it is one tile here: its window is all of the map, and passes through host
  // memory as one piece.
  for (const std::int64_t host : {512 << 10, 1 << 20, 2 << 20, 4 << 20}) {
    Prepared prepared =
        ladder.prepare_by("2ps:stream=all,remake=none", {.device = device, .host = kImages + host, .disk = kNoLimit});
    EXPECT_LE(prepared.program.peak_bytes.host, kImages + host);
    for (const Piece& piece : prepared.program.pieces)
      gradients += piece.tier == Tier::disk && piece.value && ladder.graph().value(piece.value).role == Role::gradient;
    expect_same(ladder.train(std::move(prepared)), expected, &rounding, fmt::format("host {}", host));
  }
  EXPECT_GT(gradients, 0);

  const Budgets little{.device = whole * 61 / 100, .host = 64 << 10, .disk = kNoLimit};
  try {
    ladder.prepare_by("2ps:stream=all,remake=none", little, true);
    ADD_FAILURE() << "64 KiB are less than a tile of what is streamed";
  } catch (const BudgetError& error) {
    EXPECT_EQ(error.refusal().tier, Tier::host);
  }
  EXPECT_EQ(ladder.prepare_by("2ps", little, true).program.peak_bytes.disk, 0);
}

}  // namespace
}  // namespace outsize
