#include "graph/graph.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "graph/opdef.h"

namespace outsize {

namespace {

void check_name(std::string_view what, std::string_view name) {
  if (!is_name(name)) user_error("{} name '{}' may hold only letters, digits and _ . - /", what, name);
}

// The largest extent: shapes, windows and their inverses are computed in 64 bits from products of two extents or of an extent and
// an attribute, doubled at most, so that these bounds keep a graph of any text from overflowing them.
constexpr std::int64_t kMostExtent = std::int64_t{1} << 30;

void check_type(const ValueType& type) {
  // Far beyond any memory, yet small enough that the bytes of thousands of values add up inside 64 bits.
  constexpr double kMostElements = 0x1p44;
  double elements = 1;
  for (std::int64_t extent : type.shape) {
    if (extent < 1) user_error("every extent must be at least 1, found {}", to_string(type));
    elements *= static_cast<double>(extent);
  }
  if (elements > kMostElements) user_error("{} has more elements than can be addressed", to_string(type));
  for (std::int64_t extent : type.shape)
    if (extent > kMostExtent) user_error("no extent may be above {}, found {}", kMostExtent, to_string(type));
  if (is_map(type.format) && type.shape.rank() != 4 && type.shape.rank() != 5)
    user_error("a map has 4 or 5 dimensions (N C D? H W), found {}", to_string(type));
}

std::string_view describe(const Attribute& like) {
  if (std::holds_alternative<std::int64_t>(like)) return "an integer";
  if (std::holds_alternative<double>(like)) return "a number";
  if (std::holds_alternative<std::string>(like)) return "a word";
  return "a list of integers such as [1, 1]";
}

// `given` as the type that the OpDef declares: an integer serves where a number is declared.
Attribute converted(const AttributeSpec& spec, const Attribute& given) {
  if (std::holds_alternative<double>(spec.fallback) && std::holds_alternative<std::int64_t>(given))
    return static_cast<double>(std::get<std::int64_t>(given));
  const auto* number = std::get_if<double>(&given);
  const auto* word = std::get_if<std::string>(&given);
  // Words and numbers must stay what they are when written down and read back.
  const bool readable = (!number || std::isfinite(*number)) && (!word || (is_name(*word) && std::isalpha(word->front())));
  if (given.index() != spec.fallback.index() || !readable)
    user_error("attribute {}: expected {}, found {}", spec.name, describe(spec.fallback), to_string(given));
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&given))
    for (std::int64_t entry : *list)
      if (entry > kMostExtent || entry < -kMostExtent)
        user_error("attribute {}: {} is beyond {}, the largest extent", spec.name, entry, kMostExtent);
  return given;
}

Attributes complete_attributes(const OpDef& def, const Attributes& given) {
  const std::vector<AttributeSpec> specs = def.attribute_specs();
  Attributes complete;
  for (const AttributeSpec& spec : specs) {
    const auto found = given.find(spec.name);
    complete[spec.name] = found == given.end() ? spec.fallback : converted(spec, found->second);
  }
  for (const auto& [name, value] : given) {
    if (complete.contains(name)) continue;
    std::vector<std::string_view> names;
    for (const AttributeSpec& spec : specs) names.push_back(spec.name);
    if (names.empty()) user_error("unknown attribute '{}'; {} takes none", name, def.kind());
    const std::string near = did_you_mean(name, names);
    user_error("unknown attribute '{}'{}", name,
               near.empty() ? fmt::format("; {} takes {}", def.kind(), fmt::join(names, ", ")) : near);
  }
  return complete;
}

void check_input_count(const OpDef& def, std::size_t count) {
  const std::vector<std::string_view> names = def.input_names();
  const bool repeats = !names.empty() && names.back().ends_with('*');
  const auto required =
      static_cast<std::size_t>(std::count_if(names.begin(), names.end(), [](auto name) { return !name.ends_with('?'); }));
  if (count >= required && (repeats || count <= names.size())) return;
  std::string expected = fmt::format("{}", required);
  if (repeats)
    expected += " or more";
  else if (names.size() > required)
    expected += fmt::format("{}{}", names.size() == required + 1 ? " or " : " to ", names.size());
  const bool one = required == 1 && names.size() == 1 && !repeats;
  user_error("expected {} {} ({}), found {}", expected, one ? "input" : "inputs", fmt::join(names, ", "), count);
}

void check_planar(const OpSite& site) {
  for (int i = 0; i < site.inputs(); ++i)
    if (site.in(i).format == Format::planar && !site.op.def->takes_planar(site, i))
      user_error("takes no planar map; write {} without its format, found {}", site.graph.value(site.op.inputs[i]).name,
                 to_string(site.in(i)));
}

std::string default_output_name(const Op& op, std::size_t output) {
  const std::vector<std::string_view> suffixes = op.def->output_names();
  const std::string suffix = output < suffixes.size() ? std::string(suffixes[output]) : fmt::format("{}", output);
  return suffix.empty() ? op.name : op.name + "." + suffix;
}

}  // namespace

