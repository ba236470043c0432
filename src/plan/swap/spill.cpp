#include "plan/swap/spill.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/bytes.h"
#include "graph/opdef.h"
#include "graph/storage.h"
#include "plan/swap/visits.h"

namespace outsize {

namespace {

// What goes to a lower tier: it is not needed on the device after one run, and must be gone after another.
struct Departure {
  ValueId value;
  std::int64_t bytes = 0;
  std::int32_t made = 0;  // the run that makes it
  std::int32_t after = 0;
  std::int32_t until = 0;
  Tier tier = Tier::host;
  std::int64_t copied_by = 0;  // the departure that copies it: a value that leaves again has been copied
};

// What the choice has leave: what waits through gaps, in the order of `swaps`; then what updates that the host runs read of the
// device (gradients, and what is known of them all); last the new versions of what lives in a lower tier.
Table<Departure> departures_of(const Graph& graph, const Lives& lives, const SpillChoice& choice, const Table<Visit>& visits) {
  const auto end = static_cast<std::int32_t>(choice.runs.size()) - 1;
  Table<Departure> found;
  Table<std::int64_t> copied_by(lives.all.size(), -1);  // by life
  const auto add = [&](std::int32_t k, std::int32_t after, std::int32_t until) {
    const Life& life = lives.all[k];
    if (copied_by[k] < 0) copied_by[k] = found.size();
    found.push_back({life.value, life.bytes, life.made, after, until, Tier::host, copied_by[k]});
  };
  for (const Swap& swap : choice.swaps) add(swap.life, swap.after, swap.before - 1);
  IdVector<ValueId, bool> read(graph.value_count(), false);
  for (std::int32_t p = 0; p < choice.runs.size(); ++p)
    if (runs_on_host(choice, p))
      for (ValueId input : graph.op(choice.runs[p]).inputs)
        if (!graph.value(input).persistent() && !graph.value(input).version_of) read[input] = true;
  for (auto k = static_cast<std::int32_t>(lives.all.size()); k-- > 0;) {  // of several lives the last
    const Life& life = lives.all[k];
    if (!read[life.value]) continue;
    read[life.value] = false;
    add(k, life.end, end);
  }
  for (const Visit& visit : visits)
    if (visit.next) found.push_back({visit.next, visit.bytes, visit.last, visit.last, end, Tier::host, found.size()});
  return found;
}

// A copy to the device: it must be there before a run, and may be from another on.
struct Arrival {
  std::int64_t bytes = 0;
  Tier tier = Tier::host;
  std::int32_t before = 0;
  std::int32_t earliest = 0;
  std::int32_t in = 0;  // chosen: it is there from before this run
  bool timed = false;   // `in` is given
};

// One direction of the runs on its own clock, the copies beside them one after the other. What is copied holds its bytes until it
// is copied whole; a run that they are too much for waits until enough is.
class Clock {
 public:
  // Bytes that a copy holds.
  struct Held {
    double until = 0;
    std::int64_t copy = 0;
    std::int64_t bytes = 0;
    auto operator<=>(const Held&) const = default;
  };

  // Returns when a copy is whole that the run before has made ready.
  double copy(double seconds) {
    const double begin = std::max(link_, now_);
    if (!runs_.empty()) runs_.back().needed = std::min(runs_.back().needed, begin);
    return link_ = begin + seconds;
  }
  void hold(const Held& held) {
    if (held_.insert(held).second) bytes_ += held.bytes;
  }
  // Waits until it is copied, where it is held.
  void wait_for(const Held& held) {
    if (held_.erase(held) == 0) return;
    bytes_ -= held.bytes;
    now_ = std::max(now_, held.until);
  }
  // The copies that are whole before a run beside which they may hold `room` bytes.
  std::vector<std::int64_t> release(std::int64_t room) {
    std::vector<std::int64_t> released;
    while (!held_.empty() && (bytes_ > room || held_.begin()->until <= now_)) {
      released.push_back(held_.begin()->copy);
      wait_for(Held(*held_.begin()));
    }
    return released;
  }
  void run(double seconds) {
    runs_.push_back({now_, seconds});
    now_ += seconds;
  }
  std::int64_t held_bytes() const { return bytes_; }

