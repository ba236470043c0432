// Random training graphs, cut into passes and tiles at random, train as whole values do.
//
//   OUTSIZE_CASES=10000 test_tiles --gtest_filter='Windows.*'      so many cases
//   OUTSIZE_CASES=1 OUTSIZE_SEED=4711 test_tiles …                 one of them again, with its graph and plan
#include <gtest/gtest.h>

#include <map>

#include "../step_runs.h"
#include "graph/text.h"
#include "ops/registry.h"
#include "plan/planner.h"
#include "random_case.h"

namespace outsize {
namespace {

TEST(Windows, TrainAsWholeValuesDo) {
  register_ops();
  const std::int64_t cases = from_environment("OUTSIZE_CASES", 300), first = from_environment("OUTSIZE_SEED", 1);
  const std::unique_ptr<Backend> backend = make_backend("reference", 1);
  const Profile profile{find_device("cpu"), {}};
  std::map<std::string, Count> counts;
  std::int64_t tiles = 0, passes = 0, loops = 0, failed = 0;
  for (std::int64_t seed = first; seed < first + cases && failed < 20; ++seed) {
    Case drawn(static_cast<std::uint64_t>(seed), counts);
    const StepGraph training = drawn.graph();
    const Graph& graph = training.graph;
    SCOPED_TRACE(fmt::format("OUTSIZE_CASES=1 OUTSIZE_SEED={} ({} ops)", seed, graph.op_count()));
    if (cases == 1) fmt::print("{}", print_graph(graph));
    Count& count = counts["all"];
    ++count.asked;
    bool right = true;
    try {
      const Plan plan = drawn.plan(graph);
      if (cases == 1) fmt::print("{}", print_plan(graph, plan));
      const Outcome kept =
          train(training, find_planner("keep").make({graph, profile, backend->storage()}).take(), *backend, true, 0, 1);
      const Outcome tiled = train(training, plan, *backend, !drawn.one_in(3), 256, 1);
      for (const Pass& pass : plan.passes) {
        std::int64_t product = 1;
        for (const std::vector<std::int64_t>& cuts : pass.cuts) product *= static_cast<std::int64_t>(cuts.size()) + 1;
        tiles += product;
      }
      passes += static_cast<std::int64_t>(plan.passes.size());
      loops += static_cast<std::int64_t>(tiled.program.loops.size());
      ASSERT_EQ(tiled.results.size(), kept.results.size());
      for (std::size_t i = 0; i < kept.results.size(); ++i) {
        const auto& [value, expected] = kept.results[i];
        const auto close = is_close(graph.value(graph.find_value(value)).type.dtype, tiled.results[i].second, expected, 1e-9);
        if (close || (!right && cases > 1)) continue;  // the first tells enough
        ADD_FAILURE() << value << ": " << close.message();
        right = false;
      }
    } catch (const UserError& error) {
      ++count.refused;
      count.why.insert({error.what(), seed});
    } catch (const std::exception& error) {
      right = false;
      ADD_FAILURE() << error.what();
    }
    failed += !right;
  }
  fmt::print("{} cases from seed {}, {} passes, {} tiles, {} loops\n", cases, first, passes, tiles, loops);
  for (const auto& [name, count] : counts) {
    fmt::print("{:12} {:6} asked {:6} refused\n", name, count.asked, count.refused);
    const bool channels = name == kChannels;
    for (const auto& [why, seed] : count.why)
      if (!channels) fmt::print("    {} (seed {})\n", why, seed);
    EXPECT_LE(count.refused * (channels ? 10 : 50), count.asked) << name;
  }
}

}  // namespace
}  // namespace outsize
