#include "plan/reckon/estimate.h"

#include <algorithm>

#include "graph/storage.h"

namespace outsize {

namespace {

constexpr std::int32_t kNone = -1;

// A stay of a value on the device, in steps of the plan.
struct Stay {
  std::int64_t bytes = 0;
  std::int64_t last = 0;    // the step it ends with
  bool takes_over = false;  // its bytes are those of an input that ends with the run that makes it
  double ready = 0;         // it may be read
  double free = 0;          // all that touch it have ended
};

// Bytes of the device that have become free, and when. The last of them are taken first: packing is tight, so that new pieces lie
// where others have just ended.
class Room {
 public:
  explicit Room(std::int64_t bytes) { give(bytes, 0); }
  void give(std::int64_t bytes, double when) {
    if (bytes > 0) free_.emplace_back(bytes, when);
  }
  // Returns when all that are taken are free.
  double take(std::int64_t bytes) {
    double all = 0;
    while (bytes > 0 && !free_.empty()) {
      auto& [size, when] = free_.back();
      const std::int64_t taken = std::min(size, bytes);
      all = std::max(all, when);
      bytes -= taken;
      size -= taken;
      if (size == 0) free_.pop_back();
    }
    return all;
  }

 private:
  std::vector<std::pair<std::int64_t, double>> free_;
};

class Estimate {
 public:
  Estimate(const PlanRequest& request, const Lives& lives, const Plan& plan, const Splits& splits)
      : request_(request),
        graph_(request.graph),
        device_(request.profile.device),
        lives_(lives),
        plan_(plan),
        splits_(splits),
        bytes_(graph_.value_count()),
        newest_(graph_.value_count(), kNone),
        opens_(plan.steps.size()),
        ends_(plan.steps.size()) {
    for (std::int64_t v = 0; v < graph_.value_count(); ++v) bytes_[ValueId(v)] = packed_bytes(request, ValueId(v));
    find_stays();
    std::int64_t resident = lives.persistent;
    for (const auto& [value, tier] : plan.home)
      if (graph_.value(value).persistent() && !splits.streams(value)) resident -= bytes_[value];
    budget_ = request.budgets.device - resident;
  }

  double run() {
    Room room(std::max(most_bytes(), budget_));
    IdVector<ValueId, double> below(bytes_.size(), 0);  // by value: when its copy in a lower tier is whole
    double compute = 0, out = 0, in = 0, disk_out = 0, disk_in = 0, host = 0;
    std::fill(newest_.begin(), newest_.end(), kNone);
    for (std::int32_t k : first_) room.take(stays_[k].bytes), newest_[value_of_[k]] = k;
    std::int64_t p = 0;
    for (std::int64_t s = 0; s < std::ssize(plan_.steps); ++s) {
      const Step& step = plan_.steps[s];
      const std::int64_t taken = opened_bytes(s);
      if (on_host(step)) {
        const Op& op = graph_.op(std::get<RunStep>(step).op);
        const double seconds = seconds_on_host(op);
        double start = host;
        for (ValueId input : op.inputs) {
          start = std::max(start, below[input]);
          if (plan_.home_of(input) == Tier::disk)
            start = disk_in = std::max(disk_in, below[input]) + disk_seconds(input, device_.disk_in);
        }
        host = start + seconds;
        if (device_.is_host()) compute += seconds;  // which the same processor does not do meanwhile
        for (ValueId output : op.outputs) {
          below[output] = host;
          if (home_of(graph_, plan_, output) == Tier::disk)
            disk_out = std::max(disk_out, host) + disk_seconds(output, device_.disk_out);
        }
        ++p;
      } else if (runs(step)) {
        double start = std::max(compute, room.take(taken + lives_.workspace[p]));
        for (ValueId input : read_by(step, p))
          if (Stay* stay = newest(input)) start = std::max(start, stay->ready);
        if (const SplitRun* split = splits_.at(p)) {
          start = std::max({start, in, out});
          in = out = start + split->copy_seconds;
        }
        compute = start + lives_.seconds[p];
        for (ValueId input : read_by(step, p))
          if (Stay* stay = newest(input)) stay->free = std::max(stay->free, compute);
        for (ValueId output : made_by(step, p)) replaces(output);
        room.give(lives_.workspace[p], compute);
        open(s, compute);
        ++p;
      } else if (const auto* leaves = std::get_if<OutStep>(&step)) {
        Stay* stay = newest(leaves->value);
        const double bytes = static_cast<double>(bytes_[leaves->value]);
        out = std::max(link(out, in), stay ? stay->ready : compute) + device_.launch_seconds + bytes / device_.link_out;
        if (stay) stay->free = std::max(stay->free, out);
        below[leaves->value] = out;
        if (leaves->tier == Tier::disk)
          below[leaves->value] = disk_out = std::max(disk_out, out) + device_.launch_seconds + bytes / device_.disk_out;
        tier_[leaves->value] = leaves->tier;
      } else if (const auto* comes = std::get_if<InStep>(&step)) {
        const double bytes = static_cast<double>(bytes_[comes->value]);
        double ready = below[comes->value];
        const auto tier = tier_.find(comes->value);
        if ((tier == tier_.end() ? plan_.home_of(comes->value) : tier->second) == Tier::disk)
          ready = disk_in = std::max(disk_in, ready) + device_.launch_seconds + bytes / device_.disk_in;
        in = std::max({link(in, out), ready, room.take(taken)}) + device_.launch_seconds + bytes / device_.link_in;
        open(s, in);
      }
      for (std::int32_t k : ends_[s]) room.give(stays_[k].bytes, stays_[k].free);
    }
    return std::max({compute, out, in, disk_out, disk_in, host});
  }

