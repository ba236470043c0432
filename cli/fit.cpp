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

// The table as it is found, row by row, for what comes later may take long.
class Rows {
 public:
  explicit Rows(const Flags& flags)
      : flags_(flags), table_({"planner", "largest " + flags.fit.by, "peak", "step", "throughput", "missing for more"}) {
    for (const std::string& name : flags.fit.planners) widths_[0] = std::max(widths_[0], name.size());
    if (flags.fit.planners.empty())
      for (const PlannerInfo& planner : list_planners()) widths_[0] = std::max(widths_[0], planner.name.size());
  }

  void print(const FitRow& row, const Facts& facts) {
    if (!begun_) fmt::print("{}, {} on {}\n\n", flags_.task.model.name, format_bytes(facts.budgets.device), facts.device);
    begun_ = true;
    table_.row(cells_of(row));
    table_.print(widths_);
    std::fflush(stdout);
  }

 private:
  const Flags& flags_;
  Table table_;
  std::vector<std::size_t> widths_{0, 15, 8, 8, 16, 0};  // what most numbers take
  bool begun_ = false;
};

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

// The row whose refusal lacks the fewest bytes; nothing where nobody refused anything.
const FitRow* nearest_of(const FitReport& report) {
  const FitRow* nearest = nullptr;
  const auto missing = [](const FitRow& row) { return row.row.missing_bytes().value_or(std::numeric_limits<std::int64_t>::max()); };
  for (const FitRow& row : report.rows)
    if (row.row.refusal && (!nearest || missing(row) < missing(*nearest))) nearest = &row;
  return nearest;
}

int run(Flags flags) {
  flags.task.machine = flags.common.machine;
  Progress progress(!flags.common.json);
  const StopOnSignal signals;
  Observer observer = progress.observer();
  observer.stop = [] { return StopOnSignal::caught(); };
  Rows rows(flags);
  if (!flags.common.json)
    flags.fit.found = [&](const FitRow& row, const Facts& facts) {
      progress.clear();
      rows.print(row, facts);
    };
  const FitReport report = fit(flags.task, flags.fit, observer);
  progress.clear();
  if (flags.common.json) print_rows(flags, report);
  if (const int number = StopOnSignal::number(); number != 0) {
    say("stopped by {}; what was found until then stands above", StopOnSignal::caught());
    return kSignalled + number;
  }
  if (report.fits()) return kDone;
  const bool stopped = std::ranges::any_of(report.rows, &FitRow::stopped);
  const FitRow* nearest = nearest_of(report);
  const Refusal* refusal = nearest ? &*nearest->row.refusal : nullptr;
  std::optional<std::string> command;
  if (refusal && refusal->of_bytes() && refusal->tier == Tier::device && report.by == "batch" && !flags.task.model.is_file()) {
    flags.task.model.options.batch = nearest->batch;
    flags.task.planning.planner = nearest->row.name();
    command = command_with_memory(flags.task, refusal->needed);
  }
  say_refused(
      fmt::format("no {}{} fits{}", report.by, stopped ? " that was tried" : "", refusal ? ": " + sentence_of(*refusal) : ""),
      command);
  return kBudgetRefused;
}

}  // namespace

Run add_fit(CLI::App& command) {
  auto flags = std::make_shared<Flags>();
  add_word(command, "--by", flags->fit.by, {"batch", "image", "width", "depth"}, "what is made larger [batch]");
  add_number(command, "--probe-limit", flags->fit.probe_seconds, 0,
             "a planner that takes more seconds than this for one size is asked no more [60]");
  add_number(command, "--seconds", flags->fit.seconds, 0,
             "nor is one whose next size is likely to take longer than is left of these [50]");
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