  // When each run of those so far begins, if of the time by which it could begin later, with the last ending and every copy
  // beginning no later than now, it takes all but the part `linger`.
  Table<double> begins(double linger) const {
    Table<double> begins(runs_.size(), 0);
    double latest = now_;
    for (std::int64_t k = runs_.size(); k-- > 0;) {
      latest = std::min(latest, runs_[k].needed) - runs_[k].seconds;
      begins[k] = latest + linger * (runs_[k].begin - latest);
    }
    return begins;
  }

 private:
  struct Run {
    double begin = 0, seconds = 0;
    double needed = std::numeric_limits<double>::infinity();  // when the first copy begins that it makes ready
  };
  double now_ = 0, link_ = 0;
  std::set<Held> held_;
  std::int64_t bytes_ = 0;
  Table<Run> runs_;
};

// The first run that begins once `end` is over; rounding apart.
std::int64_t first_after(const Table<double>& begins, double end) {
  constexpr double kRounding = 1e-9;
  return std::lower_bound(begins.begin(), begins.end(), end - kRounding) - begins.begin();
}

// Chooses when pieces end and copies start: as in the schedules of Beaumont et al., what leaves does so in the order it is made, as
// early as it can, and what comes back in the order it is needed, as late as it can; runs wait for copies where they must.
class Timer {
 public:
  Timer(const PlanRequest& request, const Lives& lives, Table<std::int64_t> tightest)
      : request_(request), lives_(lives), live_(std::move(tightest)) {}

  // Returns the run that each outlives.
  Table<std::int32_t> leave(const Table<Departure>& departures) {
    Table<std::vector<std::int64_t>> made(live_.size() + 1), idle(live_.size() + 1), due(live_.size() + 1);  // before each run
    Table<std::int32_t> drops;
    for (std::int64_t k = 0; k < departures.size(); ++k) {
      made[departures[k].made + 1].push_back(k);
      idle[departures[k].after + 1].push_back(k);
      due[departures[k].until + 1].push_back(k);
      drops.push_back(departures[k].until);
    }
    Table<double> gone(departures.size(), 0);  // when it is copied, which is once
    const auto held = [&](std::int64_t k) { return Clock::Held{gone[departures[k].copied_by], k, departures[k].bytes}; };
    const Device& device = request_.profile.device;
    Clock clock;
    for (std::int32_t p = 0; p < live_.size(); ++p) {
      for (std::int64_t k : made[p])
        if (double& end = gone[departures[k].copied_by]; end == 0)
          end = clock.copy(seconds(departures[k].bytes, departures[k].tier, device.link_out, device.disk_out));
      for (std::int64_t k : due[p]) clock.wait_for(held(k));
      for (std::int64_t k : idle[p]) clock.hold(held(k));
      for (std::int64_t k : clock.release(room(p))) drops[k] = p - 1;
      live_[p] += clock.held_bytes();
      clock.run(lives_.seconds[p]);
    }
    if (request_.linger >= 1) return drops;
    const Table<double> begins = clock.begins(request_.linger);
    for (std::int64_t k = 0; k < departures.size(); ++k) {
      const auto last = static_cast<std::int32_t>(first_after(begins, gone[departures[k].copied_by])) - 1;
      while (drops[k] > std::max(last, departures[k].after)) live_[drops[k]--] -= departures[k].bytes;
    }
    return drops;
  }

