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
      if (move % kBatch == 0) temperature_ = step_ * effort_.hottest * std::pow(effort_.coldest / effort_.hottest, progress);
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
      if (runs_.peak() <= limit_ && (!best_.found() || runs_.seconds() < best_.seconds - kNothing * step_)) remember();
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
  // Of what exceeds the limit: in steps a limit, for the sum over some runs, and for the most.
  static constexpr double kExcessSum = 2, kExcessMost = 0.4;
  static constexpr int kExcessRuns = 48;

  double cost_now() const {
    const std::int64_t above = runs_.peak() - limit_;
    if (above <= 0) return runs_.seconds();
    const double unit = step_ / static_cast<double>(limit_);
    return runs_.seconds() + unit * (kExcessSum * runs_.excess(limit_, kExcessRuns) + kExcessMost * static_cast<double>(above));
  }

  void remember() {
    if (runs_.peak() > limit_) return;
    best_ = {runs_.sequence(), runs_.seconds()};
  }

  bool change() {
    const double which = chance_.part();
    if (which < 0.40) return erase_one();
    if (which < 0.72) return insert_some(some_run());
    if (which < 0.82) return shift_one();
    if (which < 0.87) return reorder_one();
    return insert_some(some_run()) && erase_one();
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

  // Makes an input of a run again right before it, and perhaps some of what that takes.
  bool insert_some(RunSequence::Id run) {
    std::int32_t chosen = -1;
    std::int64_t seen = 0;
    for (const std::int32_t input : problem_.ops[runs_.op_of(run)].inputs)
      if (problem_.is_again(input) && problem_.values[input].bytes > kLeastBytes && chance_.below(++seen) == 0) chosen = input;
    if (chosen < 0) return false;
    const std::int32_t producer = problem_.values[chosen].producer;
    if (runs_.touched_before(chosen, run) == runs_.previous(run) || !runs_.before(producer, run)) return false;
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
  FoundSequence best_;
  std::vector<std::int32_t> ops_;
};

}  // namespace

FoundSequence anneal(const RemakeProblem& problem, const std::vector<std::int32_t>& from, std::int64_t limit,
                     const AnnealingEffort& effort) {
  return Annealing(problem, from, limit, effort).run();
}

}  // namespace outsize
