#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "command.h"
#include "flags.h"
#include "outsize/listings.h"
#include "table.h"

namespace outsize::cli {
namespace {

std::string call_form(const OpInfo& op) { return fmt::format("{}({})", op.kind, fmt::join(op.inputs, ", ")); }

nlohmann::ordered_json to_json(const OpInfo& op) {
  nlohmann::ordered_json attributes = nlohmann::ordered_json::array();
  for (const OpInfo::Attribute& attribute : op.attributes)
    attributes.push_back({{"name", attribute.name}, {"default", attribute.initial}, {"help", attribute.help}});
  return {{"kind", op.kind}, {"help", op.help}, {"inputs", op.inputs}, {"attributes", attributes}};
}

// One op with its attributes.
void describe(const OpInfo& op) {
  fmt::print("{}\n  {}\n", call_form(op), op.help);
  Summary summary;
  for (const OpInfo::Attribute& attribute : op.attributes)
    summary.row(fmt::format("  {}={}", attribute.name, attribute.initial), attribute.help);
  summary.print();
}

int print_ops(const CommonFlags& flags, const std::string& kind) {
  const std::vector<OpInfo> ops = list_ops(kind);
  if (flags.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const OpInfo& op : ops) rows.push_back(to_json(op));
    fmt::print("{}\n", nlohmann::ordered_json{{"rows", rows}}.dump(2));
  } else if (!kind.empty()) {
    describe(ops.front());
  } else {
    Summary summary;
    for (const OpInfo& op : ops) summary.row(call_form(op), op.help);
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
  return [flags, kind] { return print_ops(*flags, *kind); };
}

}  // namespace outsize::cli
