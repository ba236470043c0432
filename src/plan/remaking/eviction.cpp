#include "plan/remaking/eviction.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace outsize {

namespace {

bool has(const std::vector<std::int32_t>& list, std::int32_t item) { return std::ranges::find(list, item) != list.end(); }

}  // namespace

Evictor::Evictor(const RemakeProblem& problem) : problem_(problem), uses_(problem.values.size()) {
  const auto count = static_cast<std::int32_t>(problem.ops.size());
  for (std::int32_t k = 0; k < count; ++k) {
    begins_.push_back(all_seconds_);
    all_seconds_ += problem.ops[k].seconds;
    for (const std::int32_t input : problem.ops[k].inputs) uses_[input].push_back(k);
  }
  begins_.push_back(all_seconds_);
  for (std::int32_t v = 0; v < problem.values.size(); ++v) {
    const RemakeProblem::Value& value = problem.values[v];
    for (const std::int32_t index : value.updates) {
      const RemakeProblem::Update& update = problem.updates[index];
      std::int32_t last = 0;
      for (const auto* ops : {&update.after_first, &update.after_all})
        for (const std::int32_t op : *ops) last = std::max(last, op);
      if (last > value.producer) uses_[v].push_back(last);
    }
    if (value.lasts) uses_[v].push_back(count);
    std::ranges::sort(uses_[v]);
  }
}

Eviction Evictor::run(std::int64_t limit, const EvictionRule& rule) {
  limit_ = limit;
  rule_ = &rule;
  result_ = {};
  live_ = problem_.persistent;
  const std::int64_t values = problem_.values.size();
  use_at_.assign(values, 0);
  for (Table<std::int8_t>* flags : {&there_, &made_, &held_}) flags->assign(values, 0);
  wanted_soon_.assign(values, 0);
  wants_.clear();
  need_.assign(values, 0);
  stamp_.assign(problem_.ops.size(), 0);
  stamped_ = 0;
  for (std::int32_t v = 0; v < values; ++v)
    if (problem_.values[v].producer < 0) {
      there_[v] = made_[v] = 1;
      live_ += problem_.values[v].bytes;
    }
  for (now_ = 0; now_ < problem_.ops.size(); ++now_) {
    if (!bring_inputs(now_) || !execute(now_, true)) {
      result_.reached = now_;
      return std::move(result_);
    }
    end_behind(now_);
  }
  result_.reached = now_;
  result_.fits = true;
  return std::move(result_);
}

// The first base op, from the one at hand on, that uses a value.
std::int32_t Evictor::next_use(std::int32_t value) {
  const std::vector<std::int32_t>& uses = uses_[value];
  std::int32_t& at = use_at_[value];
  while (at < std::ssize(uses) && uses[at] < now_) ++at;
  return at < std::ssize(uses) ? uses[at] : kNever;
}

std::int32_t Evictor::use_after(std::int32_t value) const {
  const std::vector<std::int32_t>& uses = uses_[value];
  const auto at = std::upper_bound(uses.begin() + use_at_[value], uses.end(), now_);
  return at == uses.end() ? kNever : *at;
}

void Evictor::find_needs() {
  for (std::int32_t v = 0; v < need_.size(); ++v) need_[v] = next_use(v);
  for (auto k = static_cast<std::int32_t>(problem_.ops.size()); k-- > 0;) {
    const RemakeProblem::Op& op = problem_.ops[k];
    if (!op.again) continue;
    std::int32_t first = kNever;
    for (const std::int32_t output : op.outputs)
      if (!there_[output] && made_[output]) first = std::min(first, need_[output]);
    if (first < kNever)
      for (const std::int32_t input : op.inputs) need_[input] = std::min(need_[input], first);
  }
}

// What is gone needs its ancestors no later than it is needed itself.
void Evictor::pass_need_on(std::int32_t value) {
  stack_.assign(1, value);
  while (!stack_.empty()) {
    const std::int32_t of = stack_.back();
    stack_.pop_back();
    for (const std::int32_t input : problem_.ops[problem_.values[of].producer].inputs) {
      if (need_[of] >= need_[input]) continue;
      need_[input] = need_[of];
      if (!there_[input] && problem_.values[input].producer >= 0) stack_.push_back(input);
    }
  }
}

