#include <nlohmann/json.hpp>

#include "command.h"
#include "flags.h"

namespace outsize::cli {

Run add_version(CLI::App& command) {
  auto flags = std::make_shared<CommonFlags>();
  add_common_flags(command, *flags);
  return [flags] {
    if (flags->json)
      fmt::print("{}\n", nlohmann::ordered_json{{"version", OUTSIZE_VERSION}}.dump());
    else
      fmt::print("outsize {}\n", OUTSIZE_VERSION);
    return kDone;
  };
}

}  // namespace outsize::cli
