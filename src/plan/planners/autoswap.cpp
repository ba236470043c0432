#include "plan/planners/autoswap.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "plan/analysis/order.h"
#include "plan/planners/planners.h"
#include "plan/reckon/estimate.h"
#include "plan/swap/spill.h"

namespace outsize {

namespace {

constexpr PlannerOption kAutoswapScore{.name = "score",
                                       .kind = PlannerOption::Kind::word,
                                       .initial = "search",
                                       .help = "which activations leave first; search: the fastest weighting of the four",
                                       .words = "doa|aoa|wdoa|swdoa|search"};

}  // namespace

namespace {

constexpr int kParts = 4;  // that the weights are first counted in
constexpr int kFinest = 16;

// Divides by the largest magnitude.
void normalize(Table<double>& scores) {
  double most = 0;
  for (double score : scores) most = std::max(most, std::abs(score));
  if (most == 0) return;
  for (double& score : scores) score /= most;
}

Table<double> durations(const AbsenceChoice& choice) {
  Table<double> starts(choice.seconds.size() + 1, 0.0);
  std::partial_sum(choice.seconds.begin(), choice.seconds.end(), starts.begin() + 1);
  Table<double> scores;
  for (const Absence& absence : choice.absences) {
    const auto bytes = static_cast<double>(absence.bytes);
    scores.push_back(starts[absence.before] - starts[absence.after + 1] - bytes / choice.out_rate - bytes / choice.in_rate);
  }
  return scores;
}

Table<double> weighted_durations(const AbsenceChoice& choice, const Table<std::int64_t>& load) {
  Table<double> sums(load.size() + 1, 0.0);
  for (std::int64_t p = 0; p < load.size(); ++p)
    sums[p + 1] = sums[p] + choice.seconds[p] * static_cast<double>(std::max<std::int64_t>(0, load[p] - choice.limit));
  Table<double> scores;
  for (const Absence& absence : choice.absences) scores.push_back(sums[absence.before] - sums[absence.after + 1]);
  return scores;
}

}  // namespace

std::vector<std::int64_t> choose_absences(const AbsenceChoice& choice, const ScoreWeights& weights) {
  Table<double> doa = durations(choice), aoa = doa, wdoa = weighted_durations(choice, choice.load);
  for (std::int64_t k = 0; k < aoa.size(); ++k) aoa[k] *= static_cast<double>(choice.absences[k].bytes);
  for (Table<double>* scores : {&doa, &aoa, &wdoa}) normalize(*scores);

  Table<std::int64_t> load = choice.load;
  Table<bool> chosen(choice.absences.size(), false);
  std::vector<std::int64_t> order;
  Table<double> swdoa = wdoa;
  while (true) {
    const auto highest = std::max_element(load.begin(), load.end());
    if (highest == load.end() || *highest <= choice.limit) return order;
    const auto peak = static_cast<std::int32_t>(highest - load.begin());
    std::int64_t best = choice.absences.size();
    double best_score = 0;
    for (std::int64_t k = 0; k < choice.absences.size(); ++k) {
      const Absence& absence = choice.absences[k];
      if (chosen[k] || absence.after >= peak || absence.before <= peak) continue;
      const double score = weights.doa * doa[k] + weights.aoa * aoa[k] + weights.wdoa * wdoa[k] + weights.swdoa * swdoa[k];
      if (best < choice.absences.size() && score <= best_score) continue;
      best = k;
      best_score = score;
    }
    if (best == choice.absences.size()) return order;
    chosen[best] = true;
    order.push_back(best);
    const Absence& absence = choice.absences[best];
    for (std::int32_t p = absence.after + 1; p < absence.before; ++p) load[p] -= absence.bytes;
    if (weights.swdoa > 0) {
      swdoa = weighted_durations(choice, load);
      normalize(swdoa);
    }
  }
}

namespace {

// Weights in sixteenths.
using Parts = std::array<int, 4>;

ScoreWeights weights_of(const Parts& parts) {
  const auto weight = [&](std::size_t i) { return static_cast<double>(parts[i]) / kFinest; };
  return {weight(0), weight(1), weight(2), weight(3)};
}

class Search {
 public:
  explicit Search(const PlanRequest& request)
      : request_(request), runs_(eager_order(request.graph)), lives_(lives_of(request, costs_of(request), runs_)) {
    const Device& device = request.profile.device;
    gaps_ = activation_gaps(lives_);
    choice_ = {lives_.seconds, tightest_bytes(request, lives_, {runs_}), limit_of(request), {}, device.link_out, device.link_in};
    for (const Swap& gap : gaps_) choice_.absences.push_back({lives_.all[gap.life].bytes, gap.after, gap.before});
  }

