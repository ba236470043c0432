#include "graph/opdef.h"

#include <algorithm>

namespace outsize {

namespace {

// Attributes of an op in a graph are complete (Graph::add_op fills in defaults), so one that is missing was never declared.
template <class T>
const T& attribute_of(const OpSite& site, std::string_view name) {
  const auto found = site.op.attributes.find(name);
  if (found == site.op.attributes.end())
    internal_error("op {} ({}): attribute '{}' is not declared", site.op.name, site.op.def->kind(), name);
  const T* value = std::get_if<T>(&found->second);
  if (!value) internal_error("op {} ({}): attribute '{}' was declared with another type", site.op.name, site.op.def->kind(), name);
  return *value;
}

std::vector<const OpDef*>& installed_defs() {
  static std::vector<const OpDef*> defs;
  return defs;
}

// The boxes of a pointwise call: `box` for every value of `shape`, all others whole.
CallBoxes pointwise(const OpSite& site, const Dims& shape, const Box& box) {
  const auto box_of = [&](const ValueType& type) { return type.shape == shape ? box : Box::whole(type.shape); };
  CallBoxes boxes;
  for (int i = 0; i < site.inputs(); ++i) boxes.in.push_back(box_of(site.in(i)));
  for (int i = 0; i < site.outputs(); ++i) boxes.out.push_back(box_of(site.out(i)));
  return boxes;
}

}  // namespace

std::int64_t OpSite::integer(std::string_view name) const { return attribute_of<std::int64_t>(*this, name); }
double OpSite::number(std::string_view name) const { return attribute_of<double>(*this, name); }
const std::string& OpSite::word(std::string_view name) const { return attribute_of<std::string>(*this, name); }
const std::vector<std::int64_t>& OpSite::integers(std::string_view name) const {
  return attribute_of<std::vector<std::int64_t>>(*this, name);
}

Role OpDef::output_role(const OpSite& site, int /*output*/) const {
  // An op that also serves forward (add, reshape) makes gradients when a gradient rule emitted it.
  return site.op.phase == Phase::backward ? Role::gradient : Role::activation;
}

void OpDef::gradient(GradientContext& context) const {
  const OpSite site = context.site();
  user_error("op {} ({}): has no gradient, but a parameter before it needs one", site.op.name, kind());
}

void OpDef::evaluate(EvaluationContext& context) const {
  const OpSite site = context.site();
  std::vector<ValueId> inputs;
  for (int i = 0; i < site.inputs(); ++i) inputs.push_back(context.input(i));
  context.emit(kind(), std::move(inputs), site.op.attributes);
}

CallBoxes OpDef::gather(const OpSite& site, const Box& output) const { return pointwise(site, site.out(0).shape, output); }

CallBoxes OpDef::push(const OpSite& site, const Box& driver) const {
  return pointwise(site, site.in(push_driver(site)).shape, driver);
}

Cost OpDef::cost(const OpSite& site, const CallBoxes& boxes) const {
  Cost cost;
  const auto add_bytes = [&](const Box& box, const ValueType& type) {
    cost.bytes += static_cast<double>(box.elements()) * static_cast<double>(size_of(type.dtype));
  };
  for (int i = 0; i < site.inputs(); ++i) add_bytes(boxes.in[static_cast<std::size_t>(i)], site.in(i));
  for (int i = 0; i < site.outputs(); ++i) {
    const Box& box = boxes.out[static_cast<std::size_t>(i)];
    add_bytes(box, site.out(i));
    cost.flops += static_cast<double>(box.elements());
  }
  return cost;
}

const OpDef* find_op_def(std::string_view kind) {
  const auto& defs = installed_defs();
  const auto found = std::find_if(defs.begin(), defs.end(), [&](const OpDef* def) { return def->kind() == kind; });
  return found == defs.end() ? nullptr : *found;
}

const OpDef& op_def_for(Use use) {
  const auto& defs = installed_defs();
  const auto found = std::ranges::find(defs, use, &OpDef::use);
  if (found == defs.end()) internal_error("no op kind for use {} is registered", static_cast<int>(use));
  return **found;
}

std::vector<const OpDef*> all_op_defs() { return installed_defs(); }

void set_op_defs(std::vector<const OpDef*> defs) { installed_defs() = std::move(defs); }

}  // namespace outsize
