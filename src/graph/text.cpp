#include "graph/text.h"

#include <fmt/ranges.h>

#include "base/id_vector.h"
#include "base/text.h"
#include "graph/opdef.h"

namespace outsize {

namespace {

constexpr std::string_view kNoGradient = "_";

// ---- printing ----

std::string init_text(const Init& init) {
  switch (init.kind) {
    case Init::Kind::zeros: return "zeros";
    case Init::Kind::ones: return "ones";
    case Init::Kind::constant: return fmt::format("constant:{}", init.scale);
    case Init::Kind::sinusoid: return "sinusoid";
    case Init::Kind::normal: return fmt::format("normal:{}", init.scale);
    case Init::Kind::uniform: return fmt::format("uniform:{}", init.scale);
  }
  return "?";
}

// " @gradient(…)" with one entry a value, or nothing when none is a gradient.
std::string gradient_mark(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> entries;
  bool any = false;
  for (ValueId id : values) {
    const Value& value = graph.value(id);
    if (value.gradient_of) {
      any = true;
      entries.push_back(graph.value(value.gradient_of).name + (value.partial ? "+" : ""));
    } else {
      entries.emplace_back(kNoGradient);
    }
  }
  return any ? fmt::format(" @gradient({})", fmt::join(entries, ", ")) : "";
}

std::string source_line(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (!value.persistent()) return fmt::format("input {} {}{}\n", value.name, to_string(value.type), gradient_mark(graph, {id}));
  return fmt::format("{} {} {}{}{} init={}\n", value.role == Role::parameter ? "param" : "state", value.name,
                     name_of(value.type.dtype), value.type.format == Format::map ? ".map" : "", to_string(value.type.shape),
                     init_text(value.init));
}

std::string op_line(const Graph& graph, const Op& op) {
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<std::string> types;
  for (ValueId input : op.inputs) inputs.push_back(graph.value(input).name);
  for (ValueId output : op.outputs) {
    outputs.push_back(graph.value(output).name);
    types.push_back(to_string(graph.value(output).type));
  }
  std::string line = fmt::format("{}: {} = {}({})", op.name, fmt::join(outputs, ", "), op.def->kind(), fmt::join(inputs, ", "));
  for (const AttributeSpec& spec : op.def->attribute_specs()) {
    const auto found = op.attributes.find(spec.name);
    if (found != op.attributes.end() && found->second != spec.fallback)
      line += fmt::format(" {}={}", spec.name, to_string(found->second));
  }
  line += fmt::format(" : {}", fmt::join(types, ", "));
  if (op.phase != Phase::forward) line += fmt::format(" @{}", name_of(op.phase));
  if (op.forward) line += fmt::format("({})", graph.op(op.forward).name);
  return line + gradient_mark(graph, op.outputs) + "\n";
}

// ---- parsing ----

ValueType parse_type(LineCursor& line, bool map_by_default) {
  const std::string_view text = line.name("a type such as f32[2, 3, 32, 32]");
  const std::size_t dot = text.find('.');
  const std::string_view dtype_name = text.substr(0, dot);
  const std::string_view format_name = dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1);
  const auto dtype = parse_dtype(dtype_name);
  if (!dtype) user_error("unknown type '{}'; expected f32, f64, i32 or u8", dtype_name);
  if (!format_name.empty() && format_name != "plain" && format_name != "map" && format_name != "planar")
    user_error("unknown format '{}'; expected plain, map or planar", format_name);
  const std::vector<std::int64_t> extents = line.integers("the extents");
  if (extents.size() > static_cast<std::size_t>(Dims::kMaxRank))
    user_error("expected at most {} dimensions, found {}", Dims::kMaxRank, extents.size());
  const bool map_rank = extents.size() == 4 || extents.size() == 5;
  const bool map = format_name.empty() ? map_by_default && map_rank : format_name == "map";
  const Format format = format_name == "planar" ? Format::planar : map ? Format::map : Format::plain;
  return {*dtype, Dims(std::span(extents)), format};
}

Init parse_init(LineCursor& line) {
  constexpr std::string_view kExpected = "zeros, ones, sinusoid, constant:NUMBER, normal:STD or uniform:HALFWIDTH";
  const std::string_view kind = line.name(kExpected);
  if (kind == "zeros") return {Init::Kind::zeros, 0};
  if (kind == "ones") return {Init::Kind::ones, 0};
  if (kind == "sinusoid") return {Init::Kind::sinusoid, 0};
  if (kind != "constant" && kind != "normal" && kind != "uniform") user_error("unknown init '{}'; expected {}", kind, kExpected);
  line.expect(':', fmt::format("and a number after init={}", kind));
  const std::string_view text = line.word("a number");
  double scale = 0;
  const bool read = parse_number(text, scale);
  if (kind == "constant" && read) return {Init::Kind::constant, scale};
  if (!read || scale < 0) user_error("init={}: expected a number that is not negative, found '{}'", kind, text);
  return {kind == "normal" ? Init::Kind::normal : Init::Kind::uniform, scale};
}

Attribute parse_attribute(LineCursor& line, std::string_view name) {
  if (line.peek('[')) return line.integers(fmt::format("the integers of attribute {}", name));
  const std::string_view text = line.word(fmt::format("the value of attribute {}", name));
  if (std::int64_t integer = 0; parse_integer(text, integer)) return integer;
  if (double number = 0; parse_number(text, number)) return number;
  return std::string(text);
}

// The marks that end a line.
struct Marks {
  Phase phase = Phase::forward;
  std::string_view forward;                                  // an op's name
  std::vector<std::pair<std::string_view, bool>> gradients;  // a value's name or "_", and whether it is a part
};

Marks parse_mark(LineCursor& line, Marks marks) {
  const std::string_view mark = line.name("backward, update or gradient after '@'");
  if (mark == "update") {
    marks.phase = Phase::update;
  } else if (mark == "backward") {
    marks.phase = Phase::backward;
    if (line.accept('(')) {
      marks.forward = line.name("an op's name");
      line.expect(')', "after the op's name");
    }
  } else if (mark == "gradient") {
    line.expect('(', "after @gradient");
    do {
      const std::string_view name = line.name("a value's name or _");
      marks.gradients.emplace_back(name, line.accept('+'));
    } while (line.accept(','));
    line.expect(')', "after the values' names");
  } else {
    user_error("unknown mark '@{}'; expected @backward, @update or @gradient", mark);
  }
  return marks;
}

class Parser {
 public:
  Graph parse(std::string_view text, std::string_view file, bool is_network) {
    std::int64_t number = 0;
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      std::string_view line = text.substr(0, end);
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
      ++number;
      try {
        parse_line(line.substr(0, line.find('#')));
      } catch (const UserError& error) {
        user_error("{}:{}: {}", file, number, error.what());
      }
      value_lines_.resize(graph_.value_count(), number);
      op_lines_.resize(graph_.op_count(), number);
    }
    if (graph_.value_count() == 0 && !named_) user_error("{}: is empty; expected a graph", file);
    if (graph_.outputs().empty()) user_error("{}:{}: the graph has no output; add a line such as 'output loss'", file, number);
    if (is_network) {
      expect_complete_ops(file);
      expect_used_parameters(file);
    }
    return std::move(graph_);
  }

