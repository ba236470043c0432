#include "graph/verify.h"

#include <unordered_map>
#include <unordered_set>

#include "base/id_vector.h"
#include "graph/opdef.h"

namespace outsize {

namespace {

// Everything is recomputed from the ops' input and output lists alone; what the values claim is then compared with it.
class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  void run() {
    producers_.resize(graph_.value_count());
    consumers_.resize(graph_.value_count());
    check_names();
    for (std::int64_t i = 0; i < graph_.op_count(); ++i) check_op(OpId(i));
    for (std::int64_t i = 0; i < graph_.value_count(); ++i) check_value(ValueId(i));
    for (ValueId output : graph_.outputs()) check_output(output);
  }

 private:
  struct Production {
    OpId op;
    int output = 0;
  };

  bool exists(ValueId id) const { return id.index >= 0 && id.index < graph_.value_count(); }
  bool exists(OpId id) const { return id.index >= 0 && id.index < graph_.op_count(); }
  Production& production(ValueId id) { return producers_[id]; }

  template <class... Args>
  [[noreturn]] void fail(const Op& op, fmt::format_string<Args...> format, Args&&... args) const {
    throw InternalError(fmt::format("graph {}: op {}: {}", graph_.name, op.name, fmt::format(format, std::forward<Args>(args)...)));
  }
  template <class... Args>
  [[noreturn]] void fail(const Value& value, fmt::format_string<Args...> format, Args&&... args) const {
    throw InternalError(
        fmt::format("graph {}: value {}: {}", graph_.name, value.name, fmt::format(format, std::forward<Args>(args)...)));
  }

  void check_names() const {
    std::unordered_map<std::string_view, std::int64_t> values;
    for (std::int64_t i = 0; i < graph_.value_count(); ++i) {
      const Value& value = graph_.value(ValueId(i));
      if (!values.emplace(value.name, i).second) fail(value, "two values have this name");
      if (graph_.find_value(value.name) != ValueId(i)) fail(value, "is not found by its name");
    }
    std::unordered_set<std::string_view> ops;
    for (std::int64_t i = 0; i < graph_.op_count(); ++i) {
      const Op& op = graph_.op(OpId(i));
      if (!ops.insert(op.name).second) fail(op, "two ops have this name");
      if (graph_.find_op(op.name) != OpId(i)) fail(op, "is not found by its name");
    }
  }

  void check_op(OpId id) {
    const Op& op = graph_.op(id);
    if (!op.def) fail(op, "has no definition");
    for (ValueId input : op.inputs) {
      if (!exists(input)) fail(op, "reads value #{}, which does not exist", input.index);
      const Value& value = graph_.value(input);
      if (value.producer && !production(input).op) fail(op, "reads '{}' before it is computed", value.name);
      const auto replaced = replaced_by_.find(input);
      if (replaced != replaced_by_.end())
        throw UserError(fmt::format(
            "op {} ({}): '{}' is used twice in place: op {} has already replaced it; use '{}', or move this op before it", op.name,
            op.def->kind(), value.name, graph_.op(replaced->second.op).name, graph_.value(replaced->second.next).name));
      auto& readers = consumers_[input];
      if (readers.empty() || readers.back() != id) readers.push_back(id);
    }
    check_types(op);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const ValueId output = op.outputs[i];
      for (ValueId input : op.inputs)
        if (output <= input)
          fail(op, "output '{}' does not come after input '{}'", graph_.value(output).name, graph_.value(input).name);
      if (production(output).op)
        fail(op, "computes '{}', which op {} computes too", graph_.value(output).name, graph_.op(production(output).op).name);
      production(output) = {id, static_cast<int>(i)};
    }
    check_phase(op, id);
    check_updates(op, id);
  }

  void check_types(const Op& op) const {
    Op bare = op;
    bare.outputs.clear();
    const std::vector<ValueType> expected = op.def->infer({graph_, bare});
    if (expected.size() != op.outputs.size()) fail(op, "has {} outputs, expected {}", op.outputs.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (!exists(op.outputs[i])) fail(op, "computes value #{}, which does not exist", op.outputs[i].index);
      const Value& value = graph_.value(op.outputs[i]);
      if (value.type != expected[i])
        fail(op, "output '{}' is {}, expected {}", value.name, to_string(value.type), to_string(expected[i]));
    }
  }