// The seconds of making a value again: its producer and all of its ancestors that are not there, each once. Where they are more
// than `most`, any number above that.
double Evictor::chain(std::int32_t value, double most) {
  ++stamped_;
  double seconds = 0;
  stack_.assign(1, problem_.values[value].producer);
  stamp_[stack_[0]] = stamped_;
  while (!stack_.empty() && !(seconds > most)) {
    const RemakeProblem::Op& op = problem_.ops[stack_.back()];
    stack_.pop_back();
    seconds += op.seconds;
    for (const std::int32_t input : op.inputs) {
      const std::int32_t producer = problem_.values[input].producer;
      if (there_[input] || producer < 0 || stamp_[producer] == stamped_) continue;
      stamp_[producer] = stamped_;
      stack_.push_back(producer);
    }
  }
  return seconds;
}

double Evictor::score(std::int32_t value, double least) {
  // What ops that are about to run read goes last: it would be made again at once.
  constexpr double kWantedSoon = 3e7;
  // Distances in seconds are thousandths of the step, and never nothing.
  constexpr double kThousand = 1000, kLeast = 0.01;
  const double distance =
      rule_->distance_in_seconds
          ? (begins_[std::min<std::int64_t>(need_[value], begins_.size() - 1)] - begins_[now_]) / all_seconds_ * kThousand + kLeast
          : need_[value] - now_ + 1;
  const double far = rule_->distance_power == 0 ? 1 : std::pow(distance, rule_->distance_power);
  const double key = rule_->keys.empty() ? 1 : rule_->keys[value];
  const double reach = static_cast<double>(problem_.values[value].bytes) * far, soon = wanted_soon_[value] > 0 ? kWantedSoon : 1;
  // No more of a long chain is looked at than tells that the score is not the least; what rounding may move is left to the score.
  constexpr double kAbout = 1 + 1e-9;
  const double most_cost = least / soon * reach / key;
  const double seconds = chain(value, kAbout * (rule_->cost_power == 1 ? most_cost : std::pow(most_cost, 1 / rule_->cost_power)));
  const double cost = rule_->cost_power == 1 ? seconds : std::pow(seconds, rule_->cost_power);
  return key * cost / reach * soon;
}

void Evictor::drop(std::int32_t value) {
  there_[value] = 0;
  live_ -= problem_.values[value].bytes;
  lost_wanted_ = lost_wanted_ || wanted_soon_[value] > 0;
}

// Evicts until so many bytes more are free, or as many less as inputs are overwritten.
bool Evictor::make_room(std::int64_t wanted) {
  if (live_ + wanted <= limit_) return true;
  find_needs();
  candidates_.clear();
  for (std::int32_t v = 0; v < there_.size(); ++v) {
    if (!there_[v] || held_[v] || !problem_.is_again(v) || problem_.values[v].bytes == 0) continue;
    if (need_[v] >= kNever && wanted_soon_[v] == 0)
      drop(v);
    else
      candidates_.push_back(v);
  }
  candidates_.insert(candidates_.end(), may_be_overwritten_.begin(), may_be_overwritten_.end());
  while (live_ + wanted > limit_) {
    std::int32_t best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (const std::int32_t v : candidates_) {
      if (!there_[v] || (held_[v] && has(overwritten_, v))) continue;
      if (const double of = score(v, least); of < least) least = of, best = v;
    }
    if (best < 0) return false;
    if (held_[best]) {
      overwritten_.push_back(best);
      wanted -= problem_.values[best].bytes;
      continue;
    }
    drop(best);
    pass_need_on(best);
  }
  return true;
}

// The inputs whose bytes outputs of the op take: those that nothing uses behind it, and, only where room lacks, those that would
// have to be made again.
void Evictor::find_overwritten(std::int32_t index, bool base, std::int64_t& wanted) {
  overwritten_.clear();
  may_be_overwritten_.clear();
  std::vector<std::int32_t> outputs;
  for (const auto& [output, input] : problem_.ops[index].overwrites) {
    if (there_[output] || has(outputs, output) || has(overwritten_, input) || has(may_be_overwritten_, input)) continue;
    const std::int32_t later = base ? use_after(input) : next_use(input);
    if (!base && (wanted_soon_[input] > 1 || later == now_)) continue;  // it is read again at once
    if (later == kNever) {
      overwritten_.push_back(input);
      wanted -= problem_.values[input].bytes;
    } else if (problem_.is_again(input)) {
      may_be_overwritten_.push_back(input);
    } else {
      continue;
    }
    outputs.push_back(output);
  }
}

