#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/few.h"
#include "base/ids.h"
#include "base/stable_list.h"
#include "graph/attributes.h"
#include "graph/types.h"

namespace outsize {

class OpDef;

// How a parameter or state is filled before the first step.
struct Init {
  enum class Kind : std::uint8_t {
    zeros,
    ones,
    constant,  // `scale` everywhere
    normal,    // of standard deviation `scale`
    uniform,   // within ±`scale`
    sinusoid,  // [positions, features]: sines and cosines of the position, in turn, of wavelengths from 2π to 10000 · 2π
  } kind = Kind::zeros;
  double scale = 0;

  bool operator==(const Init&) const = default;
};

// A tensor in the graph. It has no address: pieces have.
struct Value {
  std::string name;
  ValueType type;
  Role role = Role::activation;
  OpId producer;                // none for inputs, parameters and states
  int producer_output = 0;      // which output of the producer
  std::vector<OpId> consumers;  // in op order, once per op
  Init init;                    // parameters and states
  ValueId gradient_of;          // for gradients: of which value
  bool partial = false;         // for gradients: one contribution of several, summed later
  ValueId version_of;           // for the outputs of updates: the persistent value they replace

  bool persistent() const { return role == Role::parameter || role == Role::state; }
};

// An output that takes an input's place.
struct InPlacePair {
  int output = 0;
  int input = 0;
};
using InPlacePairs = Few<InPlacePair, 4>;

struct Op {
  std::string name;  // hierarchical: "layer1.0.conv1"
  const OpDef* def = nullptr;
  Attributes attributes;  // complete: those left out have their default
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  InPlacePairs updates;  // OpDef::updates: the outputs that replace persistent inputs
  Phase phase = Phase::forward;
  OpId forward;  // for backward ops: the op whose gradient this is part of
};

// Values and ops in execution order: an op reads only values that exist before it. Ids are indices and never change; references
// to values and ops stay valid while the graph grows.
class Graph {
 public:
  std::string name = "graph";

  // A value without a producer. Throws UserError if the name is taken or is not made of letters, digits and _ . - /
  ValueId add_value(std::string name, ValueType type, Role role, Init init = {});

  // Appends an op: checks attributes and inputs, fills in the attributes left out, infers its outputs. `output_names` may be
  // shorter than the outputs; the rest (and empty ones) are named after the op, or "<value>.next" where they replace a persistent
  // value. An op that replaces persistent values has phase update whatever is given. Throws UserError naming the op when inputs
  // do not fit; the graph is then unchanged.
  OpId add_op(std::string name, const OpDef& def, std::vector<ValueId> inputs, Attributes attributes = {},
              std::vector<std::string> output_names = {}, Phase phase = Phase::forward, OpId forward = {});

  // Marks a value as one that can be read after the step.
  void add_output(ValueId value);

  const Value& value(ValueId id) const { return values_[static_cast<std::size_t>(id.index)]; }
  Value& value(ValueId id) { return values_[static_cast<std::size_t>(id.index)]; }
  const Op& op(OpId id) const { return ops_[static_cast<std::size_t>(id.index)]; }
  Op& op(OpId id) { return ops_[static_cast<std::size_t>(id.index)]; }
  std::int64_t value_count() const { return static_cast<std::int64_t>(values_.size()); }
  std::int64_t op_count() const { return static_cast<std::int64_t>(ops_.size()); }
  const StableList<Value>& values() const { return values_; }
  const StableList<Op>& ops() const { return ops_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  bool is_output(ValueId id) const;

  // The value or op of that name, or none.
  ValueId find_value(std::string_view value_name) const;
  OpId find_op(std::string_view op_name) const;

  // A name derived from `base` that no value (op) has yet: base, base.1, base.2, …
  std::string fresh_value_name(const std::string& base) const;
  std::string fresh_op_name(const std::string& base) const;

 private:
  // References to values and ops stay valid while the graph grows: autodiff appends to the graph it reads.
  StableList<Value> values_;
  StableList<Op> ops_;
  std::vector<ValueId> outputs_;
  std::unordered_map<std::string, ValueId> value_names_;
  std::unordered_map<std::string, OpId> op_names_;
};

}  // namespace outsize
