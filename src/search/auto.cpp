#include "search/auto.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outsize {

namespace {

// Those that mostly have a good plan and do not take long are asked first, so that there soon is one.
constexpr std::string_view kFirst[] = {"keep", "tsplit", "stream", "2ps-h"};
// A plan is not faster than another if it saves less than this part of its time.
constexpr double kAbout = 1e-4;
// What a planner reckons may be so many times what is simulated then: only what takes longer is given up early.
constexpr double kReckoned = 1.5;

std::vector<std::string> planners_in_turn() {
  std::vector<std::string> names(std::begin(kFirst), std::end(kFirst));
  for (const Planner& planner : planners())
    if (std::ranges::find(names, planner.name) == names.end()) names.emplace_back(planner.name);
  return names;
}

// Whether a refusal comes nearer to a plan than another: it lacks fewer bytes; of the device, rather than of a tier that there is
// not; and rather bytes than anything else.
bool is_nearer(const Refusal& a, const Refusal& b) {
  const auto rank = [](const Refusal& refusal) {
    if (!refusal.of_bytes()) return 2;
    return refusal.tier != Tier::device && refusal.budget == 0 ? 1 : 0;
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  return a.of_bytes() && a.missing() < b.missing();
}

}  // namespace

Planned<Prepared> prepare_auto(const Graph& graph, Target& target, const Profile& profile, const PrepareOptions& options) {
  const bool first = choose_planner(options.planner).options.word(kAutoEffort) == "first";
  const std::vector<std::string> names = planners_in_turn();
  PrepareOptions one = options;
  std::optional<Prepared> best;
  std::optional<Refusal> nearest;
  double least = 0;  // seconds of any plan; reckoned where holding everything does not fit
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (options.progress) options.progress(fmt::format("planning with {} ({} of {})", names[k], k + 1, names.size()));
    one.planner = names[k];
    if (best) one.most_seconds = kReckoned * best->predicted.seconds;
    Planned<Prepared> found = prepare(graph, target, profile, one);
    if (!found) {
      if (!nearest || is_nearer(found.refusal(), *nearest)) nearest = found.refusal();
    } else if (!best || found->predicted.seconds < best->predicted.seconds * (1 - kAbout)) {
      best = *std::move(found);
    }
    if (!best) continue;
    if (k == 0) break;  // holding everything fits: nothing has to be paid for
    if (least == 0) {
      const LowerBounds bounds = lower_bounds(graph, target, profile, options);
      least = std::min(bounds.seconds, bounds.tiled_seconds);
    }
    if (first || best->predicted.seconds <= least * (1 + kAbout)) break;
  }
  if (options.progress) options.progress("");
  if (best) return *std::move(best);
  nearest->planner = "auto";
  return *std::move(nearest);
}

}  // namespace outsize
