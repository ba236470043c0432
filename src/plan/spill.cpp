#include "plan/spill.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/bytes.h"
#include "graph/opdef.h"
#include "graph/storage.h"

namespace outsize {

namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// Sums over positions: add to a range, ask for the most in a range; O(log n) both.
class RangeMax {
 public:
  explicit RangeMax(const std::vector<std::int64_t>& values) {
    while (size_ < values.size()) size_ *= 2;
    most_.assign(2 * size_, std::numeric_limits<std::int64_t>::min() / 4);
    added_.assign(2 * size_, 0);
    std::copy(values.begin(), values.end(), most_.begin() + static_cast<std::ptrdiff_t>(size_));
    for (std::size_t node = size_; node-- > 1;) most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
  }
  // Both over positions [from, to]; an empty range adds nothing and has no bytes.
  void add(std::int64_t from, std::int64_t to, std::int64_t bytes) {
    if (from <= to) add(1, 0, static_cast<std::int64_t>(size_) - 1, from, to, bytes);
  }
  std::int64_t most(std::int64_t from, std::int64_t to) const {
    return from <= to ? most(1, 0, static_cast<std::int64_t>(size_) - 1, from, to) : 0;
  }

 private:
  void add(std::size_t node, std::int64_t low, std::int64_t high, std::int64_t from, std::int64_t to, std::int64_t bytes) {
    if (to < low || high < from) return;
    if (from <= low && high <= to) {
      most_[node] += bytes;
      added_[node] += bytes;
      return;
    }
    const std::int64_t middle = (low + high) / 2;
    add(2 * node, low, middle, from, to, bytes);
    add(2 * node + 1, middle + 1, high, from, to, bytes);
    most_[node] = std::max(most_[2 * node], most_[2 * node + 1]) + added_[node];
  }
  std::int64_t most(std::size_t node, std::int64_t low, std::int64_t high, std::int64_t from, std::int64_t to) const {
    if (to < low || high < from) return std::numeric_limits<std::int64_t>::min() / 4;
    if (from <= low && high <= to) return most_[node];
    const std::int64_t middle = (low + high) / 2;
    return std::max(most(2 * node, low, middle, from, to), most(2 * node + 1, middle + 1, high, from, to)) + added_[node];
  }

