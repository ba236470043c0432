// Host memory so small that values go to disk: every planner that spills trains as `keep` does, bit by bit, and every tier's peak
// is the predicted one, to the byte.
#include <gtest/gtest.h>

#include <set>

#include "cost/devices.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "program/offsets.h"
#include "trained.h"

namespace outsize {
namespace {

struct Case {
  std::string name;
  ModelOptions options;
};

class DiskLadder {
 public:
  explicit DiskLadder(const Case& c) : step_(make_training_graph(build_model(c.name, c.options), {})) {}

  Prepared prepare_by(std::string_view planner, const Budgets& budgets) {
    PrepareOptions options;
    options.planner = planner;
    options.budgets = budgets;
    return prepare(step_.graph, *backend_, profile_, options);
  }

  std::string text_of(const Prepared& prepared) const { return print_program(step_.graph, prepared.program); }

  // With the check of everything that comes back.
  Trained train(Prepared prepared) {
    Trainer trainer({step_, std::move(prepared)}, *backend_, 3, "", {}, true);
    Trained trained = outsize::train(trainer, 2);
    for (const Tier tier : {Tier::device, Tier::host, Tier::disk})
      EXPECT_EQ(trainer.measured_peak_bytes(tier), trainer.predicted_peak_bytes(tier)) << name_of(tier);
    return trained;
  }

 private:
  StepGraph step_;
  std::unique_ptr<Backend> backend_ = make_backend("cpu", 1);
  Profile profile_{find_device("cpu"), {}};
};

bool spills(const Prepared& prepared) { return prepared.program.peak_bytes[1] > 0; }

TEST(DiskLadder, TrainsAsKeepDoes) {
  register_ops();
  const std::vector<Case> cases{
      {"mlp", {.batch = 512, .image_height = 8, .image_width = 8, .classes = 10, .width = 0.125}},
      {"resnet18", {.batch = 8, .image_height = 32, .image_width = 32, .classes = 10, .width = 0.125}},
      {"gpt2", {.batch = 2, .sequence = 32, .classes = 100, .width = 0.09}},
  };
  std::string table;
  for (const Case& c : cases) {
    DiskLadder ladder(c);
    Prepared keep = ladder.prepare_by("keep", {});
    const std::int64_t whole = keep.program.peak_bytes[0];
    const Trained expected = ladder.train(std::move(keep));
    int on_disk = 0;
    std::set<std::string> trained;
    for (const Planner& planner : planners()) {
      // Those that tile share what they do with a disk: one of them stands for all.
      const std::set<std::string_view> tile{"overl", "2ps", "overl-h", "sft"};
      if (tile.contains(planner.name)) continue;
      std::string row;
      for (const int percent : {100, 95, 75}) {
        const Budgets budgets{.device = whole * percent / 100, .spill = true};
        try {
          const Prepared in_host = ladder.prepare_by(planner.name, budgets);
          if (!spills(in_host)) continue;
          // Three quarters of what it takes, half of it, then hardly more than its largest value.
          std::int64_t largest = 0;
          for (const Piece& piece : in_host.program.pieces)
            if (piece.tier == Tier::host) largest = std::max(largest, piece.bytes);
          const std::int64_t most = in_host.program.peak_bytes[1];
          for (const std::int64_t host : {most * 3 / 4, most / 2, largest + kAlignment}) {
            Budgets less = budgets;
            less.host = std::max(host, largest + 2 * kCanaryBytes);
            Prepared prepared = ladder.prepare_by(planner.name, less);
            const bool disk = prepared.program.peak_bytes[2] > 0;
            EXPECT_LE(prepared.program.peak_bytes[1], less.host);
            on_disk += disk;
            row += fmt::format("  {} %, host {}{}", percent, less.host, disk ? " + disk" : "");
            // Many budgets and planners come to the same program, but for the first line, which names who made it.
            const std::string program = ladder.text_of(prepared);
            if (trained.insert(program.substr(program.find('\n'))).second) {
              const bool rounding = prepared.plan.rounding();
              expect_same(ladder.train(std::move(prepared)), expected, rounding,
                          fmt::format("{}, {}, {} %", c.name, planner.name, percent));
            }
            // Not even as much disk as that.
            if (!disk) continue;
            less.disk = 1;
            EXPECT_THROW(ladder.prepare_by(planner.name, less), BudgetError);
          }
        } catch (const BudgetError& error) {
          EXPECT_GT(error.missing_bytes(), 0);
        }
      }
      if (!row.empty()) table += fmt::format("{:<10} {:<16}{}\n", c.name, planner.name, row);
    }
    EXPECT_GE(on_disk, 4) << c.name;
  }
  std::printf("%s", table.c_str());
}

}  // namespace
}  // namespace outsize
