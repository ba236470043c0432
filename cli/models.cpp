#include <nlohmann/json.hpp>

#include "command.h"
#include "flags.h"
#include "outsize/listings.h"
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

int print_models(const CommonFlags& flags) {
  Json rows = Json::array();
  Summary summary;
  for (const ModelInfo& model : list_models()) {
    rows.push_back({{"name", model.name}, {"help", model.help}});
    summary.row(model.name, model.help);
  }
  return print_list(flags, std::move(rows), summary);
}

// The planners, each with its options under it.
int print_planners(const CommonFlags& flags) {
  Json rows = Json::array();
  Summary summary;
  for (const PlannerInfo& planner : list_planners()) {
    Json options = Json::array();
    summary.row(planner.name, fmt::format("{} ({})", planner.help, planner.source));
    for (const PlannerInfo::Option& option : planner.options) {
      const bool has = !option.initial.empty();
      options.push_back({{"name", option.name},
                         {"expects", option.expects},
                         {"default", has ? Json(option.initial) : Json()},
                         {"help", option.help}});
      summary.row(fmt::format("  {}", option.name), fmt::format("  {}{}{}{}", option.words, option.words.empty() ? "" : ": ",
                                                                option.help, has ? fmt::format(" [{}]", option.initial) : ""));
    }
    rows.push_back({{"name", planner.name}, {"help", planner.help}, {"source", planner.source}, {"options", options}});
  }
  return print_list(flags, std::move(rows), summary);
}

Run add_listing(CLI::App& command, int (*list)(const CommonFlags&)) {
  auto flags = std::make_shared<CommonFlags>();
  add_common_flags(command, *flags);
  return [flags, list] { return list(*flags); };
}

}  // namespace

Run add_models(CLI::App& command) { return add_listing(command, print_models); }

Run add_planners(CLI::App& command) { return add_listing(command, print_planners); }

}  // namespace outsize::cli