  std::size_t size_ = 1;
  std::vector<std::int64_t> most_, added_;
};

// A stay on the device of a persistent value that lives elsewhere.
struct Visit {
  ValueId value;
  std::int64_t bytes = 0;
  std::int32_t first = 0, last = 0;  // runs
  std::int32_t earliest = 0;         // it may come back from here on
  ValueId next;                      // its new version, where a run of the visit updates it
};

std::int64_t bytes_of(const PlanRequest& request, ValueId id) {
  const ValueType& type = request.graph.value(id).type;
  return align_up(stored_bytes(request.storage, type, type.shape), kPieceAlignment);
}

bool runs_on_host(const SpillChoice& choice, std::int32_t run) {
  return !choice.on_host.empty() && choice.on_host[at(choice.runs[at(run)].index)];
}

std::vector<bool> away_of(const PlanRequest& request, std::vector<bool> away) {
  const Graph& graph = request.graph;
  away.resize(at(graph.value_count()), false);
  for (const auto& [name, tier] : request.homes)
    if (const ValueId id = graph.find_value(name)) away[at(id.index)] = tier != Tier::device;
  return away;
}

std::vector<Visit> visits_of(const PlanRequest& request, const SpillChoice& choice) {
  const Graph& graph = request.graph;
  const std::vector<bool> away = away_of(request, choice.away);
  std::vector<Visit> visits;
  std::vector<std::int64_t> newest(at(graph.value_count()), -1);  // index into visits
  for (std::size_t p = 0; p < choice.runs.size(); ++p) {
    const auto run = static_cast<std::int32_t>(p);
    if (runs_on_host(choice, run)) continue;
    const Op& op = graph.op(choice.runs[p]);
    const auto visit = [&](ValueId id) -> Visit& {
      std::int64_t& found = newest[at(id.index)];
      if (found < 0 || run - visits[at(found)].last > choice.near) {
        const std::int64_t bytes = bytes_of(request, id);
        const std::int32_t earliest = found < 0 ? 0 : visits[at(found)].last + 1;
        found = static_cast<std::int64_t>(visits.size());
        visits.push_back({id, bytes, run, run, earliest, {}});
      }
      visits[at(found)].last = run;
      return visits[at(found)];
    };
    for (ValueId input : op.inputs)
      if (away[at(input.index)]) visit(input);
    for (ValueId output : op.outputs)
      if (const ValueId old = graph.value(output).version_of; old && away[at(old.index)]) visit(old).next = output;
  }
  return visits;
}

// What goes to a lower tier: it is not needed on the device after one run, and must be gone after another.
struct Departure {
  std::int32_t life = 0;
  std::int32_t after = 0;
  std::int32_t until = 0;
  Tier tier = Tier::host;
};

// What the updates that the host runs read of the device: gradients, and what is known of them all.
std::vector<Departure> sent_to_host(const Graph& graph, const Lives& lives, const SpillChoice& choice) {
  std::vector<bool> read(at(graph.value_count()), false);
  for (std::size_t p = 0; p < choice.runs.size(); ++p)
    if (runs_on_host(choice, static_cast<std::int32_t>(p)))
      for (ValueId input : graph.op(choice.runs[p]).inputs)
        if (!graph.value(input).persistent() && !graph.value(input).version_of) read[at(input.index)] = true;
  std::vector<Departure> sent;
  for (std::size_t k = lives.all.size(); k-- > 0;) {  // of several lives the last
    const Life& life = lives.all[k];
    if (!read[at(life.value.index)]) continue;
    read[at(life.value.index)] = false;
    sent.push_back({static_cast<std::int32_t>(k), life.end, static_cast<std::int32_t>(choice.runs.size()) - 1, Tier::host});
  }
  return sent;
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

// Chooses when pieces end and copies start.
class Timer {
 public:
  Timer(const PlanRequest& request, const Lives& lives, const std::vector<std::int64_t>& tightest)
      : request_(request), lives_(lives), live_(tightest), starts_(lives.seconds.size() + 1, 0.0) {
    std::partial_sum(lives.seconds.begin(), lives.seconds.end(), starts_.begin() + 1);
  }

  // In the order they are made, one after the other over the link: each stays until it has left, or as long as there is room.
  // Returns the run that each outlives.
  std::vector<std::int32_t> leave(const std::vector<Departure>& departures) {
    const Device& device = request_.profile.device;
    std::vector<std::int32_t> drops(departures.size());
    double free = 0;
    for (std::size_t k : order_by(departures.size(), [&](std::size_t i) { return lives_.all[at(departures[i].life)].made; })) {
      const Departure& going = departures[k];
      const Life& life = lives_.all[at(going.life)];
      free = std::max(free, starts_[at(life.made + 1)]) + seconds(life.bytes, going.tier, device.link_out, device.disk_out);
      // The first run that ends after the copy has.
      const auto gone =
          std::lower_bound(starts_.begin() + going.after + 1, starts_.begin() + going.until + 1, free) - starts_.begin();
      std::int64_t low = going.after, high = std::clamp<std::int64_t>(gone - 1, going.after, going.until);
      while (low < high) {  // the latest end that fits
        const std::int64_t middle = (low + high + 1) / 2;
        if (fits(going.after + 1, middle, life.bytes))
          low = middle;
        else
          high = middle - 1;
      }
      live_.add(going.after + 1, low, life.bytes);
      drops[k] = static_cast<std::int32_t>(low);
    }
    return drops;
  }

  // From the last that is needed to the first: each starts so that it arrives just in time, if there is room so early.
  void come_back(std::vector<Arrival>& arrivals) {
    const Device& device = request_.profile.device;
    double next = std::numeric_limits<double>::infinity();
    for (std::size_t k : order_by(arrivals.size(), [&](std::size_t i) { return -arrivals[i].before; })) {
      Arrival& arrival = arrivals[k];
      if (arrival.timed) continue;
      next = std::min(next, starts_[at(arrival.before)]) - seconds(arrival.bytes, arrival.tier, device.link_in, device.disk_in);
      // The last run that starts before the copy has to.
      const auto begun = std::upper_bound(starts_.begin(), starts_.begin() + arrival.before + 1, next) - starts_.begin();
      std::int64_t low = std::clamp<std::int64_t>(begun - 1, arrival.earliest, arrival.before), high = arrival.before;
      while (low < high) {  // the earliest return that fits
        const std::int64_t middle = (low + high) / 2;
        if (fits(middle, arrival.before - 1, arrival.bytes))
          high = middle;
        else
          low = middle + 1;
      }
      live_.add(low, arrival.before - 1, arrival.bytes);
      arrival.in = static_cast<std::int32_t>(low);
    }
  }

 private:
  double seconds(std::int64_t bytes, Tier tier, double link, double disk) const {
    const auto count = static_cast<double>(bytes);
    return request_.profile.device.launch_seconds + count / link + (tier == Tier::disk ? count / disk : 0);
  }
  bool fits(std::int64_t from, std::int64_t to, std::int64_t bytes) const {
    return request_.device_budget == 0 || live_.most(from, to) + bytes <= limit_of(request_) - request_.gaps;
  }
  template <class Key>
  static std::vector<std::size_t> order_by(std::size_t count, Key key) {
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
    return order;
  }

  const PlanRequest& request_;
  const Lives& lives_;
  RangeMax live_;
  std::vector<double> starts_;  // of each run, if none ever waited
};

// The most that an update run by the host takes of its memory at once, wherever its values live.
std::int64_t largest_update(const PlanRequest& request, const SpillChoice& choice) {
  std::int64_t largest = 0;
  for (std::size_t p = 0; p < choice.runs.size(); ++p) {
    if (!runs_on_host(choice, static_cast<std::int32_t>(p))) continue;
    const Op& op = request.graph.op(choice.runs[p]);
    std::int64_t bytes = 0;
    for (ValueId input : op.inputs) bytes += bytes_of(request, input);
    for (ValueId output : op.outputs)
      if (!request.graph.value(output).version_of) bytes += bytes_of(request, output);
    largest = std::max(largest, bytes);
  }
  return largest;
}

// Host memory first; what does not fit there any more goes to disk, where the request allows it.
class Tiers {
 public:
  // `largest`: what goes to disk passes through host memory, so much of it at a time.
  Tiers(const PlanRequest& request, std::int64_t total, std::int64_t largest)
      : request_(request), left_(request.host_budget - (request.spill && total > request.host_budget ? largest : 0)) {}
  Tier take(std::int64_t bytes) {
    if (request_.host_budget == 0) return Tier::host;
    if (bytes > left_ && request_.spill) return Tier::disk;
    left_ -= bytes;
    return Tier::host;
  }

 private:
  const PlanRequest& request_;
  std::int64_t left_;
};

}  // namespace

std::optional<Swap> gap_of(const Graph& graph, const Runs& runs, const Lives& lives, std::int32_t index) {
  const Life& life = lives.all[at(index)];
  const auto backward = [&](std::int32_t run) { return graph.op(runs[at(run)]).phase == Phase::backward; };
  const auto first = std::find_if(life.uses.begin(), life.uses.end(), backward);
  if (first == life.uses.end() || (life.made >= 0 && backward(life.made))) return std::nullopt;
  const std::int32_t after = first == life.uses.begin() ? std::max(life.made, 0) : *(first - 1);
  if (*first - after < 2) return std::nullopt;
  return Swap{index, after, *first, Tier::host};
}

std::vector<Swap> activation_gaps(const Graph& graph, const Runs& runs, const Lives& lives) {
  std::vector<Swap> gaps;
  for (std::size_t k = 0; k < lives.all.size(); ++k)
    if (lives.all[k].made >= 0)
      if (const auto gap = gap_of(graph, runs, lives, static_cast<std::int32_t>(k))) gaps.push_back(*gap);
  return gaps;
}

std::vector<bool> host_updates(const PlanRequest& request, const std::vector<bool>& wanted) {
  const std::vector<bool> away = away_of(request, wanted);
  std::vector<bool> updates;
  for (const Op& op : request.graph.ops())
    updates.push_back(op.phase == Phase::update && std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId input) {
                        return !request.graph.value(input).persistent() || away[at(input.index)];
                      }));
  return updates;
}

