#include "cost/devices.h"

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "command.h"
#include "flags.h"
#include "table.h"

namespace outsize::cli {
namespace {

int list_devices(const CommonFlags& flags) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  Summary summary;
  for (const Device& device : devices()) {
    rows.push_back({{"name", device.name},
                    {"memory_bytes", device.memory_bytes},
                    {"flops", device.flops},
                    {"bandwidth", device.bandwidth},
                    {"link_out", device.link_out},
                    {"link_in", device.link_in}});
    summary.row(device.name, fmt::format("{}, {:.0f} GF/s, {:.0f} GB/s, link {:.0f} GB/s", format_bytes(device.memory_bytes),
                                         device.flops / 1e9, device.bandwidth / 1e9, device.link_out / 1e9));
  }
  if (flags.json)
    fmt::print("{}\n", nlohmann::ordered_json{{"rows", rows}}.dump(2));
  else
    summary.print();
  return kDone;
}

}  // namespace

Run add_devices(CLI::App& command) {
  auto flags = std::make_shared<CommonFlags>();
  add_common_flags(command, *flags);
  return [flags] { return list_devices(*flags); };
}

}  // namespace outsize::cli
