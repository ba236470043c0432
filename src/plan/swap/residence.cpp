#include "plan/swap/residence.h"

#include <algorithm>
#include <array>
#include <deque>

#include "plan/analysis/order.h"
#include "plan/swap/visits.h"

namespace outsize {

namespace {

// Values so small stay: all of them together take no more than this part of the budget, and each copy would take a launch.
constexpr std::int64_t kSmallParts = 100;
// What waits in host memory for updates takes this part of it at most.
constexpr std::int64_t kWaitingParts = 16;

// What the host does for an update.
struct HostWork {
  double seconds = 0;
  double sent_seconds = 0;  // that the link takes for gradients
  std::int64_t sent_bytes = 0;
};

HostWork host_work(const PlanRequest& request, const Op& op) {
  const Device& device = request.profile.device;
  HostWork work;
  std::int64_t touched = 0;
  for (ValueId input : op.inputs) {
    const std::int64_t bytes = packed_bytes(request, input);
    touched += bytes;
    if (!request.graph.value(input).persistent()) work.sent_bytes += bytes;
  }
  for (ValueId output : op.outputs) touched += packed_bytes(request, output);
  work.seconds = static_cast<double>(touched) / (device.is_host() ? device.bandwidth : device.host_bandwidth);
  work.sent_seconds = static_cast<double>(work.sent_bytes) / device.link_out;
  return work;
}

}  // namespace

Residents::Residents(const PlanRequest& request) : request_(request) {
  const Graph& graph = request.graph;
  IdVector<ValueId, bool> known(graph.value_count(), false);
  const std::vector<OpId> order = eager_order(graph);
  for (std::size_t k = order.size(); k-- > 0;) {
    if (graph.op(order[k]).phase != Phase::update) continue;
    Unit unit;
    unit.update = order[k];
    for (ValueId input : graph.op(order[k]).inputs) add(unit, input, known);
    if (unit.bytes > 0) units_.push_back(std::move(unit));
  }
  for (std::int64_t v = 0; v < graph.value_count(); ++v) {
    Unit unit;
    add(unit, ValueId(v), known);
    if (unit.bytes > 0) units_.push_back(std::move(unit));
  }
  std::vector<std::int64_t> sizes;
  for (const Unit& unit : units_) {
    sizes.push_back(unit.bytes);
    bytes_ += unit.bytes;
  }
  std::ranges::sort(sizes);
  std::int64_t sum = 0, most = 0;
  for (const std::int64_t size : sizes)
    if ((sum += size) <= limit_of(request) / kSmallParts) most = size;
  for (Unit& unit : units_) unit.small = unit.bytes <= most;
}

void Residents::add(Unit& unit, ValueId id, IdVector<ValueId, bool>& known) const {
  const Value& value = request_.graph.value(id);
  if (!value.persistent() || value.producer || known[id]) return;
  known[id] = true;
  (value.role == Role::parameter ? unit.weights : unit.states).push_back(id);
  unit.bytes += packed_bytes(request_, id);
}

void Residents::settle(const Residence& residence, const OpCosts& costs, SpillChoice& choice) const {
  enum Way : std::uint8_t { state_away, all_away, by_host };
  constexpr std::int64_t kParts = Residence::kParts;
  const std::int64_t left = std::max<std::int64_t>(0, kParts - residence.state_away - residence.all_away);
  const std::array<std::int64_t, 3> shares{residence.state_away, residence.all_away, left};
  std::array<std::int64_t, 3> owed{};  // bytes times kParts that each way is behind its share
  std::int64_t whole = bytes_ / kParts * residence.whole;
  choice.away.assign(request_.graph.value_count(), false);
  IdVector<OpId, bool> on_host(request_.graph.op_count(), false);
  for (const Unit& unit : units_) {
    if (unit.small || residence.whole == kParts || !request_.has_lower_tier()) continue;
    if (unit.bytes <= whole) {
      whole -= unit.bytes;
      continue;
    }
    for (std::size_t k = 0; k < owed.size(); ++k) owed[k] += shares[k] * unit.bytes;
    const auto most = static_cast<std::size_t>(std::ranges::max_element(owed) - owed.begin());
    owed[most] -= kParts * unit.bytes;
    for (ValueId state : unit.states) choice.away[state] = true;
    if (most == state_away) continue;
    for (ValueId weight : unit.weights) choice.away[weight] = true;
    if (most == by_host && unit.update) on_host[unit.update] = true;
  }
  choice.away = away_of(request_, std::move(choice.away));
  choice.on_host = host_updates(request_, choice.away);
  for (std::int64_t k = 0; k < choice.on_host.size(); ++k)
    if (!on_host[OpId(k)]) choice.on_host[OpId(k)] = false;
  choice.runs = with_updates_when_done(choice, costs);
}

double Residents::least_seconds(const SpillChoice& choice) const {
  const Device& device = request_.profile.device;
  double host = 0;
  std::int64_t out = 0, in = 0;
  for (const Unit& unit : units_) {
    const bool by_host = unit.update && !choice.on_host.empty() && choice.on_host[unit.update];
    if (by_host) {
      const HostWork work = host_work(request_, request_.graph.op(unit.update));
      host += work.seconds;
      out += work.sent_bytes;
    }
    for (const std::vector<ValueId>* values : {&unit.weights, &unit.states})
      for (ValueId value : *values) {
        if (!choice.away[value] || (by_host && values == &unit.states)) continue;
        in += packed_bytes(request_, value);
        if (unit.update && !by_host) out += packed_bytes(request_, value);
      }
  }
  const double out_seconds = static_cast<double>(out) / device.link_out, in_seconds = static_cast<double>(in) / device.link_in;
  return std::max(device.is_host() ? 0 : host, device.full_duplex ? std::max(out_seconds, in_seconds) : out_seconds + in_seconds);
}

// The same runs, but updates by the host stand where the host has done them, not where it may begin: until then it holds what has
// been sent for them, and what is sent next needs bytes of its own.
Runs Residents::with_updates_when_done(const SpillChoice& choice, const OpCosts& costs) const {
  if (choice.on_host.empty()) return choice.runs;
  struct Waiting {
    OpId update;
    double done = 0;
    std::int64_t bytes = 0;
  };
  std::deque<Waiting> waiting;
  Runs made;
  double now = 0, sent = 0, host = 0;
  std::int64_t held = 0;
  for (const OpId run : choice.runs) {
    if (choice.on_host[run]) {
      const HostWork work = host_work(request_, request_.graph.op(run));
      sent = std::max(sent, now) + work.sent_seconds;
      host = std::max(host, sent) + work.seconds;
      waiting.push_back({run, host, work.sent_bytes});
      held += work.sent_bytes;
    } else {
      made.push_back(run);
      now += costs.seconds[run];
    }
    while (!waiting.empty() && (waiting.front().done <= now || held > request_.budgets.host / kWaitingParts)) {
      made.push_back(waiting.front().update);
      held -= waiting.front().bytes;
      waiting.pop_front();
    }
  }
  for (const Waiting& left : waiting) made.push_back(left.update);
  return made;
}

}  // namespace outsize
