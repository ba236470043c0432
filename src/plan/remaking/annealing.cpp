#include "plan/remaking/annealing.h"

#include <algorithm>
#include <cmath>

namespace outsize {

namespace {

// Values of fewer bytes are not worth a run of their own.
constexpr std::int64_t kLeastBytes = 4096;

class Annealing {
 public:
  Annealing(const RemakeProblem& problem, const std::vector<std::int32_t>& from, std::int64_t limit, const AnnealingEffort& effort)
      : problem_(problem), runs_(problem, from), limit_(limit), effort_(effort), chance_(effort.seed) {
    for (const RemakeProblem::Op& op : problem.ops) step_ += op.seconds;
    step_ += problem.update_seconds;
  }

  FoundSequence run() {
    remember();
    double cost = cost_now();
    for (std::int64_t move = 0; move < effort_.moves; ++move) {
      const double progress = static_cast<double>(move) / static_cast<double>(effort_.moves);
      if (move % kBatch == 0) {
        temperature_ = step_ * effort_.hottest * std::pow(effort_.coldest / effort_.hottest, progress);
        price_ = step_ / static_cast<double>(limit_) * kFirstPrice * std::pow(kLastPrice / kFirstPrice, progress);
        cost = cost_now();
      }
      // What is still above the limit towards the end will not come below it: the rest goes into the best.
      if (move == effort_.moves - effort_.moves / 32 && best_.found() && runs_.peak() > limit_) {
        runs_ = RunSequence(problem_, best_.sequence);
        cost = cost_now();
      }
      if (!change()) {
        runs_.undo();
        continue;
      }
      runs_.settle();
      const double changed = cost_now();
      if (changed > cost && chance_.part() >= std::exp((cost - changed) / temperature_)) {
        runs_.undo();
        continue;
      }
      runs_.keep();
      cost = changed;
      remember();
    }
    if (best_.found()) {
      runs_ = RunSequence(problem_, best_.sequence);
      erase_what_can_go();
    }
    return std::move(best_);
  }

 private:
  static constexpr std::int64_t kBatch = 64;  // moves at one temperature
  static constexpr double kNothing = 1e-12;
  // Of bytes above the limit, in steps a limit: little at first, so that a sequence may pass through what does not fit.
  static constexpr double kFirstPrice = 0.5, kLastPrice = 2;
  static constexpr double kPriceOfMost = 0.2;  // of the bytes above it at the peak once more, as a part of that
  static constexpr int kExcessRuns = 48;       // the runs whose excess is summed, at most
  static constexpr std::int64_t kBand = 50;    // the part of the limit below it that is crowded
  static constexpr int kCrowdedRuns = 2000;
  static constexpr int kRepairs = 4;     // values that are made again to get below the limit, at most
  static constexpr int kChosenFrom = 3;  // values, of which the one with the most bytes a second is

  double cost_now() const {
    const std::int64_t above = runs_.peak() - limit_;
    if (above <= 0) return judged();
    return judged() + price_ * (runs_.excess(limit_, kExcessRuns) + kPriceOfMost * static_cast<double>(above));
  }

  // Seconds, and what being nearly full costs.
  double judged() const {
    if (effort_.crowding == 0) return runs_.seconds();
    const double crowded = runs_.excess(limit_ - limit_ / kBand, kCrowdedRuns);
    return runs_.seconds() + step_ / static_cast<double>(limit_) * effort_.crowding * crowded;
  }

  // Takes what is there for the best where it is within the limit and none before was judged better.
  void remember() {
    if (runs_.peak() > limit_) return;
    const double now = judged();
    if (best_.found() && now >= best_judged_ - kNothing * step_) return;
    best_ = {runs_.sequence(), runs_.seconds()};
    best_judged_ = now;
  }

  bool change() {
    const double which = chance_.part();
    if (which < 0.20) return erase_one();
    if (which < 0.40) return insert_some(some_run());
    if (which < 0.50) return shift_one();
    if (which < 0.55) return reorder_one();
    if (which < 0.95) return exchange();
    return insert_some(some_run()) && erase_one();
  }

  // Takes out a further run, and while that is too much, makes others again.
  bool exchange() {
    if (!erase_one()) return false;
    runs_.settle();
    for (int k = 0; k < kRepairs && runs_.peak() > limit_ && insert_behind_peak(); ++k) runs_.settle();
    return true;
  }

  // Makes a value that waits while the peak runs again behind it. Returns whether one was found.
  bool insert_behind_peak() {
    const RunSequence::Id peak = runs_.at_peak();
    RunSequence::Id best_run = RunSequence::kNone;
    std::int32_t best_value = -1;
    double best_worth = 0;
    constexpr int kTries = 16;
    for (int attempt = 0, found = 0; attempt < kTries && found < kChosenFrom; ++attempt) {
      const RunSequence::Id run = runs_.behind(peak, chance_.part());
      if (run == RunSequence::kNone) continue;
      const std::int32_t value = some_input(run, [&](std::int32_t input) {
        const RunSequence::Id touched = runs_.touched_before(input, run);
        return touched != RunSequence::kNone && runs_.before(touched, peak);
      });
      if (value < 0) continue;
      ++found;
      const double worth =
          static_cast<double>(problem_.values[value].bytes) / problem_.ops[problem_.values[value].producer].seconds;
      if (best_value >= 0 && worth <= best_worth) continue;
      best_worth = worth;
      best_run = run;
      best_value = value;
    }
    return best_value >= 0 && insert_value(best_value, best_run);
  }