ValueId Graph::add_value(std::string value_name, ValueType type, Role role, Init init) {
  check_name("value", value_name);
  if (find_value(value_name)) user_error("value '{}' is defined twice", value_name);
  try {
    check_type(type);
  } catch (const UserError& error) {
    user_error("value {}: {}", value_name, error.what());
  }
  const ValueId id(value_count());
  Value& value = values_.emplace_back();
  value.name = value_name;
  value.type = type;
  value.role = role;
  value.init = init;
  value_names_.emplace(std::move(value_name), id);
  return id;
}

OpId Graph::add_op(std::string op_name, const OpDef& def, std::vector<ValueId> inputs, Attributes attributes,
                   std::vector<std::string> output_names, Phase phase, OpId forward) {
  check_name("op", op_name);
  if (find_op(op_name)) user_error("op '{}' is defined twice", op_name);
  Op op{std::move(op_name), &def, {}, std::move(inputs), {}, {}, phase, forward};

  std::vector<Value> made;
  try {
    check_input_count(def, op.inputs.size());
    for (ValueId input : op.inputs) OUTSIZE_CHECK(input.valid() && input.index < value_count());
    op.attributes = complete_attributes(def, attributes);
    const OpSite site{*this, op};
    check_planar(site);
    for (const ValueType& type : def.infer(site)) {
      check_type(type);
      made.emplace_back().type = type;
    }
    if (made.empty()) internal_error("op {} ({}): infers no output", op.name, def.kind());
    if (output_names.size() > made.size())
      user_error("has {} {}, but {} are named", made.size(), made.size() == 1 ? "result" : "results", output_names.size());
    output_names.resize(made.size());

    const auto taken = [&](const std::string& candidate) {
      const auto same = [&](const Value& other) { return other.name == candidate; };
      return find_value(candidate) || std::any_of(made.begin(), made.end(), same);
    };
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (output_names[i].empty()) continue;
      check_name("value", output_names[i]);
      if (taken(output_names[i])) user_error("value '{}' is defined twice", output_names[i]);
      made[i].name = output_names[i];
    }
    const auto name_by_default = [&](Value& output, const std::string& base) {
      if (!output.name.empty()) return;
      std::string candidate = base;
      for (std::int64_t i = 1; taken(candidate); ++i) candidate = fmt::format("{}.{}", base, i);
      output.name = candidate;
    };
    op.updates = def.updates(site);
    for (const InPlacePair& pair : op.updates) {
      const ValueId replaced = op.inputs.at(pair.input);
      const Value& old = value(replaced);
      if (!old.persistent())
        user_error("input {} must be a parameter or state, because the op replaces it; found {} '{}'", pair.input,
                   name_of(old.role), old.name);
      Value& next = made.at(pair.output);
      next.role = old.role;
      next.version_of = old.version_of ? old.version_of : replaced;
      name_by_default(next, old.name + ".next");
      op.phase = Phase::update;
    }
    for (std::size_t i = 0; i < made.size(); ++i) name_by_default(made[i], default_output_name(op, i));
  } catch (const UserError& error) {
    user_error("op {} ({}): {}", op.name, def.kind(), error.what());
  }

  // Nothing below throws a UserError, so a refused op leaves no trace.
  const OpId id(op_count());
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i].producer = id;
    made[i].producer_output = static_cast<int>(i);
    const ValueId output(value_count());
    op.outputs.push_back(output);
    value_names_.emplace(made[i].name, output);
    values_.emplace_back(std::move(made[i]));
  }
  for (ValueId input : op.inputs) {
    std::vector<OpId>& consumers = value(input).consumers;
    if (consumers.empty() || consumers.back() != id) consumers.push_back(id);
  }
  op_names_.emplace(op.name, id);
  const Op& added = ops_.emplace_back(std::move(op));
  for (int i = 0; i < static_cast<int>(added.outputs.size()); ++i) {
    Value& output = value(added.outputs[i]);
    if (!output.version_of) output.role = def.output_role({*this, added}, i);
  }
  return id;
}

void Graph::add_output(ValueId id) {
  OUTSIZE_CHECK(id.valid() && id.index < value_count());
  if (!is_output(id)) outputs_.push_back(id);
}

bool Graph::is_output(ValueId id) const { return std::find(outputs_.begin(), outputs_.end(), id) != outputs_.end(); }

ValueId Graph::find_value(std::string_view value_name) const {
  const auto found = value_names_.find(std::string(value_name));
  return found == value_names_.end() ? ValueId() : found->second;
}

OpId Graph::find_op(std::string_view op_name) const {
  const auto found = op_names_.find(std::string(op_name));
  return found == op_names_.end() ? OpId() : found->second;
}

std::string Graph::fresh_value_name(const std::string& base) const {
  std::string candidate = base;
  for (std::int64_t i = 1; find_value(candidate); ++i) candidate = fmt::format("{}.{}", base, i);
  return candidate;
}

std::string Graph::fresh_op_name(const std::string& base) const {
  std::string candidate = base;
  for (std::int64_t i = 1; find_op(candidate); ++i) candidate = fmt::format("{}.{}", base, i);
  return candidate;
}

}  // namespace outsize