 private:
  static bool runs(const Step& step) { return std::holds_alternative<RunStep>(step) || std::holds_alternative<PassStep>(step); }
  static bool on_host(const Step& step) {
    const auto* run = std::get_if<RunStep>(&step);
    return run && run->where == Tier::host;
  }
  double disk_seconds(ValueId id, double rate) const { return device_.launch_seconds + static_cast<double>(bytes_[id]) / rate; }
  double seconds_on_host(const Op& op) const {
    if (device_.is_host()) return request_.profile.seconds_of(whole_call(graph_, op));
    std::int64_t bytes = 0;
    for (ValueId input : op.inputs) bytes += bytes_[input];
    for (ValueId output : op.outputs) bytes += bytes_[output];
    return device_.launch_seconds + static_cast<double>(bytes) / device_.host_bandwidth;
  }

  // What the p-th run reads from whole values, and makes.
  const std::vector<ValueId>& read_by(const Step& step, std::int64_t p) const {
    const SplitRun* split = splits_.at(p);
    return split ? split->reads : graph_.op(std::get<RunStep>(step).op).inputs;
  }
  const std::vector<ValueId>& made_by(const Step& step, std::int64_t p) const {
    const SplitRun* split = splits_.at(p);
    return split ? split->makes : graph_.op(std::get<RunStep>(step).op).outputs;
  }

  Stay* newest(ValueId id) {
    const std::int32_t k = newest_[id];
    return k == kNone ? nullptr : &stays_[k];
  }

  double link(double own, double other) const { return device_.full_duplex ? own : std::max(own, other); }

  void open(std::int64_t step, double when) {
    for (std::int32_t k : opens_[step]) {
      newest_[value_of_[k]] = k;
      stays_[k].ready = stays_[k].free = when;
    }
  }

  // Whether the value is the new version of a persistent one: it is then in the place of the old.
  bool replaces(ValueId id) {
    const ValueId old = graph_.value(id).version_of;
    if (old) newest_[id] = newest_[old];
    return old.valid();
  }

  std::int32_t add_stay(ValueId id, std::int64_t step, bool takes_over) {
    const auto k = static_cast<std::int32_t>(stays_.size());
    stays_.push_back({bytes_[id], step, takes_over});
    value_of_.push_back(id);
    newest_[id] = k;
    return k;
  }

