// The numbers of docs/plans.md: the rows that the tiles of its example compute, carry and read.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "graph/text.h"
#include "ops/registry.h"
#include "plan/plan.h"
#include "plan/tiles/tiles.h"
#include "run/trainer.h"

namespace outsize {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

constexpr int kRows = 2;  // H of N C H W

std::string rows(const Box& box) { return box.empty() ? "–" : fmt::format("[{}, {})", box.lo[kRows], box.hi[kRows]); }

class Plans : public testing::Test {
 protected:
  Plans() {
    register_ops();
    training_ =
        make_training_graph(parse_graph(read_text(OUTSIZE_TESTS "/skeleton/skeleton.graph"), "skeleton"), {.gradients = true});
    plan_ = parse_plan(training_.graph, read_text(OUTSIZE_TESTS "/skeleton/h-all-at-once.plan"), "plan");
  }

  ValueId value(std::string_view name) const { return training_.graph.find_value(name); }
  // The tiles of a pass after which `read_later` is read.
  PassTiles tiles(std::string_view pass, std::string_view read_later) const {
    const IdSet<ValueId> later({value(read_later)});
    for (const Pass& candidate : plan_.passes)
      if (candidate.name == pass) return {training_.graph, candidate, later};
    internal_error("the plan has no pass {}", pass);
  }

  const std::string document_ = read_text(OUTSIZE_TESTS "/../docs/plans.md");
  StepGraph training_;
  Plan plan_;
};

TEST_F(Plans, TableOfRows) {
  const PassTiles forward = tiles("r.f2", "p");
  ASSERT_EQ(forward.tiles(), 3);
  for (std::int64_t i = 0; i < forward.tiles(); ++i) {
    const auto of = [&](const char* name) { return forward.boxes(value(name), forward.tile_at(i)); };
    const std::string row = fmt::format("| {} | {} | {} | {} | {} | {} | {} |", i + 1, rows(of("p").compute), rows(of("a").compute),
                                        rows(of("z").present), rows(of("z").carry), rows(of("z").compute), rows(of("x").present));
    EXPECT_NE(document_.find(row), std::string::npos) << row;
  }
}

TEST_F(Plans, SavedRows) {
  const PassTiles backward = tiles("r.b1", "bn.apply.grad_stats");
  ASSERT_EQ(backward.tiles(), 3);
  std::vector<std::string> owned, lacking;
  for (std::int64_t i = 0; i < backward.tiles(); ++i) {
    owned.push_back(rows(backward.boxes(value("gap.grad"), backward.tile_at(i)).owned));
    lacking.push_back(rows(backward.boxes(value("z"), backward.tile_at(i)).carry));
  }
  EXPECT_EQ(owned, (std::vector<std::string>{"[3, 8)", "[2, 3)", "[0, 2)"}));
  EXPECT_EQ(lacking, (std::vector<std::string>{"[5, 7)", "[3, 5)", "–"}));
}

}  // namespace
}  // namespace outsize
