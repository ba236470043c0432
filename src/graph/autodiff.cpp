#include "graph/autodiff.h"

#include "base/id_vector.h"
#include "graph/opdef.h"

namespace outsize {

namespace {

// The state of one differentiation: which forward values need a gradient, and the gradient each has gathered so far.
class Differentiation {
 public:
  Differentiation(Graph& graph, const AutodiffOptions& options) : graph_(graph), wanted_(graph.value_count()) {
    gradients_.resize(wanted_.size());
    gated_.resize(wanted_.size());
    for (std::int64_t i = 0; i < graph.value_count(); ++i) {
      const Value& value = graph.value(ValueId(i));
      wanted_[ValueId(i)] = value.role == Role::parameter && !value.producer && is_float(value.type.dtype);
    }
    for (ValueId id : options.with_respect) {
      const Value& value = graph.value(id);
      if (!is_float(value.type.dtype))
        user_error("no gradient with respect to '{}': it holds {}", value.name, name_of(value.type.dtype));
      wanted_[id] = true;
    }
    targets_ = wanted_;
    for (const Op& op : graph.ops()) {
      if (op.phase != Phase::forward) continue;
      bool leads = false;
      for (ValueId input : op.inputs) leads = leads || wanted_[input];
      if (!leads) continue;
      for (ValueId output : op.outputs)
        if (is_float(graph.value(output).type.dtype)) wanted_[output] = true;
    }
  }

  bool wanted(ValueId id) const { return wanted_[id]; }
  ValueId gradient(ValueId id) const { return gradients_[id]; }

  ValueId seed(ValueId id) {
    const Value& value = graph_.value(id);
    if (!is_float(value.type.dtype))
      user_error("'{}' cannot be differentiated: it holds {}", value.name, name_of(value.type.dtype));
    const ValueId made = graph_.add_value("grad." + value.name, value.type, Role::input);
    add(id, made, {});
    return made;
  }

  // Adds `part` to the gradient of `id`; `forward` is the op it comes from.
  void add(ValueId id, ValueId part, OpId forward) {
    const Value& subject = graph_.value(id);
    Value& contribution = graph_.value(part);
    if (contribution.type != gradient_type(subject.type))
      internal_error("gradient '{}' of '{}' is {}, expected {}", contribution.name, subject.name, to_string(contribution.type),
                     to_string(gradient_type(subject.type)));
    mark(part, id);
    ValueId& total = gradients_[id];
    if (!total) {
      total = part;
      return;
    }
    const bool gated = ends_with(id, forward) && may_gate(id);
    if (gated) gated_[id] = true;
    const OpDef& def = op_def_for(gated ? Use::gated_sum : Use::add);
    std::vector<ValueId> inputs = gated ? std::vector{total, id, part} : std::vector{total, part};
    const std::string name = graph_.fresh_op_name("grad." + subject.name + ".sum");
    const OpId sum = graph_.add_op(name, def, std::move(inputs), {}, {}, Phase::backward, forward);
    // A value that is the whole gradient of another (add passes its own on) is not a part.
    for (ValueId summand : {total, part})
      if (graph_.value(summand).gradient_of == id) graph_.value(summand).partial = true;
    total = graph_.op(sum).outputs[0];
    mark(total, id);
  }

  // Whether a gated_sum has made the gradient.
  bool gated(ValueId id) const { return gated_[id]; }

  AutodiffResult result(std::vector<ValueId> seeds) const {
    AutodiffResult result{std::move(seeds), {}};
    for (std::int64_t i = 0; i < targets_.size(); ++i)
      if (const ValueId id(i); targets_[id] && gradients_[id]) result.gradients.emplace_back(id, gradients_[id]);
    return result;
  }

 private:
  void mark(ValueId gradient, ValueId of) {
    Value& value = graph_.value(gradient);
    if (!value.gradient_of) value.gradient_of = of;
    if (value.role == Role::activation) value.role = Role::gradient;
  }

  // Whether nothing is added to the gradient of `id` after the parts that `forward` gives. Ops are passed from the last to the
  // first, so that the first reader comes last. (One that reads the value twice gives two parts. Gating both sums gives what gating
  // the second alone would.)
  bool ends_with(ValueId id, OpId forward) const {
    const std::vector<OpId>& readers = graph_.value(id).consumers;
    return !readers.empty() && readers.front() == forward;
  }

  // Not where the whole gradient of the value has been asked for.
  bool may_gate(ValueId id) const {
    const Value& value = graph_.value(id);
    if (!value.producer || value.producer_output != 0 || targets_[id]) return false;
    const Op& op = graph_.op(value.producer);
    return op.def->gates_gradient({graph_, op});
  }

  Graph& graph_;
  IdVector<ValueId, bool> wanted_;
  IdVector<ValueId, bool> targets_;
  IdVector<ValueId, ValueId> gradients_;  // complete once all consumers have been passed in reverse
  IdVector<ValueId, bool> gated_;         // whether a gated_sum made that gradient
};

// One forward op as its OpDef::gradient sees it.
class OpGradient final : public GradientContext {
 public:
  OpGradient(Graph& graph, Differentiation& all, OpId forward) : graph_(graph), all_(all), forward_(forward) {}

  OpSite site() const override { return {graph_, op()}; }
  ValueId input(int i) const override { return op().inputs.at(static_cast<std::size_t>(i)); }
  ValueId output(int i) const override { return op().outputs.at(static_cast<std::size_t>(i)); }
  ValueId gradient(int i) const override { return all_.gradient(output(i)); }
  bool gated() const override { return all_.gated(output(0)); }
  bool wants(int i) const override { return i < static_cast<int>(op().inputs.size()) && all_.wanted(input(i)); }

  std::vector<ValueId> emit(std::string_view kind, std::string_view suffix, std::vector<ValueId> inputs,
                            Attributes attributes) override {
    const OpDef* def = find_op_def(kind);
    if (!def)
      internal_error("op {} ({}): its gradient needs the op kind '{}', which is not registered", op().name, op().def->kind(), kind);
    const std::string name = graph_.fresh_op_name(fmt::format("{}.{}", op().name, suffix));
    const OpId made = graph_.add_op(name, *def, std::move(inputs), std::move(attributes), {}, Phase::backward, forward_);
    return graph_.op(made).outputs;
  }

  void contribute(int i, ValueId gradient) override {
    if (wants(i)) all_.add(input(i), gradient, forward_);
  }

 private:
  const Op& op() const { return graph_.op(forward_); }

  Graph& graph_;
  Differentiation& all_;
  OpId forward_;
};

}  // namespace

AutodiffResult differentiate(Graph& graph, const AutodiffOptions& options) {
  Differentiation all(graph, options);
  const std::int64_t forward_ops = graph.op_count();
  std::vector<ValueId> seeds;
  for (ValueId output : options.of) seeds.push_back(all.seed(output));

  for (std::int64_t i = forward_ops - 1; i >= 0; --i) {
    const Op& op = graph.op(OpId(i));
    if (op.phase != Phase::forward) continue;
    bool arrives = false;
    for (ValueId output : op.outputs) arrives = arrives || all.gradient(output).valid();
    bool needed = false;
    for (ValueId input : op.inputs) needed = needed || all.wanted(input);
    if (!arrives || !needed) continue;
    OpGradient context(graph, all, OpId(i));
    op.def->gradient(context);
  }
  return all.result(std::move(seeds));
}

}  // namespace outsize
