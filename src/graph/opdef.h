#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "outsize/training.h"

namespace outsize {

class GradientContext;
class EvaluationContext;

// An op together with the graph it stands in: what every OpDef function looks at.
struct OpSite {
  const Graph& graph;
  const Op& op;

  int inputs() const { return static_cast<int>(op.inputs.size()); }
  int outputs() const { return static_cast<int>(op.outputs.size()); }
  const ValueType& in(int i) const { return graph.value(op.inputs[static_cast<std::size_t>(i)]).type; }
  const ValueType& out(int i) const { return graph.value(op.outputs[static_cast<std::size_t>(i)]).type; }
  // The attribute given, or its default. Throws InternalError when the OpDef does not declare it.
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& word(std::string_view name) const;
  const std::vector<std::int64_t>& integers(std::string_view name) const;
};

// The boxes one call of an op reads and writes, in global coordinates.
struct CallBoxes {
  std::vector<Box> in;
  std::vector<Box> out;
};

// How results of an op for disjoint driver boxes combine where their output boxes overlap.
enum class Combine : std::uint8_t {
  none,     // output boxes of disjoint driver boxes are disjoint
  sum,      // they add up
  welford,  // rows (count, mean, sum of squared deviations) of an f64 [3, C] statistic
};

struct Cost {
  double flops = 0;
  double bytes = 0;  // read and written
};

struct FusedOp {
  const OpDef* def = nullptr;
  std::vector<ValueId> inputs;
  Attributes attributes;
};

// What differentiation and the training step need ops for that no network has named: the inputs and attributes that they give, and
// what comes of it. The registry has one kind for each use but `none`.
enum class Use : std::uint8_t {
  none,
  add,         // (a, b), of one type → a + b
  gated_sum,   // (a, y, b), of one type → a + b where y is above 0 or NaN, else 0
  accumulate,  // (sum, term), of one type; fresh → replaces the state sum by sum + term, or where fresh is 1 by term
  square_sum,  // (x) → the sum of x², [1]
  clip_factor,  // (square sums of all gradients …); max_norm → what the gradients are multiplied by to have that norm at most, [1]
  correct_count,  // (logits, labels); k → how many labels are among the k largest logits of their row, f64[1]
};

// How an optimizer's op updates a parameter. Its inputs are the parameter, its gradient, the learning rate, the number of the step
// where `counts_steps`, the states, and the factor of clip_factor where gradients are clipped.
struct UpdateRule {
  std::vector<std::string_view> states;  // of the parameter's type: "momentum" is "<parameter>.momentum"
  bool counts_steps = false;
  Attributes attributes;
};

// Everything the system knows about a kind of op. One stateless object a kind; `src/ops/registry.cpp` lists them.
//
// Two relations tie the boxes of a call together:
//   gather  the boxes of all inputs that a box of output 0 needs (its windows, clipped to the values). A call on exactly
//           these boxes computes the output box completely.
//   push    for reductions and gradients: from a box of the driver input, the boxes of the other inputs and of the outputs
//           it contributes to. Calls over disjoint driver boxes that cover the driver, combined by `combine`, give the outputs.
//           Where the driver cannot be cut so, its own box in the answer is larger than the one given.
// In both, a kernel computes the contribution of the given input boxes to the given output boxes, so one kernel serves both.
class OpDef {
 public:
  virtual ~OpDef() = default;

  virtual std::string_view kind() const = 0;
  // One line for `outsize ops`.
  virtual std::string_view help() const = 0;
  // The inputs' names; a trailing '?' marks an optional one, a trailing '*' one that may repeat (last only).
  virtual std::vector<std::string_view> input_names() const = 0;
  virtual std::vector<AttributeSpec> attribute_specs() const { return {}; }

  // The outputs' types from inputs and attributes. `site.op.outputs` is empty. Throws UserError (its message is prefixed with
  // the op's name by the caller) when they do not fit.
  virtual std::vector<ValueType> infer(const OpSite& site) const = 0;
  // The default names of the outputs, appended to the op's name: "" for the first.
  virtual std::vector<std::string_view> output_names() const { return {""}; }
  // The role of output i.
  virtual Role output_role(const OpSite& site, int output) const;
  // True where output i is little beside output 0 and all that the gradient needs of what the op read (a maximum's position): where
  // output 0 is stored, it is worth storing too.
  virtual bool stored_beside(const OpSite&, int /*output*/) const { return false; }

  // Whether input i may be a planar map.
  virtual bool takes_planar(const OpSite&, int /*input*/) const { return false; }

  // Asked once the whole forward graph of a network is there: throws UserError (prefixed like infer's) where the op lacks another
  // that training or evaluation goes wrong without.
  virtual void expect_complete(const OpSite&) const {}

  // Whether the op ends with a relu, and its gradient() looks at GradientContext::gated(). Where several ops read output 0,
  // differentiation then may add the last part of its gradient by a gated_sum, which leaves 0 where the relu lets nothing through:
  // one op in the place of an addition and a relu's gradient.
  virtual bool gates_gradient(const OpSite&) const { return false; }
  // Emits the backward ops of `context.site()`. The default throws: the kind has no gradient.
  virtual void gradient(GradientContext& context) const;

  // What stands in the op's place when a network is evaluated, not trained. The default is the op itself.
  virtual void evaluate(EvaluationContext& context) const;