  void find_stays() {
    Table<std::vector<ValueId>> taking_over(lives_.seconds.size());
    for (const Life& life : lives_.all) {
      if (life.made >= 0 && life.begin > life.made) taking_over[life.made].push_back(life.value);
      if (life.made < 0 && plan_.home_of(life.value) == Tier::device) first_.push_back(add_stay(life.value, 0, false));
    }
    std::int64_t p = 0;
    for (std::int64_t s = 0; s < std::ssize(plan_.steps); ++s) {
      const Step& step = plan_.steps[s];
      const auto touch = [&](ValueId id) {
        if (Stay* stay = newest(id)) stay->last = s;
      };
      if (on_host(step)) {
        ++p;
      } else if (runs(step)) {
        for (ValueId input : read_by(step, p)) touch(input);
        for (ValueId output : made_by(step, p)) {
          if (replaces(output) || splits_.streams(output)) continue;
          const bool over = std::ranges::count(taking_over[p], output) > 0;
          opens_[s].push_back(add_stay(output, s, over));
        }
        ++p;
      }
      if (const auto* out = std::get_if<OutStep>(&step)) touch(out->value);
      if (const auto* in = std::get_if<InStep>(&step)) opens_[s].push_back(add_stay(in->value, s, false));
      if (const auto* drop = std::get_if<DropStep>(&step)) touch(drop->value);
    }
    for (ValueId output : graph_.outputs())
      if (Stay* stay = newest(output)) stay->last = std::ssize(plan_.steps);
    for (std::int32_t k = 0; k < stays_.size(); ++k)
      if (stays_[k].last < ends_.size()) ends_[stays_[k].last].push_back(k);
    // What takes over has the bytes of one that ends there, and gives them back in its stead.
    for (std::int64_t s = 0; s < std::ssize(plan_.steps); ++s)
      for (std::int32_t k : opens_[s]) {
        Stay& stay = stays_[k];
        const auto source =
            std::ranges::find_if(ends_[s], [&](std::int32_t other) { return other != k && stays_[other].bytes == stay.bytes; });
        stay.takes_over = stay.takes_over && source != ends_[s].end();
        if (stay.takes_over) ends_[s].erase(source);
      }
  }

  std::int64_t opened_bytes(std::int64_t step) const {
    std::int64_t bytes = 0;
    for (std::int32_t k : opens_[step]) bytes += stays_[k].takes_over ? 0 : stays_[k].bytes;
    return bytes;
  }

  // The most that stays and workspace take at once: of the budget they leave the rest to be packed into.
  std::int64_t most_bytes() const {
    std::int64_t live = 0, most = 0;
    for (std::int32_t k : first_) live += stays_[k].bytes;
    std::int64_t p = 0;
    for (std::int64_t s = 0; s < std::ssize(plan_.steps); ++s) {
      live += opened_bytes(s);
      most = std::max(most, live + (runs(plan_.steps[s]) ? lives_.workspace[p++] : 0));
      for (std::int32_t k : ends_[s]) live -= stays_[k].bytes;
    }
    return most;
  }

  const PlanRequest& request_;
  const Graph& graph_;
  const Device& device_;
  const Lives& lives_;
  std::int64_t budget_ = 0;  // beside what is persistent
  const Plan& plan_;
  const Splits& splits_;
  IdVector<ValueId, std::int64_t> bytes_;   // by value
  IdVector<ValueId, std::int32_t> newest_;  // by value: its stay
  Table<Stay> stays_;
  Table<ValueId> value_of_;                        // by stay
  std::vector<std::int32_t> first_;                // stays that are there before the first step
  Table<std::vector<std::int32_t>> opens_, ends_;  // by step: stays
  std::map<ValueId, Tier> tier_;                   // where a value was sent
};

}  // namespace

double estimated_seconds(const PlanRequest& request, const Lives& lives, const Plan& plan, const Splits& splits) {
  return Estimate(request, lives, plan, splits).run();
}

}  // namespace outsize
