#include <algorithm>
#include <limits>

#include "answer.h"
#include "command.h"
#include "flags.h"
#include "outsize/outsize.h"
#include "outsize/text.h"
#include "progress.h"
#include "say.h"
#include "signals.h"
#include "table.h"

namespace outsize::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  CommonFlags common;
  Task task;
  FitRequest fit;
};

Json size_of(const FitRow& row) {
  return row.largest ? std::visit([](auto size) { return Json(size); }, *row.largest) : Json(nullptr);
}

std::vector<std::string> cells_of(const FitRow& found) {
  const std::string missing = found.missing_above > 0 ? format_bytes(found.missing_above) : "-";
  if (!found.largest) return {found.row.name(), found.stopped ? "none tried" : "none", "-", "-", "-", missing};
  return {found.row.name(),
          size_of(found).dump() + (found.stopped ? " or more" : ""),
          format_bytes(found.row.peak_bytes.device),
          format_seconds(found.row.step_seconds),
          format_rate(found.throughput()),
          missing};
}

void print_table(const Flags& flags, const FitReport& report) {
  fmt::print("{}, {} on {}\n\n", flags.task.model.name, format_bytes(report.facts.budgets.device), report.facts.device);
  Table table({"planner", "largest " + report.by, "peak", "step", "throughput", "missing for more"});
  for (const FitRow& row : report.rows) table.row(cells_of(row));
  table.print();
}

void print_rows(const Flags& flags, const FitReport& report) {
  Json object{{"fits", report.fits()},
              {"model", flags.task.model.name},
              {"backend", report.facts.backend},
              {"device", report.facts.device},
              {"budget_bytes", report.facts.budgets.device},
              {"by", report.by},
              {"rows", Json::array()}};
  for (const FitRow& found : report.rows) {
    Json row{{"planner", found.row.planner}, {"planner_options", to_json(found.row.options)}, {"largest", size_of(found)}};
    if (found.largest) {
      row.update(Json{{"peak_bytes", found.row.peak_bytes.device},
                      {"step_s", found.row.step_seconds},
                      {"throughput", found.throughput()},
                      {"model", found.model},
                      {"batch", found.batch}});
    } else {
      row.update(Json{{"peak_bytes", nullptr}, {"step_s", nullptr}, {"throughput", nullptr}});
      if (found.row.refusal) row["error"] = message_of(*found.row.refusal);
    }
    row["missing_bytes"] = found.missing_above;
    row["stopped"] = found.stopped;
    object["rows"].push_back(std::move(row));
  }
  print_json(object);
}

// The refusal that lacks the fewest bytes; nothing where nobody refused anything.
const Refusal* nearest_of(const FitReport& report) {
  const FitRow* nearest = nullptr;
  const auto missing = [](const FitRow& row) { return row.row.missing_bytes().value_or(std::numeric_limits<std::int64_t>::max()); };
  for (const FitRow& row : report.rows)
    if (row.row.refusal && (!nearest || missing(row) < missing(*nearest))) nearest = &row;
  return nearest ? &*nearest->row.refusal : nullptr;
}

int run(Flags flags) {
  flags.task.machine = flags.common.machine;
  Progress progress(!flags.common.json);
  const StopOnSignal signals;
  Observer observer = progress.observer();
  observer.stop = [] { return StopOnSignal::caught(); };
  // On a terminal, long searches show what they have as they find it; the table follows.
  if (progress.active())
    flags.fit.found = [&](const FitRow& row) {
      progress.clear();
      const std::vector<std::string> cells = cells_of(row);
      write_to_stderr(fmt::format("{}: {} {}{}\n", cells[0], flags.fit.by, cells[1], row.largest ? ", " + cells[4] : ""));
    };
  const FitReport report = fit(flags.task, flags.fit, observer);
  progress.clear();
  (flags.common.json ? print_rows : print_table)(flags, report);
  if (const int number = StopOnSignal::number(); number != 0) {
    say("stopped by {}; what was found until then stands above", StopOnSignal::caught());
    return kSignalled + number;
  }
  if (report.fits()) return kDone;
  const bool stopped = std::ranges::any_of(report.rows, &FitRow::stopped);
  const Refusal* nearest = nearest_of(report);
  say("no {}{} fits{}", report.by, stopped ? " that was tried" : "", nearest ? ": " + sentence_of(*nearest) : std::string());
  return kBudgetRefused;
}

}  // namespace

Run add_fit(CLI::App& command) {
  auto flags = std::make_shared<Flags>();
  add_word(command, "--by", flags->fit.by, {"batch", "image", "width", "depth"}, "what is made larger [batch]");
  add_number(command, "--probe-limit", flags->fit.probe_seconds, 0,
             "a planner that takes more seconds than this for one size is asked no more [60]");
  add_model_flags(command, flags->task.model);
  add_optimizer_flags(command, flags->task.training);
  add_planners_flags(command, flags->task.planning, flags->fit.planners);
  add_common_flags(command, flags->common);
  return [flags] {
    Flags named = *flags;
    named.fit.planners = planners_named(flags->fit.planners);
    return run(std::move(named));
  };
}

}  // namespace outsize::cli
