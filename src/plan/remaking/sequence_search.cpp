#include "plan/remaking/sequence_search.h"

#include <algorithm>
#include <map>
#include <set>

#include "plan/remaking/held_cut.h"

namespace outsize {

namespace {

// An eviction takes time with the square of the ops. The seeds of large graphs are fewer, and are made by fewer rules and prices.
constexpr std::int64_t kSeedLooks = 600'000'000, kQuickLooks = 300'000'000;
constexpr std::int64_t kLeastRules = 3;
constexpr int kPrices = 48, kEvictionsAPrice = 9;

// Keys of smaller values are left alone.
constexpr std::int64_t kLeastKeyed = 65536;
// Of the moves, one part goes into climbs; an eviction is a move for so many looks.
constexpr std::int64_t kClimbingPart = 3, kClimbs = 8, kMostEvictions = 250, kLooksAMove = 8000;
// The fastest seeds that are annealed beside what climbs came to, and the part of the moves for each round.
constexpr std::int64_t kSeeds = 4, kRoundPart = 3;
// So many that were annealed to the end but one round, and are hardly slower than the best, are annealed into less room too.
constexpr std::size_t kFinalists = 2;
constexpr double kClose = 1.004;
// What is annealed last avoids to be full (AnnealingEffort::crowding): of graphs with so many ops, as much, and a part of that
// while the fastest is sought. Of larger graphs each run counts for less.
constexpr double kCrowding = 0.01, kHardlyMore = 1.0003, kCrowdedOps = 500;
constexpr double kParts[] = {1, 0.1, 0.3};

std::vector<EvictionRule> rules() {
  std::vector<EvictionRule> all;
  for (const bool seconds : {false, true})
    for (const double cost : {0.7, 1.0})
      for (const double distance : {0.0, 0.3, 0.6, 1.0}) all.push_back({cost, distance, seconds, {}});
  return all;
}

}  // namespace

SequenceSearch::SequenceSearch(const RemakeProblem& problem)
    : problem_(problem), evictor_(problem), last_in_forward_(problem.values.size(), -1) {
  looks_ = std::max<std::int64_t>(problem.ops.size() * problem.ops.size(), 1);
  cuts_ = held_by_prices(problem, static_cast<int>(std::min<std::int64_t>(kSeedLooks / kEvictionsAPrice / looks_, kPrices)));
  find_groups();
}

void SequenceSearch::find_groups() {
  std::map<std::pair<std::int64_t, double>, std::vector<std::int32_t>> alike;
  for (std::int32_t v = 0; v < problem_.values.size(); ++v) {
    const RemakeProblem::Value& value = problem_.values[v];
    for (const std::int32_t reader : value.readers)
      if (problem_.ops[reader].again) last_in_forward_[v] = std::max(last_in_forward_[v], reader);
    if (!problem_.is_again(v) || value.bytes < kLeastKeyed) continue;
    keyed_.push_back(v);
    alike[{value.bytes, problem_.ops[value.producer].seconds}].push_back(v);
  }
  for (auto& [what, values] : alike) alike_.push_back(std::move(values));
}

std::vector<FoundSequence> SequenceSearch::quick_seeds(std::int64_t limit) {
  seeds_.clear();
  const std::vector<EvictionRule> all = rules();
  const std::int64_t count = std::clamp<std::int64_t>(kQuickLooks / looks_, kLeastRules, std::ssize(all));
  // Of fewer, such that differ.
  for (std::int64_t k = 0; k < count; ++k) {
    const EvictionRule& rule = all[static_cast<std::size_t>(k * std::ssize(all) / count)];
    if (Eviction made = evict(limit, rule); made.fits) consider(made.sequence, limit, &rule);
  }
  return sorted_seeds();
}

std::vector<FoundSequence> SequenceSearch::seeds(std::int64_t limit) {
  quick_seeds(limit);
  for (const Table<bool>& held : cuts_) {
    consider(remake_once(problem_, held), limit, nullptr);
    constexpr double kStrong[] = {5, 100, 10000};
    for (const double key : kStrong)
      for (const double distance : {0.0, 0.5, 1.0}) {
        EvictionRule rule{.cost_power = 1, .distance_power = distance, .keys = Table<double>(problem_.values.size(), 1)};
        for (std::int64_t v = 0; v < held.size(); ++v)
          if (held[v]) rule.keys[v] = key;
        if (Eviction made = evict(limit, rule); made.fits) consider(made.sequence, limit, &rule);
      }
  }
  if (seeds_.empty()) learn(limit);
  return sorted_seeds();
}

std::vector<FoundSequence> SequenceSearch::sorted_seeds() {
  std::ranges::stable_sort(seeds_, {}, [](const Seed& seed) { return seed.found.seconds; });
  std::vector<FoundSequence> found;
  for (const Seed& seed : seeds_) found.push_back(seed.found);
  return found;
}

// Where a walk fails, what would have spared the failing run is held more dearly, and the walk is repeated.
void SequenceSearch::learn(std::int64_t limit) {
  constexpr int kRepeats = 200;
  constexpr std::int64_t kLearningLooks = 100'000'000;
  constexpr double kBytes = 2e6, kDearer = 1.5, kMost = 1e6;
  const std::int64_t repeats = std::clamp<std::int64_t>(kLearningLooks / looks_, 4, kRepeats);
  for (const EvictionRule& first : rules()) {
    EvictionRule rule = first;
    if (rule.cost_power != 1) continue;
    rule.keys.assign(problem_.values.size(), 1);
    for (std::int64_t repeat = 0; repeat < repeats; ++repeat) {
      Eviction made = evict(limit, rule);
      if (made.fits) {
        consider(made.sequence, limit, &rule);
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

// Returns whether it is within the limit.
bool SequenceSearch::consider(const std::vector<std::int32_t>& sequence, std::int64_t limit, const EvictionRule* rule) {
  const RunSequence runs(problem_, sequence);
  if (runs.peak() > limit) return false;
  const bool known = std::ranges::any_of(seeds_, [&](const Seed& other) { return other.found.seconds == runs.seconds(); });
  if (!known) seeds_.push_back({{runs.sequence(), runs.seconds()}, rule ? *rule : EvictionRule(), rule != nullptr});
  return true;
}

// Changes the keys of some values at random.
void SequenceSearch::change_keys(EvictionRule& rule, Chance& chance) const {
  const auto any_factor = [&] {
    constexpr double kFactors[] = {0.01, 0.1, 10, 100};
    return kFactors[chance.below(4)];
  };
  const auto any_keyed = [&] { return keyed_[chance.below(std::ssize(keyed_))]; };
  const double which = chance.part();
  if (which < 0.3) {
    // All that forward still reads at one place are held more dearly than others, as others, or less.
    constexpr double kKeys[] = {1000, 1000, 1, 0.01};
    const double key = kKeys[chance.below(4)];
    const std::int32_t at = problem_.values[any_keyed()].producer;
    for (const std::int32_t value : keyed_)
      if (problem_.values[value].producer <= at && last_in_forward_[value] > at) rule.keys[value] = key;
  } else if (which < 0.4) {
    const double factor = any_factor();
    for (const std::int32_t value : alike_[chance.below(std::ssize(alike_))]) rule.keys[value] *= factor;
  } else if (which < 0.6) {
    constexpr std::int64_t kStretch = 20;
    const double factor = any_factor();
    const std::int64_t first = chance.below(std::ssize(keyed_)), count = 1 + chance.below(kStretch);
    for (std::int64_t k = first; k < std::min(first + count, std::ssize(keyed_)); ++k) rule.keys[keyed_[k]] *= factor;
  } else {
    for (std::int64_t k = chance.below(3); k >= 0; --k) {
      const std::int32_t value = any_keyed();
      rule.keys[value] = chance.part() < 0.1 ? 1 : rule.keys[value] * any_factor();
    }
  }
  if (chance.part() < 0.1) rule.distance_power = chance.part();
  if (chance.part() < 0.05) rule.distance_in_seconds = !rule.distance_in_seconds;
}

// Changes the keys of a seed's rule again and again, and goes on from what is no slower.
FoundSequence SequenceSearch::climb(std::int64_t limit, const Seed& from, std::int64_t evictions, Chance& chance) {
  FoundSequence best = from.found;
  EvictionRule rule = from.rule;
  if (rule.keys.empty()) rule.keys.assign(problem_.values.size(), 1);
  for (std::int64_t k = 0; k < evictions; ++k) {
    EvictionRule changed = rule;
    change_keys(changed, chance);
    const Eviction made = evict(limit, changed);
    if (!made.fits) continue;
    const RunSequence runs(problem_, made.sequence);
    if (runs.seconds() > best.seconds) continue;
    best = {runs.sequence(), runs.seconds()};
    rule = std::move(changed);
  }
  return best;
}

FoundSequence SequenceSearch::best(std::int64_t limit, std::int64_t moves, std::uint64_t seed) {
  std::vector<FoundSequence> from = seeds(limit);
  finalists_.clear();
  if (moves == 0) {
    if (!from.empty()) finalists_.push_back(from.front());
    return from.empty() ? FoundSequence{} : from.front();
  }
  if (from.empty()) {
    // What exceeds the limit by as little as can be is annealed until it does not.
    FoundSequence made = anneal(problem_, least().sequence, limit, {.moves = moves / 2, .hottest = 0.005, .seed = seed * 64});
    if (!made.found()) return {};
    from.push_back(std::move(made));
  }
  if (std::ssize(from) > kSeeds) from.resize(kSeeds);
  const auto add = [&](FoundSequence made) {
    const auto same = [&](const FoundSequence& other) { return other.seconds == made.seconds; };
    if (made.found() && std::ranges::none_of(from, same)) from.push_back(std::move(made));
  };
  // Each eviction counts as the moves that take about as long.
  const std::int64_t evictions =
      std::min<std::int64_t>(moves / kClimbingPart / kClimbs / (1 + looks_ / kLooksAMove), kMostEvictions);
  Chance chance(seed);
  std::int64_t climbs = 0;
  for (const Seed& one : std::vector(seeds_)) {
    if (climbs == kClimbs || keyed_.empty()) break;
    if (!one.evicted) continue;
    add(climb(limit, one, evictions, chance));
    ++climbs;
  }
  // Half of them drop out of each round, and the others go on with what is left.
  std::int64_t round = 0;
  for (std::int64_t left = moves - moves / kClimbingPart; !from.empty(); ++round) {
    const bool last = std::ssize(from) == 1;
    const std::int64_t each = (last ? left : left / kRoundPart) / std::ssize(from);
    for (std::size_t k = 0; k < from.size(); ++k) {
      left -= each;
      FoundSequence made = anneal(problem_, from[k].sequence, limit,
                                  {.moves = each,
                                   .hottest = AnnealingEffort().hottest / static_cast<double>(1 + round),
                                   .crowding = last ? crowding(kParts[1]) : 0,
                                   .seed = seed * 64 + static_cast<std::uint64_t>(round * 16) + k + 1});
      if (made.found() && made.seconds < (last ? kHardlyMore : 1) * from[k].seconds) from[k] = std::move(made);
    }
    std::ranges::stable_sort(from, {}, &FoundSequence::seconds);
    if (last) break;
    from.resize((from.size() + 1) / 2);
    if (from.size() <= kFinalists) finalists_ = from;
  }
  for (FoundSequence& other : finalists_)
    if (other.sequence == from.front().sequence || other.seconds > kClose * from.front().seconds) other = from.front();
  finalists_.insert(finalists_.begin(), from.front());
  return from.front();
}

FoundSequence SequenceSearch::nearby(std::int64_t limit, std::int64_t moves, std::uint64_t seed) const {
  const FoundSequence& from = finalists_[static_cast<std::int64_t>(seed) % std::ssize(finalists_)];
  return anneal(
      problem_, from.sequence, limit,
      {.moves = moves, .hottest = 0.0002, .crowding = crowding(kParts[seed % std::size(kParts)]), .seed = seed * 64 + 63});
}

double SequenceSearch::crowding(double part) const {
  return part * kCrowding * std::min(1.0, kCrowdedOps / static_cast<double>(problem_.ops.size()));
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