std::vector<std::int64_t> tightest_bytes(const PlanRequest& request, const Lives& lives, const SpillChoice& choice) {
  std::vector<std::int64_t> sums = lives.bytes();
  std::vector<std::int64_t> change(sums.size() + 1, 0);
  for (const Swap& swap : choice.swaps) {
    change[at(swap.after) + 1] -= lives.all[at(swap.life)].bytes;
    change[at(swap.before)] += lives.all[at(swap.life)].bytes;
  }
  const std::vector<bool> away = away_of(request, choice.away);
  for (std::size_t v = 0; v < away.size(); ++v)
    if (away[v]) change[0] -= bytes_of(request, ValueId(static_cast<std::int64_t>(v)));
  for (const Visit& visit : visits_of(request, choice)) {
    change[at(visit.first)] += visit.bytes;
    change[at(visit.last) + 1] -= visit.bytes;
  }
  std::int64_t sum = 0;
  for (std::size_t p = 0; p < sums.size(); ++p) sums[p] += sum += change[p];
  return sums;
}

Plan spill_plan(const PlanRequest& request, std::string_view planner, const Lives& lives, SpillChoice choice) {
  const std::vector<std::int64_t> tightest = tightest_bytes(request, lives, choice);
  const auto peak = std::max_element(tightest.begin(), tightest.end());
  if (request.device_budget > 0 && peak != tightest.end() && *peak > limit_of(request))
    refuse_budget(request, planner, *peak, choice.runs[at(peak - tightest.begin())]);

  Plan plan;
  plan.name = request.graph.name;
  plan.planner = planner;
  const std::vector<Visit> visits = visits_of(request, choice);
  std::vector<Departure> departures;
  for (const Swap& swap : choice.swaps) departures.push_back({swap.life, swap.after, swap.before - 1, swap.tier});
  const std::vector<Departure> sent = sent_to_host(request.graph, lives, choice);
  departures.insert(departures.end(), sent.begin(), sent.end());

  std::vector<ValueId> homeless;  // away, in the order of the graph
  const std::vector<bool> away = away_of(request, choice.away);
  for (std::size_t v = 0; v < away.size(); ++v)
    if (away[v]) homeless.emplace_back(static_cast<std::int64_t>(v));
  std::int64_t total = 0, largest = 0;
  const auto count = [&](std::int64_t bytes) { total += bytes, largest = std::max(largest, bytes); };
  for (ValueId value : homeless) count(bytes_of(request, value));
  std::vector<std::size_t> first(lives.all.size(), departures.size());  // by life: its first departure, when it is copied
  for (std::size_t k = departures.size(); k-- > 0;) first[at(departures[k].life)] = k;
  const auto copied = [&](std::size_t k) { return first[at(departures[k].life)] == k; };
  for (std::size_t k = 0; k < departures.size(); ++k)
    if (copied(k)) count(lives.all[at(departures[k].life)].bytes);
  largest = std::max(largest, largest_update(request, choice));
  Tiers tiers(request, total, largest);
  for (ValueId value : homeless) {
    const auto known = request.homes.find(request.graph.value(value).name);
    plan.home[value] = known != request.homes.end() ? known->second : tiers.take(bytes_of(request, value));
  }
  for (std::int64_t v = 0; v < request.graph.value_count(); ++v)
    if (request.graph.value(ValueId(v)).role == Role::input && only_read_by(request.graph, ValueId(v), choice.on_host))
      plan.home[ValueId(v)] = Tier::host;
  for (std::size_t k = 0; k < departures.size(); ++k) {
    const std::int32_t life = departures[k].life;
    departures[k].tier = copied(k) ? tiers.take(lives.all[at(life)].bytes) : departures[first[at(life)]].tier;
  }

  Timer timer(request, lives, tightest);
  std::vector<std::int32_t> drops;
  if (choice.timed)
    for (const Departure& going : departures) drops.push_back(going.after);
  else
    drops = timer.leave(departures);
  std::vector<Arrival> arrivals;
  for (std::size_t k = 0; k < choice.swaps.size(); ++k) {
    const Swap& swap = choice.swaps[k];
    const Life& life = lives.all[at(swap.life)];
    const std::int32_t use = *std::lower_bound(life.uses.begin(), life.uses.end(), swap.before);
    arrivals.push_back({life.bytes, departures[k].tier, use, drops[k] + 1, swap.before, choice.timed});
  }
  for (const Visit& visit : visits)
    arrivals.push_back({visit.bytes, plan.home[visit.value], visit.first, visit.earliest, visit.first, false});
  timer.come_back(arrivals);

  const auto value = [&](std::size_t k) {
    return k < choice.swaps.size() ? lives.all[at(choice.swaps[k].life)].value : visits[k - choice.swaps.size()].value;
  };
  const Runs& runs = choice.runs;
  std::vector<std::vector<std::size_t>> out(runs.size() + 1), in(runs.size());  // before each run
  std::vector<std::vector<Step>> after(runs.size());
  for (std::size_t k = 0; k < departures.size(); ++k) {
    const Life& life = lives.all[at(departures[k].life)];
    if (copied(k) && drops[k] == life.made)  // nothing reads it before its gap: it leaves before its drop
      after[at(life.made)].push_back(OutStep{life.value, departures[k].tier});
    else if (copied(k))
      out[at(life.made + 1)].push_back(k);
    after[at(drops[k])].push_back(DropStep{life.value});
  }
  for (const Visit& visit : visits) {
    if (visit.next) after[at(visit.last)].push_back(OutStep{visit.next, plan.home[visit.value]});
    after[at(visit.last)].push_back(DropStep{visit.next ? visit.next : visit.value});
  }
  for (std::size_t k = 0; k < arrivals.size(); ++k) in[at(arrivals[k].in)].push_back(k);
  for (std::size_t p = 0; p < runs.size(); ++p) {
    for (std::size_t k : out[p]) plan.steps.push_back(OutStep{lives.all[at(departures[k].life)].value, departures[k].tier});
    // The first needed goes first.
    std::stable_sort(in[p].begin(), in[p].end(),
                     [&](std::size_t a, std::size_t b) { return arrivals[a].before < arrivals[b].before; });
    for (std::size_t k : in[p]) plan.steps.push_back(InStep{value(k)});
    plan.steps.push_back(RunStep{runs[p], runs_on_host(choice, static_cast<std::int32_t>(p)) ? Tier::host : Tier::device});
    plan.steps.insert(plan.steps.end(), after[p].begin(), after[p].end());
  }
  return plan;
}

}  // namespace outsize
