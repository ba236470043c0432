#include "outsize/selfcheck.h"

#include <nlohmann/json.hpp>

#include "command.h"
#include "flags.h"
#include "progress.h"
#include "say.h"
#include "table.h"

namespace outsize::cli {
namespace {

std::string verdict_of(const SelfcheckReport& report) {
  const auto wrong = std::ranges::count_if(report.parts, [](const auto& part) { return !part.well(); });
  return wrong == 0 ? fmt::format("all is well, in {:.0f} s", report.seconds)
                    : fmt::format("{} of {} parts {} not as they should be", wrong, report.parts.size(), wrong == 1 ? "is" : "are");
}

void print_object(const SelfcheckReport& report) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (const SelfcheckReport::Part& part : report.parts)
    parts.push_back(
        {{"name", part.name}, {"well", part.well()}, {"found", part.found}, {"wrong", part.wrong}, {"seconds", part.seconds}});
  nlohmann::ordered_json object{{"backend", report.backend}, {"device", report.device}, {"libraries", report.libraries},
                                {"well", report.well()},     {"parts", parts},          {"seconds", report.seconds}};
  if (!report.well()) object.update({{"error", verdict_of(report)}, {"status", kBadInput}});
  fmt::print("{}\n", object.dump(2));
}

int check(const CommonFlags& flags) {
  Progress progress(!flags.json);
  const SelfcheckReport report = selfcheck(flags.machine, progress.observer());
  progress.clear();
  if (flags.json) {
    print_object(report);
  } else {
    Summary summary;
    summary.row("backend",
                fmt::format("{}: {}{}{}", report.backend, report.device, report.libraries.empty() ? "" : ", ", report.libraries));
    for (const SelfcheckReport::Part& part : report.parts) {
      summary.row(part.name,
                  fmt::format("{}{}", part.well() ? "well: " : "WRONG: ", part.well() ? part.found : part.wrong.front()));
      for (std::size_t i = 1; i < part.wrong.size(); ++i) summary.row("", part.wrong[i]);
    }
    summary.print();
    if (report.well()) fmt::print("{}\n", verdict_of(report));
  }
  if (report.well()) return kDone;
  say("{}", verdict_of(report));
  return kBadInput;
}

}  // namespace

Run add_selfcheck(CLI::App& command) {
  auto flags = std::make_shared<CommonFlags>();
  add_common_flags(command, *flags);
  return [flags] { return check(*flags); };
}

}  // namespace outsize::cli
