#include <algorithm>
#include <vector>

#include "base/id_vector.h"
#include "graph/opdef.h"
#include "plan/plan.h"

namespace outsize {

namespace {

// Follows a plan value by value: what is on the device, what is in a lower tier, which version persistent values have.
class Checker {
 public:
  Checker(const Graph& graph, const Plan& plan)
      : graph_(graph),
        plan_(plan),
        device_(graph.value_count()),
        lower_(graph.value_count()),
        replaced_(graph.value_count()),
        runs_(graph.op_count()) {}

  void run() {
    for (std::int64_t v = 0; v < graph_.value_count(); ++v) {
      const Value& value = graph_.value(ValueId(v));
      if (plan_.home_of(ValueId(v)) == Tier::source && (value.producer || value.role != Role::input))
        fail_whole("stream {} source: only inputs of the step come from the data", value.name);
      if (!value.producer) (plan_.home_of(ValueId(v)) == Tier::device ? device_ : lower_)[ValueId(v)] = true;
    }
    for (const Step& step : plan_.steps) {
      ++step_;
      if (const auto* run = std::get_if<RunStep>(&step)) {
        if (run->where == Tier::device)
          op(run->op, "");
        else
          host_op(*run);
      }
      if (const auto* out = std::get_if<OutStep>(&step)) {
        if (!device_[out->value]) fail("out {}: it is not on the device there", name(out->value));
        if (graph_.value(out->value).persistent() && plan_.home_of(out->value) != Tier::device)
          fail("out {}: it lives on {} and is there already", name(out->value), name_of(plan_.home_of(out->value)));
        if (out->tier == Tier::device) fail("out {}: the tier must be host or disk", name(out->value));
        const ValueId old = graph_.value(out->value).version_of;
        if (old && plan_.home_of(old) != Tier::device && plan_.home_of(old) != out->tier)
          fail("out {}: {} lives on {}, so that its new version must go there", name(out->value), name(old),
               name_of(plan_.home_of(old)));
        lower_[out->value] = true;
      }
      if (const auto* in = std::get_if<InStep>(&step)) {
        if (!lower_[in->value]) fail("in {}: it is in no lower tier there; an `out` must come before", name(in->value));
        device_[in->value] = true;
      }
      if (const auto* drop = std::get_if<DropStep>(&step)) {
        if (!device_[drop->value]) fail("drop {}: it is not on the device there", name(drop->value));
        const ValueId old = graph_.value(drop->value).version_of;
        if (graph_.value(drop->value).persistent() && plan_.home_of(old ? old : drop->value) == Tier::device)
          fail("drop {}: it must outlive the step", name(drop->value));
        device_[drop->value] = false;
      }
      if (const auto* pass = std::get_if<PassStep>(&step)) tiled(plan_.passes[static_cast<std::size_t>(pass->pass)]);
    }
    for (std::int64_t o = 0; o < graph_.op_count(); ++o) {
      const Op& op = graph_.op(OpId(o));
      if (runs_[OpId(o)] != 1 && !op.updates.empty())
        fail_whole("op {} changes persistent values and must run exactly once; it runs {} times", op.name, runs_[OpId(o)]);
    }
    for (std::int64_t v = 0; v < graph_.value_count(); ++v) {
      const ValueId old = graph_.value(ValueId(v)).version_of;
      if (old && plan_.home_of(old) != Tier::device && !lower_[ValueId(v)])
        fail_whole("{} lives on {}, but its new version {} never goes there; an `out` is missing", name(old),
                   name_of(plan_.home_of(old)), name(ValueId(v)));
    }
    for (ValueId output : graph_.outputs())
      if (!device_[output] && !lower_[output]) fail_whole("the graph's output {} is nowhere at the end", name(output));
  }

