#include "plan/remaking/sequence_search.h"

#include <algorithm>
#include <set>

#include "plan/remaking/held_cut.h"

namespace outsize {

namespace {

// How many ops may be looked at by the seeds: of large graphs, fewer ways are tried.
constexpr std::int64_t kSeedLooks = 2'000'000;
constexpr int kPrices = 48;

std::vector<EvictionRule> rules() {
  std::vector<EvictionRule> all;
  for (const bool seconds : {false, true})
    for (const double cost : {0.7, 1.0})
      for (const double distance : {0.0, 0.3, 0.6, 1.0}) all.push_back({cost, distance, seconds, {}});
  return all;
}

}  // namespace

SequenceSearch::SequenceSearch(const RemakeProblem& problem) : problem_(problem), evictor_(problem) {
  const std::int64_t ops = std::max<std::int64_t>(problem.ops.size(), 1);
  cuts_ = held_by_prices(problem, static_cast<int>(std::clamp<std::int64_t>(kSeedLooks / 20 / ops, 4, kPrices)));
}

std::vector<FoundSequence> SequenceSearch::quick_seeds(std::int64_t limit) {
  found_.clear();
  for (const EvictionRule& rule : rules())
    if (Eviction made = evict(limit, rule); made.fits) consider(made.sequence, limit);
  std::ranges::stable_sort(found_, {}, [](const FoundSequence& found) { return found.seconds; });
  return found_;
}

std::vector<FoundSequence> SequenceSearch::seeds(std::int64_t limit) {
  quick_seeds(limit);
  for (const Table<bool>& held : cuts_) {
    consider(remake_once(problem_, held), limit);
    constexpr double kStrong[] = {5, 100, 10000};
    for (const double key : kStrong)
      for (const double distance : {0.0, 0.5, 1.0}) {
        EvictionRule rule{.cost_power = 1, .distance_power = distance, .keys = Table<double>(problem_.values.size(), 1)};
        for (std::int64_t v = 0; v < held.size(); ++v)
          if (held[v]) rule.keys[v] = key;
        if (Eviction made = evict(limit, rule); made.fits) consider(made.sequence, limit);
      }
  }
  if (found_.empty()) learn(limit);
  std::ranges::stable_sort(found_, {}, [](const FoundSequence& found) { return found.seconds; });
  return found_;
}

// Where a walk fails, what would have spared the failing run is held more dearly, and the walk is repeated.
void SequenceSearch::learn(std::int64_t limit) {
  constexpr int kRepeats = 200;
  constexpr double kBytes = 2e6, kDearer = 1.5, kMost = 1e6;
  const std::int64_t repeats =
      std::clamp<std::int64_t>(kSeedLooks / std::max<std::int64_t>(problem_.ops.size(), 1) / 8, 4, kRepeats);
  for (const EvictionRule& first : rules()) {
    EvictionRule rule = first;
    if (rule.cost_power != 1) continue;
    rule.keys.assign(problem_.values.size(), 1);
    for (std::int64_t repeat = 0; repeat < repeats; ++repeat) {
      Eviction made = evict(limit, rule);
      if (made.fits) {
        consider(made.sequence, limit);
        break;
      }
      if (made.blamed.empty()) break;
      double most = 0;
      for (const std::int32_t value : std::set(made.blamed.begin(), made.blamed.end())) {
        rule.keys[value] *= 1 + kDearer * std::min(1.0, kBytes / static_cast<double>(problem_.values[value].bytes + 1));
        most = std::max(most, rule.keys[value]);
      }
      if (most > kMost)
        for (double& key : rule.keys) key = std::max(1.0, key / 100);
    }
  }
}

// Eviction reckons with less than there is: it does not know how long updates hold what they read. It is asked for less by as much.
Eviction SequenceSearch::evict(std::int64_t limit, const EvictionRule& rule) {
  constexpr int kAttempts = 4;
  std::int64_t asked = limit;
  Eviction made;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    made = evictor_.run(asked, rule);
    if (!made.fits) return made;
    const std::int64_t peak = RunSequence(problem_, made.sequence).peak();
    if (peak <= limit) return made;
    asked -= peak - limit;
    made.fits = false;
  }
  return made;
}

void SequenceSearch::consider(const std::vector<std::int32_t>& sequence, std::int64_t limit) {
  const RunSequence runs(problem_, sequence);
  if (runs.peak() > limit) return;
  const bool known = std::ranges::any_of(found_, [&](const FoundSequence& other) { return other.seconds == runs.seconds(); });
  if (!known) found_.push_back({runs.sequence(), runs.seconds()});
}

FoundSequence SequenceSearch::best(std::int64_t limit, std::int64_t moves, std::uint64_t seed) {
  std::vector<FoundSequence> from = seeds(limit);
  if (from.empty() && moves > 0) {
    // What exceeds the limit by as little as can be is annealed until it does not.
    FoundSequence made = anneal(problem_, least().sequence, limit, {.moves = moves / 2, .hottest = 0.02, .seed = seed * 16 + 14});
    if (made.found()) from.push_back(std::move(made));
  }
  last_ = from.empty() ? FoundSequence{} : from.front();
  if (from.empty() || moves == 0) return last_;
  // A third of the moves on some beginnings, and the rest on what came of the best of them.
  constexpr std::size_t kBeginnings = 3;
  const std::size_t count = std::min(from.size(), kBeginnings);
  FoundSequence& best = last_;
  for (std::size_t k = 0; k < count; ++k) {
    FoundSequence made =
        anneal(problem_, from[k].sequence, limit, {.moves = moves / 3 / static_cast<std::int64_t>(count), .seed = seed * 16 + k});
    if (made.found() && made.seconds < best.seconds) best = std::move(made);
  }
  FoundSequence made =
      anneal(problem_, best.sequence, limit, {.moves = moves - moves / 3, .hottest = 0.002, .seed = seed * 16 + 15});
  if (made.found() && made.seconds < best.seconds) best = std::move(made);
  return best;
}

FoundSequence SequenceSearch::nearby(std::int64_t limit, std::int64_t moves, std::uint64_t seed) const {
  return anneal(problem_, last_.sequence, limit, {.moves = moves, .hottest = 0.002, .seed = seed * 16 + 13});
}

SequenceSearch::Least SequenceSearch::least() {
  std::vector<std::int32_t> order;
  for (std::int32_t k = 0; k < problem_.ops.size(); ++k) order.push_back(k);
  Least least{RunSequence(problem_, order).peak(), order};
  const std::vector<EvictionRule> all = rules();
  constexpr std::int64_t kStep = 64;
  for (std::int64_t low = problem_.persistent; least.bytes - low > std::max<std::int64_t>(least.bytes / kStep, 1);) {
    const std::int64_t middle = low + (least.bytes - low) / 2;
    bool fits = false;
    for (std::size_t k = 0; k < all.size() && !fits; k += 3) {
      const Eviction made = evict(middle, all[k]);
      if (!made.fits) continue;
      fits = true;
      least = {RunSequence(problem_, made.sequence).peak(), made.sequence};
    }
    if (!fits) low = middle;
  }
  return least;
}

}  // namespace outsize