  void check_phase(const Op& op, OpId id) const {
    if (!op.forward) return;
    if (op.phase != Phase::backward) fail(op, "is part of a gradient, but its phase is {}", name_of(op.phase));
    if (!exists(op.forward) || op.forward >= id)
      fail(op, "is part of the gradient of op #{}, which is not before it", op.forward.index);
    if (graph_.op(op.forward).phase != Phase::forward)
      fail(op, "is part of the gradient of op {}, which is not a forward op", graph_.op(op.forward).name);
  }

  void check_updates(const Op& op, OpId id) {
    const InPlacePairs updates = op.def->updates({graph_, op});
    if (updates.empty() == (op.phase == Phase::update))
      fail(op, "has phase {} but replaces {} values", name_of(op.phase), updates.size());
    for (const InPlacePair& pair : updates) {
      const ValueId old_id = op.inputs.at(pair.input);
      const ValueId next_id = op.outputs.at(pair.output);
      const Value& old = graph_.value(old_id);
      const Value& next = graph_.value(next_id);
      if (old.version_of.valid())
        throw UserError(fmt::format("op {} ({}): '{}' is used twice in place: '{}' is already the new version of '{}'", op.name,
                                    op.def->kind(), graph_.value(old.version_of).name, old.name,
                                    graph_.value(old.version_of).name));
      if (!old.persistent()) fail(op, "replaces '{}', which is neither parameter nor state", old.name);
      if (next.version_of != old_id) fail(op, "output '{}' is not marked as the new version of '{}'", next.name, old.name);
      if (next.role != old.role) fail(op, "output '{}' is a {}, expected {}", next.name, name_of(next.role), name_of(old.role));
      if (next.type != old.type)
        fail(op, "output '{}' is {}, but it replaces {}", next.name, to_string(next.type), to_string(old.type));
      if (!replaced_by_.emplace(old_id, Replacement{id, next_id}).second)
        throw UserError(
            fmt::format("op {} ({}): '{}' is used twice in place: this op replaces it twice", op.name, op.def->kind(), old.name));
      versions_.insert(next_id);
    }
  }

  void check_value(ValueId id) const {
    const Value& value = graph_.value(id);
    const Production& made = producers_[id];
    if (value.producer != made.op)
      fail(value, "names op #{} as its producer, op #{} computes it", value.producer.index, made.op.index);
    if (made.op && value.producer_output != made.output)
      fail(value, "names output {} of its producer, it is output {}", value.producer_output, made.output);
    if (value.consumers != consumers_[id]) fail(value, "its list of consumers is wrong");
    const bool source = value.role == Role::input || value.persistent();
    const bool version = versions_.contains(id);
    if (source != (!made.op || version)) fail(value, "has role {} but {} producer", name_of(value.role), made.op ? "a" : "no");
    if (value.version_of && !version) fail(value, "is marked as a new version, but no op replaces anything with it");
    if (value.partial && !value.gradient_of) fail(value, "is marked as a part of a gradient, but not of which value");
    if (!value.gradient_of) return;
    if (!exists(value.gradient_of)) fail(value, "is the gradient of value #{}, which does not exist", value.gradient_of.index);
    const Value& subject = graph_.value(value.gradient_of);
    if (gradient_type(subject.type) != value.type)
      fail(value, "is {}, but the gradient of '{}', which is {}", to_string(value.type), subject.name, to_string(subject.type));
  }

  void check_output(ValueId id) const {
    if (!exists(id)) internal_error("graph {}: output #{} does not exist", graph_.name, id.index);
    const auto replaced = replaced_by_.find(id);
    if (replaced != replaced_by_.end())
      throw UserError(fmt::format("output '{}' is used twice in place: op {} has replaced it; use '{}'", graph_.value(id).name,
                                  graph_.op(replaced->second.op).name, graph_.value(replaced->second.next).name));
  }

  struct Replacement {
    OpId op;
    ValueId next;
  };

  const Graph& graph_;
  IdVector<ValueId, Production> producers_;
  IdVector<ValueId, std::vector<OpId>> consumers_;
  std::unordered_map<ValueId, Replacement> replaced_by_;
  std::unordered_set<ValueId> versions_;
};

}  // namespace

void verify_graph(const Graph& graph) { Verifier(graph).run(); }

}  // namespace outsize