  void come_back(Table<Arrival>& arrivals) {
    Table<std::vector<std::int64_t>> read(live_.size() + 1), due(live_.size() + 1);  // by run
    for (std::int64_t k = 0; k < arrivals.size(); ++k) {
      if (arrivals[k].timed) continue;
      read[arrivals[k].before].push_back(k);
      due[arrivals[k].earliest].push_back(k);
      arrivals[k].in = arrivals[k].earliest;
    }
    Table<Clock::Held> held(arrivals.size());
    const Device& device = request_.profile.device;
    Clock clock;  // from the last run to the first
    for (auto p = static_cast<std::int32_t>(live_.size()); p-- > 0;) {
      for (std::int64_t k : due[p + 1]) clock.wait_for(held[k]);
      for (std::int64_t k : clock.release(room(p))) arrivals[k].in = p + 1;
      live_[p] += clock.held_bytes();
      clock.run(lives_.seconds[p]);
      for (std::int64_t k : read[p]) {
        const Arrival& arrival = arrivals[k];
        held[k] = {clock.copy(seconds(arrival.bytes, arrival.tier, device.link_in, device.disk_in)), k, arrival.bytes};
        clock.hold(held[k]);
      }
    }
    if (request_.linger >= 1) return;
    const Table<double> begins = clock.begins(request_.linger);
    for (std::int64_t k = 0; k < arrivals.size(); ++k) {
      if (arrivals[k].timed) continue;
      const auto first = static_cast<std::int32_t>(live_.size() - first_after(begins, held[k].until));
      while (arrivals[k].in < std::min(first, arrivals[k].before)) live_[arrivals[k].in++] -= arrivals[k].bytes;
    }
  }

 private:
  double seconds(std::int64_t bytes, Tier tier, double link, double disk) const {
    const auto count = static_cast<double>(bytes);
    return request_.profile.device.launch_seconds + count / link + (tier == Tier::disk ? count / disk : 0);
  }
  // What may be beside a run.
  std::int64_t room(std::int64_t run) const {
    if (!request_.limited()) return std::numeric_limits<std::int64_t>::max();
    const auto at = static_cast<std::size_t>(run);
    const std::int64_t gap = at < request_.gaps_at.size() ? request_.gaps_at[at] : 0;
    return limit_of(request_) - std::max(request_.gaps, gap) - live_[run];
  }

  const PlanRequest& request_;
  const Lives& lives_;
  Table<std::int64_t> live_;  // bytes during each run
};

// The most that an update run by the host takes of its memory at once, wherever its values live.
std::int64_t largest_update(const PlanRequest& request, const SpillChoice& choice) {
  std::int64_t largest = 0;
  for (std::int32_t p = 0; p < choice.runs.size(); ++p) {
    if (!runs_on_host(choice, p)) continue;
    const Op& op = request.graph.op(choice.runs[p]);
    std::int64_t bytes = 0;
    for (ValueId input : op.inputs) bytes += packed_bytes(request, input);
    for (ValueId output : op.outputs)
      if (!request.graph.value(output).version_of) bytes += packed_bytes(request, output);
    largest = std::max(largest, bytes);
  }
  return largest;
}

// Host memory first; what does not fit there any more goes to disk, where there is one.
class Tiers {
 public:
  // `largest`: what goes to disk passes through host memory where there is any, so much of it at a time.
  Tiers(const Budgets& budgets, std::int64_t total, std::int64_t largest)
      : has_disk_(budgets.disk > 0), left_(budgets.host - (has_disk_ && total > budgets.host ? largest : 0)) {}
  Tier take(std::int64_t bytes) {
    if (bytes > left_ && has_disk_) return Tier::disk;
    left_ -= bytes;
    return Tier::host;
  }