bool Evictor::execute(std::int32_t index, bool base) {
  const RemakeProblem::Op& op = problem_.ops[index];
  std::int64_t wanted = op.workspace;
  for (const std::int32_t output : op.outputs)
    if (!there_[output]) wanted += problem_.values[output].bytes;
  for (const std::int32_t input : op.inputs) held_[input] = 1;
  find_overwritten(index, base, wanted);
  const bool fits = make_room(wanted);
  for (const std::int32_t input : op.inputs) held_[input] = 0;
  if (!fits) return false;
  for (const std::int32_t input : overwritten_) {
    there_[input] = 0;
    live_ -= problem_.values[input].bytes;
  }
  result_.sequence.push_back(index);
  for (const std::int32_t output : op.outputs) {
    if (there_[output]) continue;
    there_[output] = made_[output] = 1;
    live_ += problem_.values[output].bytes;
  }
  return true;
}

bool Evictor::lacks_input(std::int32_t op) const {
  return std::ranges::any_of(problem_.ops[op].inputs, [&](std::int32_t input) { return !there_[input]; });
}

void Evictor::want_soon(std::int32_t value) {
  ++wanted_soon_[value];
  wants_.push_back(value);
}

void Evictor::forget_wants() {
  for (const std::int32_t value : wants_) wanted_soon_[value] = 0;
  wants_.clear();
}

// The ops that must run again for the inputs of one, in the order of forward: depth first would hold more meanwhile.
std::vector<std::int32_t> Evictor::lacking_ops(std::int32_t index) {
  ++stamped_;
  forget_wants();
  std::vector<std::int32_t> ops;
  const auto look_at = [&](std::int32_t op) {
    for (const std::int32_t input : problem_.ops[op].inputs) {
      want_soon(input);
      const std::int32_t producer = problem_.values[input].producer;
      if (there_[input] || producer < 0 || stamp_[producer] == stamped_) continue;
      stamp_[producer] = stamped_;
      ops.push_back(producer);
    }
  };
  look_at(index);
  for (std::size_t k = 0; k < ops.size(); ++k) look_at(ops[k]);
  std::ranges::sort(ops);
  return ops;
}

bool Evictor::bring_inputs(std::int32_t index) {
  for (int attempt = 0; lacks_input(index); ++attempt) {
    const std::vector<std::int32_t> ops = lacking_ops(index);
    lost_wanted_ = false;
    if (ops.empty() || attempt == kTries) {
      blame(index, ops.empty() ? index : ops.back());
      return false;
    }
    for (const std::int32_t op : ops) {
      const bool endless = std::ssize(result_.sequence) > kLongest * problem_.ops.size();
      if (endless || !problem_.ops[op].again || !execute(op, false)) {
        blame(index, op);
        return false;
      }
      for (const std::int32_t input : problem_.ops[op].inputs)
        if (wanted_soon_[input] > 0) --wanted_soon_[input];
      if (lost_wanted_) break;
    }
  }
  forget_wants();
  return true;
}

// What only backward makes, or what came with the batch, ends with its last use.
void Evictor::end_behind(std::int32_t index) {
  const RemakeProblem::Op& op = problem_.ops[index];
  const auto end = [&](std::int32_t value) {
    if (!there_[value] || problem_.is_again(value) || use_after(value) != kNever) return;
    there_[value] = 0;
    live_ -= problem_.values[value].bytes;
  };
  for (const std::int32_t input : op.inputs) end(input);
  for (const std::int32_t output : op.outputs) end(output);
  for (const std::int32_t update : op.updates)
    for (const std::int32_t value : problem_.updates[update].reads) end(value);
}

// All between the op that did not fit and the one that wanted it, which depends on its results and is not there.
void Evictor::blame(std::int32_t index, std::int32_t failed) {
  std::vector<std::int32_t>& blamed = result_.blamed;
  Table<bool> behind(problem_.ops.size(), false);
  behind[failed] = true;
  blamed = problem_.ops[failed].outputs;
  for (std::int32_t k = failed + 1; k < index; ++k) {
    const RemakeProblem::Op& op = problem_.ops[k];
    if (!op.again) continue;
    const bool follows = std::ranges::any_of(op.inputs, [&](std::int32_t input) {
      const std::int32_t producer = problem_.values[input].producer;
      return producer >= 0 && behind[producer] && !there_[input];
    });
    const bool lacks = std::ranges::any_of(op.outputs, [&](std::int32_t output) { return !there_[output]; });
    if (!follows || !lacks) continue;
    behind[k] = true;
    blamed.insert(blamed.end(), op.outputs.begin(), op.outputs.end());
  }
}

}  // namespace outsize