 private:
  void parse_line(std::string_view text) {
    LineCursor line(text);
    if (line.at_end()) return;
    const std::string_view first = line.name("graph, input, param, state, output or an op's name");
    if (line.accept(':'))
      parse_op(first, line);
    else if (first == "graph")
      parse_header(line);
    else if (first == "input")
      parse_input(line);
    else if (first == "param")
      parse_persistent(line, Role::parameter);
    else if (first == "state")
      parse_persistent(line, Role::state);
    else if (first == "output")
      parse_output(line);
    else
      user_error("expected graph, input, param, state, output or 'OP: RESULT = KIND(…)', found '{}'", first);
    line.finish();
  }

  void parse_header(LineCursor& line) {
    if (named_ || graph_.value_count() > 0) user_error("the graph's name must stand once, on the first line");
    graph_.name = line.name("the graph's name");
    named_ = true;
  }

  void parse_input(LineCursor& line) {
    const std::string_view name = line.name("the input's name");
    const ValueType type = parse_type(line, true);
    const ValueId id = graph_.add_value(std::string(name), type, Role::input);
    if (!line.accept('@')) return;
    mark_gradients({id}, parse_mark(line, {}), fmt::format("input {}", name));
  }

  void parse_persistent(LineCursor& line, Role role) {
    const std::string_view name = line.name(role == Role::parameter ? "the parameter's name" : "the state's name");
    const ValueType type = parse_type(line, false);
    Init init;
    if (!line.at_end()) {
      const std::string_view key = line.name("init=… or the end of the line");
      if (key != "init") user_error("expected init=…, found '{}'", key);
      line.expect('=', "after init");
      init = parse_init(line);
    }
    graph_.add_value(std::string(name), type, role, init);
  }

  void parse_output(LineCursor& line) {
    do graph_.add_output(value_named(line.name("a value's name"), "output"));
    while (line.accept(','));
  }