 private:
  bool has_disk_;
  std::int64_t left_;
};

}  // namespace

std::optional<Swap> gap_of(const Lives& lives, std::int32_t index) {
  const Life& life = lives.all[index];
  const auto first = std::lower_bound(life.uses.begin(), life.uses.end(), lives.backward);
  if (first == life.uses.end() || life.made >= lives.backward) return std::nullopt;
  const std::int32_t after = first == life.uses.begin() ? std::max(life.made, 0) : *(first - 1);
  if (*first - after < 2) return std::nullopt;
  return Swap{index, after, *first, Tier::host};
}

std::vector<Swap> activation_gaps(const Lives& lives) {
  std::vector<Swap> gaps;
  for (std::int32_t k = 0; k < lives.all.size(); ++k)
    if (lives.all[k].made >= 0)
      if (const auto gap = gap_of(lives, k)) gaps.push_back(*gap);
  return gaps;
}

IdVector<OpId, bool> host_updates(const PlanRequest& request, const IdVector<ValueId, bool>& wanted) {
  if (request.budgets.host == 0) return {};
  const IdVector<ValueId, bool> away = away_of(request, wanted);
  IdVector<OpId, bool> updates;
  for (const Op& op : request.graph.ops())
    updates.push_back(op.phase == Phase::update && std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId input) {
                        return !request.graph.value(input).persistent() || away[input];
                      }));
  return updates;
}

Table<std::int64_t> tightest_bytes(const PlanRequest& request, const Lives& lives, const SpillChoice& choice) {
  return tightest_bytes(request, lives, choice, visits_of(request, choice));
}

Table<std::int64_t> tightest_bytes(const PlanRequest& request, const Lives& lives, const SpillChoice& choice,
                                   const Table<Visit>& visits) {
  Table<std::int64_t> sums = lives.bytes();
  Table<std::int64_t> change(sums.size() + 1, 0);
  for (const Swap& swap : choice.swaps) {
    change[swap.after + 1] -= lives.all[swap.life].bytes;
    change[swap.before] += lives.all[swap.life].bytes;
  }
  const IdVector<ValueId, bool> away = away_of(request, choice);
  for (std::int64_t v = 0; v < away.size(); ++v)
    if (away[ValueId(v)]) change[0] -= packed_bytes(request, ValueId(v));
  for (const Visit& visit : visits) {
    change[visit.first] += visit.bytes;
    change[visit.last + 1] -= visit.bytes;
  }
  std::int64_t sum = 0;
  for (std::int64_t p = 0; p < sums.size(); ++p) sums[p] += sum += change[p];
  return sums;
}

