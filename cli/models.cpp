#include <nlohmann/json.hpp>

#include "command.h"
#include "flags.h"
#include "plan/planner.h"
#include "table.h"

namespace outsize::cli {
namespace {

// A table of entries that have a name and a help line: the models, the planners.
template <class Entries>
int list_entries(const CommonFlags& flags, const Entries& entries) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  Summary summary;
  for (const auto& entry : entries) {
    rows.push_back({{"name", entry.name}, {"help", entry.help}});
    summary.row(std::string(entry.name), std::string(entry.help));
  }
  if (flags.json)
    fmt::print("{}\n", nlohmann::ordered_json{{"rows", rows}}.dump(2));
  else
    summary.print();
  return kDone;
}

template <class Entries>
Run add_listing(CLI::App& command, const Entries& entries) {
  auto flags = std::make_shared<CommonFlags>();
  add_common_flags(command, *flags);
  return [flags, &entries] { return list_entries(*flags, entries()); };
}

}  // namespace

Run add_models(CLI::App& command) { return add_listing(command, zoo); }

Run add_planners(CLI::App& command) { return add_listing(command, planners); }

}  // namespace outsize::cli
