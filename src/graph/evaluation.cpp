#include "graph/evaluation.h"

#include "base/id_vector.h"
#include "graph/opdef.h"

namespace outsize {

namespace {

class Evaluation final : public EvaluationContext {
 public:
  explicit Evaluation(const Graph& forward) : forward_(forward), stands_for_(forward.value_count()) { made_.name = forward.name; }

  Graph run() {
    for (std::int64_t i = 0; i < forward_.op_count(); ++i) {
      op_ = OpId(i);
      OUTSIZE_CHECK(forward_.op(op_).phase != Phase::backward);
      forward_.op(op_).def->evaluate(*this);
    }
    for (ValueId output : forward_.outputs()) made_.add_output(value(output));
    return std::move(made_);
  }

  OpSite site() const override { return {forward_, forward_.op(op_)}; }

  ValueId value(ValueId of_forward) override {
    ValueId& found = stands_for_[of_forward];
    const Value& original = forward_.value(of_forward);
    if (!found && original.producer)
      internal_error("'{}' is read when {} is evaluated, but op {} makes nothing then", original.name, forward_.name,
                     forward_.op(original.producer).name);
    if (!found) found = made_.add_value(original.name, original.type, original.role, original.init);
    return found;
  }

  void emit(std::string_view kind, std::vector<ValueId> inputs, Attributes attributes) override {
    const OpDef* def = find_op_def(kind);
    if (!def) internal_error("op {}: its evaluation needs the op kind '{}', which is not registered", site().op.name, kind);
    const Op& original = forward_.op(op_);
    std::vector<std::string> names;
    for (ValueId output : original.outputs) names.push_back(forward_.value(output).name);
    const OpId made = made_.add_op(original.name, *def, std::move(inputs), std::move(attributes), std::move(names));
    const std::vector<ValueId>& outputs = made_.op(made).outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i) replace(static_cast<int>(i), outputs[i]);
  }

  void replace(int output, ValueId by) override {
    const ValueId original = forward_.op(op_).outputs.at(output);
    OUTSIZE_CHECK(forward_.value(original).type == made_.value(by).type);
    stands_for_[original] = by;
  }

 private:
  const Graph& forward_;
  Graph made_;
  OpId op_;
  IdVector<ValueId, ValueId> stands_for_;  // by value of the forward graph
};

}  // namespace

Graph evaluation_graph(const Graph& forward) { return Evaluation(forward).run(); }

}  // namespace outsize
