#include <nlohmann/json.hpp>

#include "command.h"
#include "flags.h"
#include "table.h"

namespace outsize::cli {
namespace {

int models(const CommonFlags& flags) {
  if (flags.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const ModelEntry& entry : zoo()) rows.push_back({{"name", entry.name}, {"help", entry.help}});
    fmt::print("{}\n", nlohmann::ordered_json{{"rows", rows}}.dump(2));
    return kDone;
  }
  Summary summary;
  for (const ModelEntry& entry : zoo()) summary.row(std::string(entry.name), std::string(entry.help));
  summary.print();
  return kDone;
}

}  // namespace

Run add_models(CLI::App& command) {
  auto flags = std::make_shared<CommonFlags>();
  add_common_flags(command, *flags);
  return [flags] { return models(*flags); };
}

}  // namespace outsize::cli