  void parse_op(std::string_view name, LineCursor& line) {
    std::vector<std::string> results;
    do results.emplace_back(line.name("a result's name"));
    while (line.accept(','));
    line.expect('=', "after the results");
    const std::string_view kind = line.name("an op kind");
    const OpDef* def = find_op_def(kind);
    if (!def) unknown_kind(name, kind);
    const std::string where = fmt::format("op {} ({})", name, kind);

    std::vector<ValueId> inputs;
    line.expect('(', fmt::format("after {}", kind));
    if (!line.accept(')')) {
      do inputs.push_back(value_named(line.name("a value's name"), where));
      while (line.accept(','));
      line.expect(')', "after the inputs");
    }

    Attributes attributes;
    std::vector<ValueType> types;
    Marks marks;
    while (!line.at_end()) {
      if (line.accept('@')) {
        marks = parse_mark(line, marks);
      } else if (line.accept(':')) {
        do types.push_back(parse_type(line, true));
        while (line.accept(','));
      } else {
        const std::string_view attribute = line.name("ATTRIBUTE=VALUE, ': TYPE' or the end of the line");
        line.expect('=', fmt::format("after attribute {}", attribute));
        if (attributes.contains(attribute)) user_error("{}: attribute '{}' is given twice", where, attribute);
        attributes[std::string(attribute)] = parse_attribute(line, attribute);
      }
    }

    const OpId forward = marks.forward.empty() ? OpId() : graph_.find_op(marks.forward);
    if (!marks.forward.empty() && !forward) user_error("{}: unknown op '{}' in @backward", where, marks.forward);
    const OpId id =
        graph_.add_op(std::string(name), *def, std::move(inputs), std::move(attributes), std::move(results), marks.phase, forward);
    const Op& op = graph_.op(id);
    if (op.phase == Phase::update && def->updates({graph_, op}).empty())
      user_error("{}: is no update; {} replaces nothing", where, kind);
    check_types(op, types, where);
    if (!marks.gradients.empty()) mark_gradients(op.outputs, marks, where);
  }

  void check_types(const Op& op, const std::vector<ValueType>& types, const std::string& where) const {
    if (types.size() > op.outputs.size())
      user_error("{}: {} types are given for {} results", where, types.size(), op.outputs.size());
    for (std::size_t i = 0; i < types.size(); ++i) {
      const Value& value = graph_.value(op.outputs[i]);
      if (value.type != types[i])
        user_error("{}: '{}' is {}, but the text says {}", where, value.name, to_string(value.type), to_string(types[i]));
    }
  }

  void mark_gradients(const std::vector<ValueId>& values, const Marks& marks, const std::string& where) {
    if (marks.gradients.size() != values.size())
      user_error("{}: @gradient has {} entries for {} results", where, marks.gradients.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto& [name, partial] = marks.gradients[i];
      if (name == kNoGradient) continue;
      Value& value = graph_.value(values[i]);
      value.gradient_of = value_named(name, where);
      value.partial = partial;
      if (value.role == Role::activation) value.role = Role::gradient;
    }
  }

  void expect_complete_ops(std::string_view file) const {
    for (std::int64_t i = 0; i < op_lines_.size(); ++i) {
      const Op& op = graph_.op(OpId(i));
      try {
        op.def->expect_complete({graph_, op});
      } catch (const UserError& error) {
        user_error("{}:{}: op {} ({}): {}", file, op_lines_[OpId(i)], op.name, op.def->kind(), error.what());
      }
    }
  }

  void expect_used_parameters(std::string_view file) const {
    IdVector<ValueId, bool> used(graph_.value_count());  // by an output, in however many steps
    for (const ValueId output : graph_.outputs()) used[output] = true;
    // What an op reads was declared before what it computes.
    for (std::int64_t i = used.size(); i-- > 0;)
      if (const OpId producer = graph_.value(ValueId(i)).producer; used[ValueId(i)] && producer)
        for (const ValueId input : graph_.op(producer).inputs) used[input] = true;
    for (std::int64_t i = 0; i < used.size(); ++i) {
      const Value& value = graph_.value(ValueId(i));
      if (value.role == Role::parameter && !value.producer && !used[ValueId(i)])
        user_error("{}:{}: param '{}': {}, so that it would never be trained; use it, or remove the line", file,
                   value_lines_[ValueId(i)], value.name, value.consumers.empty() ? "no op reads it" : "no output depends on it");
    }
  }

  ValueId value_named(std::string_view name, std::string_view where) const {
    const ValueId id = graph_.find_value(name);
    if (id) return id;
    std::vector<std::string_view> names;
    for (const Value& value : graph_.values()) names.push_back(value.name);
    const std::string near = did_you_mean(name, names);
    user_error("{}: unknown value '{}'{}", where, name, near.empty() ? "; a value must be declared before it is read" : near);
  }

  [[noreturn]] static void unknown_kind(std::string_view name, std::string_view kind) {
    std::vector<std::string_view> kinds;
    for (const OpDef* def : all_op_defs()) kinds.push_back(def->kind());
    const std::string near = did_you_mean(kind, kinds);
    user_error("op {}: unknown op kind '{}'{}", name, kind, near.empty() ? "; 'outsize ops' lists them" : near);
  }

  Graph graph_;
  bool named_ = false;
  IdVector<ValueId, std::int64_t> value_lines_;  // where they are declared
  IdVector<OpId, std::int64_t> op_lines_;        // likewise
};

}  // namespace

std::string print_graph(const Graph& graph) {
  std::string text = fmt::format("graph {}\n", graph.name);
  for (std::int64_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId(i));
    if (!value.producer)
      text += source_line(graph, ValueId(i));
    else if (value.producer_output == 0)
      text += op_line(graph, graph.op(value.producer));
  }
  for (ValueId output : graph.outputs()) text += fmt::format("output {}\n", graph.value(output).name);
  return text;
}

Graph parse_graph(std::string_view text, std::string_view file) { return Parser().parse(text, file, false); }

Graph parse_network(std::string_view text, std::string_view file) { return Parser().parse(text, file, true); }

}  // namespace outsize