Planned<Plan> spill_plan(const PlanRequest& request, std::string_view planner, const Lives& lives, SpillChoice choice) {
  const Table<Visit> visits = visits_of(request, choice);
  const Table<std::int64_t> tightest = tightest_bytes(request, lives, choice, visits);
  const auto peak = std::max_element(tightest.begin(), tightest.end());
  Plan plan;
  plan.name = request.graph.name;
  plan.planner = planner;
  Table<Departure> departures = departures_of(request.graph, lives, choice, visits);
  const auto copied = [&](std::int64_t k) { return departures[k].copied_by == k; };
  const auto goes_home = [&](std::int64_t k) { return request.graph.value(departures[k].value).version_of.valid(); };

  std::vector<ValueId> homeless;  // away, in the order of the graph
  const IdVector<ValueId, bool> away = away_of(request, choice);
  for (std::int64_t v = 0; v < away.size(); ++v)
    if (away[ValueId(v)]) homeless.emplace_back(v);
  std::int64_t total = 0, largest = 0;
  const auto count = [&](std::int64_t bytes) { total += bytes, largest = std::max(largest, bytes); };
  for (std::int64_t v = 0; v < request.graph.value_count(); ++v)
    if (choice.splits.streams(ValueId(v))) homeless.emplace_back(v);
  for (ValueId value : homeless) count(packed_bytes(request, value));
  for (std::int64_t k = 0; k < departures.size(); ++k)
    if (copied(k) && !goes_home(k)) count(departures[k].bytes);
  largest = std::max(largest, largest_update(request, choice));
  if (total > 0 && request.budgets.host == 0 && request.budgets.disk == 0) {
    Refusal refusal = refusal_of(request, planner, total, choice.runs[peak - tightest.begin()]);
    refusal.tier = Tier::host;
    refusal.budget = 0;
    return refusal;
  }
  if (peak != tightest.end() && *peak > limit_of(request))
    return refusal_of(request, planner, *peak, choice.runs[peak - tightest.begin()]);
  Tiers tiers(request.budgets, total, largest);
  for (ValueId value : homeless) {
    const auto known = request.homes.find(request.graph.value(value).name);
    plan.home[value] = known != request.homes.end() ? known->second : tiers.take(packed_bytes(request, value));
  }
  for (std::int64_t v = 0; v < request.graph.value_count(); ++v)
    if (request.graph.value(ValueId(v)).role == Role::input && only_read_by(request.graph, ValueId(v), choice.on_host))
      plan.home[ValueId(v)] = Tier::host;
  for (std::int64_t k = 0; k < departures.size(); ++k) {
    Departure& going = departures[k];
    if (goes_home(k))
      going.tier = plan.home[request.graph.value(going.value).version_of];
    else
      going.tier = copied(k) ? tiers.take(going.bytes) : departures[going.copied_by].tier;
  }

  Timer timer(request, lives, tightest);
  Table<std::int32_t> drops;
  if (choice.timed)
    for (const Departure& going : departures) drops.push_back(going.after);
  else
    drops = timer.leave(departures);
  Table<Arrival> arrivals;
  for (std::int64_t k = 0; k < std::ssize(choice.swaps); ++k) {
    const Swap& swap = choice.swaps[k];
    const Life& life = lives.all[swap.life];
    const std::int32_t use = *std::lower_bound(life.uses.begin(), life.uses.end(), swap.before);
    arrivals.push_back({life.bytes, departures[k].tier, use, drops[k] + 1, swap.before, choice.timed});
  }
  for (const Visit& visit : visits)
    arrivals.push_back({visit.bytes, plan.home[visit.value], visit.first, visit.earliest, visit.first, false});
  timer.come_back(arrivals);

  const auto value = [&](std::int64_t k) {
    return k < std::ssize(choice.swaps) ? lives.all[choice.swaps[k].life].value : visits[k - std::ssize(choice.swaps)].value;
  };
  const Runs& runs = choice.runs;
  Table<std::vector<std::int64_t>> out(runs.size() + 1), in(runs.size());  // before each run
  Table<std::vector<Step>> after(runs.size());
  for (std::int64_t k = 0; k < departures.size(); ++k) {
    const Departure& going = departures[k];
    if (copied(k) && drops[k] == going.made)  // nothing reads it before its gap: it leaves before its drop
      after[going.made].push_back(OutStep{going.value, going.tier});
    else if (copied(k))
      out[going.made + 1].push_back(k);
    after[drops[k]].push_back(DropStep{going.value});
  }
  for (const Visit& visit : visits)
    if (!visit.next) after[visit.last].push_back(DropStep{visit.value});
  for (std::int64_t k = 0; k < arrivals.size(); ++k) in[arrivals[k].in].push_back(k);
  for (std::int32_t p = 0; p < runs.size(); ++p) {
    for (std::int64_t k : out[p]) plan.steps.push_back(OutStep{departures[k].value, departures[k].tier});
    // The first needed goes first.
    std::stable_sort(in[p].begin(), in[p].end(),
                     [&](std::int64_t a, std::int64_t b) { return arrivals[a].before < arrivals[b].before; });
    for (std::int64_t k : in[p]) plan.steps.push_back(InStep{value(k)});
    if (const SplitRun* split = choice.splits.at(p)) {
      plan.steps.push_back(PassStep{static_cast<int>(plan.passes.size())});
      plan.passes.push_back(split->pass);
    } else {
      plan.steps.push_back(RunStep{runs[p], runs_on_host(choice, p) ? Tier::host : Tier::device});
    }
    plan.steps.insert(plan.steps.end(), after[p].begin(), after[p].end());
  }
  return plan;
}

}  // namespace outsize