  // Any input of a run that is worth making again and that `may` says yes to; -1: none.
  template <class May>
  std::int32_t some_input(RunSequence::Id run, May may) {
    std::int32_t chosen = -1;
    std::int64_t seen = 0;
    for (const std::int32_t input : problem_.ops[runs_.op_of(run)].inputs)
      if (problem_.is_again(input) && problem_.values[input].bytes > kLeastBytes && may(input) && chance_.below(++seen) == 0)
        chosen = input;
    return chosen;
  }

  RunSequence::Id any_run() {
    const auto further = std::ssize(runs_.further());
    const std::int64_t k = chance_.below(problem_.ops.size() + further);
    return k < problem_.ops.size() ? static_cast<RunSequence::Id>(k) : runs_.further()[k - problem_.ops.size()];
  }

  // Any run; where the limit is exceeded, every second time one behind the peak.
  RunSequence::Id some_run() {
    RunSequence::Id run = any_run();
    if (runs_.peak() <= limit_ || chance_.part() < 0.5) return run;
    const RunSequence::Id peak = runs_.at_peak();
    constexpr int kTries = 8;
    for (int attempt = 0; attempt < kTries && !runs_.before(peak, run); ++attempt) run = any_run();
    return run;
  }

  bool erase_one() {
    if (runs_.further().empty()) return false;
    runs_.erase(runs_.further()[chance_.below(std::ssize(runs_.further()))]);
    return true;
  }

  bool insert_some(RunSequence::Id run) {
    const std::int32_t value = some_input(run, [](std::int32_t) { return true; });
    return value >= 0 && insert_value(value, run);
  }

  // Makes an input of a run again right before it, and perhaps some of what that takes.
  bool insert_value(std::int32_t value, RunSequence::Id run) {
    const std::int32_t producer = problem_.values[value].producer;
    if (runs_.touched_before(value, run) == runs_.previous(run) || !runs_.before(producer, run)) return false;
    constexpr std::size_t kMost = 12;
    ops_.assign(1, producer);
    for (std::size_t k = 0; k < ops_.size() && ops_.size() < kMost; ++k)
      for (const std::int32_t input : problem_.ops[ops_[k]].inputs) {
        if (!problem_.is_again(input)) continue;
        // What is there anyhow is rarely made again.
        const double likely = runs_.read_behind(input, run) ? 0.02 : k == 0 ? 0.4 : 0.5;
        const std::int32_t maker = problem_.values[input].producer;
        if (chance_.part() < likely && std::ranges::find(ops_, maker) == ops_.end()) ops_.push_back(maker);
      }
    std::ranges::sort(ops_, [&](std::int32_t a, std::int32_t b) { return runs_.before(a, b); });
    for (const std::int32_t op : ops_) runs_.insert(op, run);
    return true;
  }

  // Shifts a further run by a few runs.
  bool shift_one() {
    if (runs_.further().empty()) return false;
    const RunSequence::Id run = runs_.further()[chance_.below(std::ssize(runs_.further()))];
    const RunSequence::Id to = neighbour(run, 8);
    const std::int32_t op = runs_.op_of(run);
    if (to == RunSequence::kNone || to == run || !runs_.before(op, to)) return false;
    runs_.insert(op, to);
    runs_.erase(run);
    return true;
  }

  bool reorder_one() {
    const auto run = static_cast<RunSequence::Id>(chance_.below(problem_.ops.size()));
    const RunSequence::Id to = neighbour(run, 12);
    return to != RunSequence::kNone && runs_.reorder(run, to);
  }

  // A run up to so many before or behind another.
  RunSequence::Id neighbour(RunSequence::Id run, std::int64_t most) {
    std::int64_t distance = 1 + chance_.below(most);
    const bool back = chance_.part() < 0.5;
    if (!back) ++distance;  // what stands right before the next run stands where it was
    for (; distance > 0 && run != RunSequence::kNone; --distance) run = back ? runs_.previous(run) : runs_.next(run);
    return run;
  }

  // Takes out the costliest further run that can go by itself, until none can.
  void erase_what_can_go() {
    for (bool any = true; any;) {
      any = false;
      std::vector<std::pair<double, RunSequence::Id>> by_gain;
      for (const RunSequence::Id run : std::vector(runs_.further())) {
        const double before = runs_.seconds();
        runs_.erase(run);
        runs_.settle();
        if (runs_.peak() <= limit_) by_gain.emplace_back(before - runs_.seconds(), run);
        runs_.undo();
      }
      if (by_gain.empty()) break;
      runs_.erase(std::ranges::max_element(by_gain)->second);
      runs_.settle();
      runs_.keep();
      remember();
      any = true;
    }
  }

  const RemakeProblem& problem_;
  RunSequence runs_;
  const std::int64_t limit_;
  const AnnealingEffort effort_;
  Chance chance_;
  double step_ = 0;
  double temperature_ = 0;
  double price_ = 0;  // seconds of a byte above the limit
  FoundSequence best_;
  double best_judged_ = 0;
  std::vector<std::int32_t> ops_;
};

}  // namespace

FoundSequence anneal(const RemakeProblem& problem, const std::vector<std::int32_t>& from, std::int64_t limit,
                     const AnnealingEffort& effort) {
  return Annealing(problem, from, limit, effort).run();
}

}  // namespace outsize
