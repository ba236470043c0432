#include <nlohmann/json.hpp>

#include "command.h"
#include "flags.h"
#include "outsize/listings.h"

namespace outsize::cli {

void print_version(bool json) {
  if (json)
    fmt::print("{}\n", nlohmann::ordered_json{{"version", version()}}.dump());
  else
    fmt::print("outsize {}\n", version());
}

Run add_version(CLI::App& command) {
  auto flags = std::make_shared<CommonFlags>();
  add_common_flags(command, *flags);
  return [flags] {
    print_version(flags->json);
    return kDone;
  };
}

}  // namespace outsize::cli
