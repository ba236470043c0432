#include <nlohmann/json.hpp>

#include "command.h"
#include "flags.h"
#include "model/zoo.h"
#include "plan/planner.h"
#include "table.h"

namespace outsize::cli {
namespace {

using Json = nlohmann::ordered_json;

int print_list(const CommonFlags& flags, Json rows, const Summary& summary) {
  if (flags.json)
    fmt::print("{}\n", Json{{"rows", std::move(rows)}}.dump(2));
  else
    summary.print();
  return kDone;
}

int list_models(const CommonFlags& flags) {
  Json rows = Json::array();
  Summary summary;
  for (const ModelEntry& entry : zoo()) {
    rows.push_back({{"name", entry.name}, {"help", entry.help}});
    summary.row(std::string(entry.name), std::string(entry.help));
  }
  return print_list(flags, std::move(rows), summary);
}

// The planners, each with its options under it.
int list_planners(const CommonFlags& flags) {
  Json rows = Json::array();
  Summary summary;
  for (const Planner& planner : planners()) {
    Json options = Json::array();
    summary.row(std::string(planner.name), std::string(planner.help));
    for (const PlannerOption& option : planner.options) {
      const bool has = !option.initial.empty();
      options.push_back({{"name", option.name},
                         {"expects", expected_by(option)},
                         {"default", has ? Json(option.initial) : Json()},
                         {"help", option.help}});
      summary.row(fmt::format("  {}", option.name), fmt::format("  {}{}{}{}", option.words, option.words.empty() ? "" : ": ",
                                                                option.help, has ? fmt::format(" [{}]", option.initial) : ""));
    }
    rows.push_back({{"name", planner.name}, {"help", planner.help}, {"options", options}});
  }
  return print_list(flags, std::move(rows), summary);
}

Run add_listing(CLI::App& command, int (*list)(const CommonFlags&)) {
  auto flags = std::make_shared<CommonFlags>();
  add_common_flags(command, *flags);
  return [flags, list] { return list(*flags); };
}

}  // namespace

Run add_models(CLI::App& command) { return add_listing(command, list_models); }

Run add_planners(CLI::App& command) { return add_listing(command, list_planners); }

}  // namespace outsize::cli