  // See above. The default is pointwise: an input of output 0's shape is needed on the same box, any other whole;
  // further outputs of the same shape get the same box.
  virtual CallBoxes gather(const OpSite& site, const Box& output) const;
  // False where no output can be computed box by box (a reduction to a whole value): then only push serves.
  virtual bool can_gather(const OpSite&) const { return true; }
  // Of such a reduction: whether gather nevertheless gives all that is summed into a box of output 0, so that a call on it computes
  // that box completely (some rows of a weight's gradient, from all samples).
  virtual bool gathers_sums(const OpSite&) const { return false; }
  // The input that drives push. The default is 0.
  virtual int push_driver(const OpSite&) const { return 0; }
  // The default is pointwise, as for gather, from the driver's box.
  virtual CallBoxes push(const OpSite& site, const Box& driver) const;
  virtual Combine combine(const OpSite&, int /*output*/) const { return Combine::none; }
  // Whether the call on `to` is that on `from` moved, so that a kernel made for one serves the other. Their boxes are of the same
  // extents; but one moved by a part of a stride meets other taps.
  virtual bool moves_alike(const OpSite&, const CallBoxes& /*from*/, const CallBoxes& /*to*/) const { return true; }
  // True where the kernel adds terms that must be applied exactly once an element (the mean terms of a norm's gradient): it then
  // applies them inside the call's `owned` box (of the driver) only.
  virtual bool has_owned_terms(const OpSite&) const { return false; }

  // Pairs (output, input) where the output may overwrite the input, when this is the input's last use and the boxes are equal.
  virtual InPlacePairs in_place(const OpSite&) const { return {}; }
  // Output i replaces persistent input j in place (optimizer updates, running statistics); empty for all other ops.
  virtual InPlacePairs updates(const OpSite&) const { return {}; }
  // What one call costs; the default counts the bytes of all boxes and one operation an output element.
  virtual Cost cost(const OpSite& site, const CallBoxes& boxes) const;
  // True where recomputing costs little beside reading the result (bandwidth-bound).
  virtual bool cheap(const OpSite&) const { return false; }

  // What only the training step and planners that follow a paper ask for.
  virtual Use use() const { return Use::none; }
  // The update that these options ask for, where the op is the one that makes it.
  virtual std::optional<UpdateRule> update_rule(const TrainingOptions&) const { return std::nullopt; }
  // Of a loss that compares scores of classes with labels: which input the scores are (see class_dim), or -1.
  virtual int logits_input() const { return -1; }
  // Of an op that counts labels: the label that it does not count.
  virtual std::optional<std::int64_t> uncounted_label(const OpSite&) const { return std::nullopt; }
  // Whether it is a convolution (or a transposed one) of input 0.
  virtual bool is_convolution() const { return false; }

  // One op that does what `first` and then `second` do, where `second` is the only reader of first's output 0, or nothing.
  // Asked of second's def, then of first's.
  virtual std::optional<FusedOp> fuse(const Graph&, const Op& /*first*/, const Op& /*second*/) const { return std::nullopt; }
};

// What an OpDef::gradient sees and does.
class GradientContext {
 public:
  virtual ~GradientContext() = default;
  virtual OpSite site() const = 0;
  virtual ValueId input(int i) const = 0;
  virtual ValueId output(int i) const = 0;
  // The gradient that flows into output i, or none.
  virtual ValueId gradient(int output) const = 0;
  // Whether the gradient of output 0 is the result of a gated_sum: it is the gradient before the op's relu, not behind it. Never
  // true unless the op's gates_gradient() is.
  virtual bool gated() const = 0;
  // Whether anything needs the gradient of input i.
  virtual bool wants(int input) const = 0;
  // Appends a backward op named "<forward op>.<suffix>" and returns its outputs.
  virtual std::vector<ValueId> emit(std::string_view kind, std::string_view suffix, std::vector<ValueId> inputs,
                                    Attributes attributes = {}) = 0;
  // Adds `gradient` to the gradient of input i (the first is taken as it is, further ones are summed in emission order).
  virtual void contribute(int input, ValueId gradient) = 0;
};

// What an OpDef::evaluate sees and does: an op of the forward graph, and the graph that is made of it.
class EvaluationContext {
 public:
  virtual ~EvaluationContext() = default;
  // The op in the forward graph.
  virtual OpSite site() const = 0;
  // What stands for a value of the forward graph.
  virtual ValueId value(ValueId forward) = 0;
  ValueId input(int i) { return value(site().op.inputs.at(static_cast<std::size_t>(i))); }
  // Appends an op with the forward op's name and makes its outputs stand for the forward op's.
  virtual void emit(std::string_view kind, std::vector<ValueId> inputs, Attributes attributes = {}) = 0;
  // Makes `by` stand for output i.
  virtual void replace(int output, ValueId by) = 0;
};

// The OpDef of that kind, or nullptr. The registry installs itself here so that graph/ need not know ops/.
const OpDef* find_op_def(std::string_view kind);
std::vector<const OpDef*> all_op_defs();
void set_op_defs(std::vector<const OpDef*> defs);
// The OpDef for that use. Throws InternalError where none is registered.
const OpDef& op_def_for(Use use);

}  // namespace outsize
