#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "command.h"
#include "flags.h"
#include "graph/opdef.h"
#include "table.h"

namespace outsize::cli {
namespace {

std::vector<const OpDef*> sorted_defs() {
  std::vector<const OpDef*> defs = all_op_defs();
  std::sort(defs.begin(), defs.end(), [](const OpDef* a, const OpDef* b) { return a->kind() < b->kind(); });
  return defs;
}

const OpDef& find_def(const std::string& kind) {
  if (const OpDef* def = find_op_def(kind)) return *def;
  std::vector<std::string_view> kinds;
  for (const OpDef* def : all_op_defs()) kinds.push_back(def->kind());
  const std::string near = did_you_mean(kind, kinds);
  user_error("unknown op '{}'{}", kind, near.empty() ? "; `outsize ops` lists those there are" : near);
}

std::string call_form(const OpDef& def) { return fmt::format("{}({})", def.kind(), fmt::join(def.input_names(), ", ")); }

nlohmann::ordered_json to_json(const OpDef& def) {
  nlohmann::ordered_json attributes = nlohmann::ordered_json::array();
  for (const AttributeSpec& spec : def.attribute_specs())
    attributes.push_back({{"name", spec.name}, {"default", to_string(spec.fallback)}, {"help", spec.help}});
  return {{"kind", def.kind()}, {"help", def.help()}, {"inputs", def.input_names()}, {"attributes", attributes}};
}

// One op with its attributes.
void describe(const OpDef& def) {
  fmt::print("{}\n  {}\n", call_form(def), def.help());
  Summary summary;
  for (const AttributeSpec& spec : def.attribute_specs())
    summary.row(fmt::format("  {}={}", spec.name, to_string(spec.fallback)), spec.help);
  summary.print();
}

int ops(const CommonFlags& flags, const std::string& kind) {
  const std::vector<const OpDef*> defs = kind.empty() ? sorted_defs() : std::vector{&find_def(kind)};
  if (flags.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const OpDef* def : defs) rows.push_back(to_json(*def));
    fmt::print("{}\n", nlohmann::ordered_json{{"rows", rows}}.dump(2));
  } else if (!kind.empty()) {
    describe(*defs.front());
  } else {
    Summary summary;
    for (const OpDef* def : defs) summary.row(call_form(*def), std::string(def->help()));
    summary.print();
  }
  return kDone;
}

}  // namespace

Run add_ops(CLI::App& command) {
  auto flags = std::make_shared<CommonFlags>();
  auto kind = std::make_shared<std::string>();
  command.add_option("OP", *kind, "one op, with its attributes");
  add_common_flags(command, *flags);
  return [flags, kind] { return ops(*flags, *kind); };
}

}  // namespace outsize::cli