  Planned<Plan> plan() {
    if (Planned<Plan> none = plan_of({})) return none;
    std::vector<std::int64_t> all(gaps_.size());
    std::iota(all.begin(), all.end(), std::int64_t{0});
    const std::string_view score = request_.options.word(kAutoswapScore);
    if (Planned<Plan> most = plan_of(all); !most) return most;  // so do all that leave less
    if (score == "doa") return plan_of(choose_absences(choice_, {.doa = 1}));
    if (score == "aoa") return plan_of(choose_absences(choice_, {.aoa = 1}));
    if (score == "wdoa") return plan_of(choose_absences(choice_, {.wdoa = 1}));
    if (score == "swdoa") return plan_of(choose_absences(choice_, {.swdoa = 1}));

    constexpr int kStep = kFinest / kParts;
    for (int doa = 0; doa <= kFinest; doa += kStep)
      for (int aoa = 0; doa + aoa <= kFinest; aoa += kStep)
        for (int wdoa = 0; doa + aoa + wdoa <= kFinest; wdoa += kStep) consider({doa, aoa, wdoa, kFinest - doa - aoa - wdoa});
    for (int step = kStep / 2; step > 0; step /= 2)
      while (improve(step)) continue;
    return plan_of(best_);
  }

 private:
  SpillChoice spill(std::vector<std::int64_t> chosen) const {
    std::sort(chosen.begin(), chosen.end());
    SpillChoice made{runs_};
    for (std::int64_t k : chosen) made.swaps.push_back(gaps_[k]);
    return made;
  }
  Planned<Plan> plan_of(const std::vector<std::int64_t>& chosen) const {
    return spill_plan(request_, "autoswap", lives_, spill(chosen));
  }

  // Whether these weights are better than the best so far, which they then are.
  bool consider(const Parts& parts) {
    std::vector<std::int64_t> chosen = choose_absences(choice_, weights_of(parts));
    std::sort(chosen.begin(), chosen.end());
    const auto [known, fresh] = seconds_.try_emplace(chosen, 0.0);  // many weights choose the same
    if (!fresh) return false;
    known->second = estimated_seconds(request_, lives_, *plan_of(chosen));
    if (seconds_.size() > 1 && known->second >= best_seconds_) return false;
    best_ = std::move(chosen);
    best_parts_ = parts;
    best_seconds_ = known->second;
    return true;
  }

  // Moves `step` from one weight to another where that helps.
  bool improve(int step) {
    const Parts from = best_parts_;
    for (std::size_t i = 0; i < from.size(); ++i)
      for (std::size_t j = 0; j < from.size(); ++j) {
        Parts parts = from;
        parts[i] -= step;
        parts[j] += step;
        if (i != j && parts[i] >= 0 && consider(parts)) return true;
      }
    return false;
  }

  const PlanRequest& request_;
  Runs runs_;
  Lives lives_;
  std::vector<Swap> gaps_;
  AbsenceChoice choice_;
  std::map<std::vector<std::int64_t>, double> seconds_;  // of what was estimated
  std::vector<std::int64_t> best_;
  Parts best_parts_{};
  double best_seconds_ = 0;
};

}  // namespace

Planned<Plan> plan_autoswap(const PlanRequest& request) { return Search(request).plan(); }

std::vector<PlannerOption> autoswap_options() { return {kAutoswapScore}; }

}  // namespace outsize
