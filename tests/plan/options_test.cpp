#include "plan/options.h"

#include <gtest/gtest.h>

#include "../graph/graph_test_support.h"
#include "plan/planner.h"

namespace outsize {
namespace {

using Kind = PlannerOption::Kind;

constexpr PlannerOption kCount{.name = "count", .initial = "3", .help = "", .least = -1};
constexpr PlannerOption kShare{.name = "share", .kind = Kind::number, .initial = "", .help = "", .most = 1};
constexpr PlannerOption kMode{.name = "mode", .kind = Kind::word, .initial = "slow", .help = "", .words = "slow|fast"};
constexpr PlannerOption kScopes{.name = "scopes", .kind = Kind::names, .initial = "", .help = ""};
const std::vector<PlannerOption> kAll{kCount, kShare, kMode, kScopes};

std::string refusal(std::string_view text) {
  return message_of<UserError>([&] { PlannerOptions("some", kAll, text); });
}

TEST(PlannerOptions, AreWhatWasGivenOrTheirInitialValue) {
  const PlannerOptions options("some", kAll, "scopes=layer1+layer2.0,count=-1,share=0.5");
  EXPECT_EQ(options.integer(kCount), -1);
  EXPECT_EQ(options.number(kShare), 0.5);
  EXPECT_EQ(options.word(kMode), "slow");
  EXPECT_EQ(options.names(kScopes), (std::vector<std::string>{"layer1", "layer2.0"}));
  EXPECT_TRUE(options.has(kCount));
  EXPECT_FALSE(options.has(kMode));
  EXPECT_EQ(options.to_string(), "count=-1,share=0.5,scopes=layer1+layer2.0");

  const PlannerOptions none;
  EXPECT_EQ(none.integer(kCount), 3);
  EXPECT_TRUE(none.names(kScopes).empty());
  EXPECT_EQ(none.to_string(), "");
}

TEST(PlannerOptions, RefuseWhatIsNone) {
  EXPECT_EQ(refusal("cout=1"), "planner some has no option 'cout'; did you mean 'count'?");
  EXPECT_EQ(refusal("zzz=1"), "planner some has no option 'zzz'; it has count, share, mode, scopes");
  EXPECT_EQ(refusal("count"), "planner some: expected OPTION=VALUE, found 'count'");
  EXPECT_EQ(refusal("count=1,"), "planner some: expected OPTION=VALUE, found ''");
  EXPECT_EQ(refusal("count=1,count=2"), "planner some: count is given twice");
  EXPECT_EQ(refusal("count=-2"), "planner some: count: '-2' is not a whole number of at least -1");
  EXPECT_EQ(refusal("count=1.5"), "planner some: count: '1.5' is not a whole number of at least -1");
  EXPECT_EQ(refusal("share=1.5"), "planner some: share: '1.5' is not a number from 0 to 1");
  EXPECT_EQ(refusal("share=nan"), "planner some: share: 'nan' is not a number from 0 to 1");
  EXPECT_EQ(refusal("mode=medium"), "planner some: mode: 'medium' is not one of slow, fast");
  EXPECT_EQ(refusal("mode="), "planner some: mode: '' is not one of slow, fast");
  EXPECT_EQ(refusal("scopes=a++b"), "planner some: scopes: 'a++b' is not names joined by +");
  EXPECT_EQ(message_of<UserError>([] { PlannerOptions("keep", {}, "count=1"); }),
            "planner keep has no options, so that it takes no 'count=1'");
}

// What `outsize planners` shows as the default must be a value that the option takes.
TEST(PlannerOptions, InitialValuesOfAllPlannersAreTaken) {
  for (const Planner& planner : planners())
    for (const PlannerOption& option : planner.options) {
      EXPECT_FALSE(option.help.empty()) << planner.name << " " << option.name;
      if (option.initial.empty()) continue;
      const std::string text = std::string(planner.name) + ":" + std::string(option.name) + "=" + std::string(option.initial);
      EXPECT_EQ(choose_planner(text).options.given().size(), 1U) << text;
    }
}

}  // namespace
}  // namespace outsize