 private:
  const std::string& name(ValueId value) const { return graph_.value(value).name; }
  template <class... Args>
  [[noreturn]] void fail_whole(fmt::format_string<Args...> format, Args&&... args) {
    throw PlacedError((plan_.file.empty() ? "plan" : plan_.file) + ": " + fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
    const std::string place = plan_.lines.empty()
                                  ? fmt::format("plan, step {}", step_)
                                  : fmt::format("{}:{}", plan_.file, plan_.lines.at(static_cast<std::size_t>(step_ - 1)));
    throw PlacedError(place + ": " + fmt::format(format, std::forward<Args>(args)...));
  }

  // Why a value is not on the device as a whole, and what to do.
  std::string why_absent(ValueId input) const {
    const Value& value = graph_.value(input);
    if (plan_.home_of(input) != Tier::device && value.persistent()) return "which lives in a lower tier; `in` it before";
    if (plan_.home_of(input) != Tier::device) return "which is streamed: only a pass may read it";
    if (!value.producer) return "which is no longer on the device; leave out its `drop`, or `in` it before";
    return "which was never produced or is no longer on the device; run its producer (op " + graph_.op(value.producer).name +
           ") or `in` before it";
  }

  void op(OpId id, const std::string& where) {
    const Op& op = graph_.op(id);
    for (ValueId input : op.inputs) {
      if (replaced_[input]) fail("{}op {} reads {} after it was updated", where, op.name, name(input));
      if (!device_[input]) fail("{}op {} reads {}, {}", where, op.name, name(input), why_absent(input));
    }
    made(id);
  }

  // Only updates: any other op's results might differ in rounding from those of the device.
  void host_op(const RunStep& step) {
    const Op& op = graph_.op(step.op);
    if (step.where != Tier::host)
      fail("op {} cannot run on {}; expected host, or nothing for the device", op.name, name_of(step.where));
    if (op.phase != Phase::update) fail("op {} is no update: only updates run on the host", op.name);
    for (ValueId input : op.inputs) {
      if (replaced_[input]) fail("op {} reads {} after it was updated", op.name, name(input));
      if (!lower_[input])
        fail("op {} runs on the host and reads {}, which is not there; `out` it before, or `stream` it", op.name, name(input));
    }
    for (const InPlacePair& update : op.updates)
      if (const ValueId old = op.inputs[static_cast<std::size_t>(update.input)]; plan_.home_of(old) == Tier::device)
        fail("op {} runs on the host and updates {}, which lives on the device; `stream` it", op.name, name(old));
    made(step.op, lower_);
  }

  void made(OpId id) { made(id, device_); }
  void made(OpId id, IdVector<ValueId, bool>& where) {
    const Op& op = graph_.op(id);
    ++runs_[id];
    for (ValueId output : op.outputs) where[output] = true;
    for (const InPlacePair& update : op.updates) replaced_[op.inputs[static_cast<std::size_t>(update.input)]] = true;
  }

  // Inside a pass a value may also come by windows from its home in a lower tier; what the pass makes stays, if anything reads it
  // later, in its home.
  void tiled(const Pass& pass) {
    std::vector<ValueId> here;
    const std::string where = "pass " + pass.name + ": ";
    std::vector<bool> was_there;  // of what it makes for itself alone
    for (const ValueId inner : pass.inner) was_there.push_back(device_[inner]);
    for (OpId id : pass.ops) {
      const Op& op = graph_.op(id);
      for (ValueId input : op.inputs) {
        if (replaced_[input]) fail("{}op {} reads {} after it was updated", where, op.name, name(input));
        if (!device_[input] && !lower_[input])
          fail("{}op {} reads {}, which was never produced; run its producer before, or put it into the pass", where, op.name,
               name(input));
      }
      made(id);
      for (ValueId output : op.outputs) here.push_back(output);
    }
    for (std::size_t k = 0; k < pass.inner.size(); ++k) {
      if (std::ranges::find(here, pass.inner[k]) == here.end())
        fail("{}inner: {} is not made in this pass", where, name(pass.inner[k]));
      if (home_of(graph_, plan_, pass.inner[k]) != Tier::device)
        fail("{}inner: {} lives on {}", where, name(pass.inner[k]), name_of(home_of(graph_, plan_, pass.inner[k])));
      device_[pass.inner[k]] = was_there[k];
    }
    for (ValueId value : here) {
      if (home_of(graph_, plan_, value) == Tier::device) continue;
      device_[value] = false;
      lower_[value] = true;
    }
    for (const Pass& other : plan_.passes) {
      if (&other == &pass) break;
      if (other.name == pass.name) fail("{}two passes have this name", where);
    }
    if (!pass.saved_by.empty()) {
      bool found = false;
      for (const Pass& other : plan_.passes) {
        if (&other == &pass) break;
        found = found || other.name == pass.saved_by;
      }
      if (!found) fail("{}saved_by={}: no earlier pass has that name", where, pass.saved_by);
    }
    for (ValueId shared : pass.share) {
      bool known = false;
      for (OpId id : pass.ops)
        for (ValueId output : graph_.op(id).outputs)
          known = known || output == shared || graph_.value(output).gradient_of == shared;
      if (!known) fail("{}share: neither {} nor its gradient is made in this pass", where, name(shared));
    }
  }

  const Graph& graph_;
  const Plan& plan_;
  IdVector<ValueId, bool> device_, lower_, replaced_;
  IdVector<OpId, int> runs_;
  std::int64_t step_ = 0;
};

}  // namespace

void check_plan(const Graph& graph, const Plan& plan) { Checker(graph, plan).run(); }

}  // namespace outsize
