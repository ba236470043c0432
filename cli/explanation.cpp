#include "explanation.h"

#include <fmt/ranges.h>

#include "answer.h"
#include "outsize/text.h"
#include "table.h"

namespace outsize::cli {

void print_explanation(const Explanation& explanation) {
  constexpr std::size_t kStays = 8;  // shown: a value in tiles has one a body
  Summary summary;
  // A list in lines under one title.
  const auto rows = [&summary](std::string title, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) summary.row(std::exchange(title, ""), line);
  };
  summary.row("value", fmt::format("{}, {}, {}, {}", explanation.value, explanation.type, format_bytes(explanation.bytes),
                                   explanation.role));
  summary.row("made by", explanation.producer.empty()
                             ? "nothing in a step: it is there before"
                             : fmt::format("op {} ({}) of {}", explanation.producer, explanation.producer_kind,
                                           fmt::join(explanation.producer_inputs, ", ")));
  std::vector<std::string> lines;
  for (const Explanation::Use& use : explanation.uses)
    lines.push_back(
        fmt::format("op {}, step {}{}", use.op, use.step, use.pass.empty() ? "" : ", tile by tile in pass " + use.pass));
  rows("used by", lines.empty() ? std::vector<std::string>{"no op"} : lines);
  summary.row("residency", fmt::format("{}, by {}", fmt::join(explanation.residency, " and "), explanation.planner));
  lines.clear();
  for (const Explanation::Event& event : explanation.events) lines.push_back(fmt::format("{}, step {}", event.text, event.step));
  rows("events", lines);
  lines.clear();
  for (const Explanation::Stay& stay : explanation.stays) {
    if (lines.size() == kStays) {
      lines.push_back(fmt::format("… and {} times more", explanation.stays.size() - kStays));
      break;
    }
    lines.push_back(fmt::format("{}: {}", name_of(stay.tier), stay.text));
  }
  rows("is on", lines);
  if (!explanation.idle.empty())
    summary.row("idle for", fmt::format("{} between {}", format_seconds(explanation.idle_seconds), explanation.idle));
  const double host = explanation.host_out_seconds + explanation.host_in_seconds;
  summary.row("to swap", fmt::format("{} out and {} in over the link of {}, {} than it is idle; with disk {}",
                                     format_seconds(explanation.host_out_seconds), format_seconds(explanation.host_in_seconds),
                                     explanation.device, host <= explanation.idle_seconds ? "no longer" : "longer",
                                     format_seconds(host + explanation.disk_out_seconds + explanation.disk_in_seconds)));
  if (explanation.recompute_seconds)
    summary.row("to recompute",
                fmt::format("{}, op {} once", format_seconds(*explanation.recompute_seconds), explanation.producer));
  else
    summary.row("to recompute",
                !explanation.producer.empty() ? "not possible: its op changes states" : "not possible: no op makes it");
  summary.row("at the peak", fmt::format("{}; the peak of {} live is at {}", explanation.live_at_peak ? "live" : "not live",
                                         format_bytes(explanation.peak_live_bytes), explanation.peak_at));
  summary.print();
}

void print_explanation_json(const Explanation& explanation) {
  using Json = nlohmann::ordered_json;
  Json object{{"model", explanation.model},
              {"device", explanation.device},
              {"planner", explanation.planner},
              {"peak_bytes", explanation.plan_peak_bytes},
              {"step_s", explanation.step_seconds},
              {"value", explanation.value},
              {"type", explanation.type},
              {"role", explanation.role},
              {"bytes", explanation.bytes},
              {"producer", nullptr},
              {"residency", explanation.residency},
              {"uses", Json::array()},
              {"events", Json::array()},
              {"stays", Json::array()},
              {"idle_s", explanation.idle_seconds},
              {"swap_host_s", explanation.host_out_seconds + explanation.host_in_seconds},
              {"swap_disk_s", explanation.host_out_seconds + explanation.host_in_seconds + explanation.disk_out_seconds +
                                  explanation.disk_in_seconds},
              {"recompute_s", nullptr},
              {"live_at_peak", explanation.live_at_peak},
              {"peak_at", explanation.peak_at},
              {"peak_live_bytes", explanation.peak_live_bytes}};
  if (!explanation.producer.empty()) object["producer"] = explanation.producer;
  if (explanation.recompute_seconds) object["recompute_s"] = *explanation.recompute_seconds;
  for (const Explanation::Use& use : explanation.uses) {
    Json row{{"op", use.op}, {"step", use.step}};
    if (!use.pass.empty()) row["pass"] = use.pass;
    object["uses"].push_back(std::move(row));
  }
  for (const Explanation::Event& event : explanation.events)
    object["events"].push_back({{"what", event.what}, {"step", event.step}, {"text", event.text}});
  for (const Explanation::Stay& stay : explanation.stays)
    object["stays"].push_back({{"tier", name_of(stay.tier)}, {"first", stay.first}, {"last", stay.last}, {"text", stay.text}});
  print_json(object);
}

}  // namespace outsize::cli
