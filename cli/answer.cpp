#include "answer.h"

#include <algorithm>
#include <map>

#include "command.h"
#include "outsize/error.h"
#include "outsize/outsize.h"
#include "say.h"

namespace outsize::cli {

using Json = nlohmann::ordered_json;

Json to_json(const Coverage& coverage) {
  Json scales = Json::object();
  for (const auto& [kind, scale] : coverage.scales) scales[kind] = {{"ratio", scale.ratio}, {"ops", scale.ops}};
  return {{"profile", coverage.name()},   {"measured_ops", coverage.measured}, {"disturbed_ops", coverage.disturbed},
          {"distinct_ops", coverage.ops}, {"scaled_ops", coverage.scaled},     {"scales", scales}};
}

Json to_json(const std::vector<GivenOption>& options) {
  Json object = Json::object();
  for (const GivenOption& option : options) std::visit([&](const auto& value) { object[option.name] = value; }, option.value);
  return object;
}

Json made_by_of(const PlanRow& row) { return row.made_by.empty() ? Json() : Json(row.made_by); }

Json to_json(const Facts& facts, const Yardstick& yardstick, const PlanRow& row) {
  Json object{{"fits", row.fits()},
              {"model", facts.model},
              {"backend", facts.backend},
              {"device", facts.device},
              {"planner", row.planner},
              {"made_by", made_by_of(row)},
              {"planner_options", to_json(row.options)},
              {"planner_source", nullptr},
              {"budget_bytes", facts.budgets.device},
              {"missing_bytes", nullptr},
              {"keep_peak_bytes", yardstick.keep_peak_bytes},
              {"keep_step_s", yardstick.keep_seconds},
              {"lower_bound_s", yardstick.bound_of(row.figures)},
              {"peak_bytes", nullptr},
              {"plan_seconds", nullptr}};
  if (!row.source.empty()) object["planner_source"] = row.source;
  if (row.plan_seconds) object["plan_seconds"] = *row.plan_seconds;
  const std::optional<std::int64_t> missing = row.missing_bytes();
  if (missing) object["missing_bytes"] = *missing;
  if (missing && row.peak_bytes.device > 0) object["peak_bytes"] = row.peak_bytes.device;
  if (row.fits()) {
    object["host_bytes"] = row.peak_bytes.host;
    object["disk_bytes"] = row.peak_bytes.disk;
    object["step_s"] = row.step_seconds;
    object["ratio_to_bound"] = row.step_seconds / yardstick.bound_of(row.figures);
    object["ratio_to_keep"] = row.step_seconds / yardstick.keep_seconds;
    object["swapped_bytes"] = row.figures.swapped_bytes;
    object["recomputed_ops"] = row.figures.recomputed_ops;
    object["tiles"] = row.figures.tiles;
  } else {
    for (const char* key : {"step_s", "ratio_to_bound", "ratio_to_keep", "swapped_bytes", "recomputed_ops", "tiles"})
      object[key] = nullptr;
    if (missing) object["missing_tier"] = name_of(row.refusal->tier);
    object["error"] = message_of(*row.refusal);
    object["status"] = kBudgetRefused;
  }
  return object;
}

Json to_json(const Advice& advice) {
  Json object{{"smallest_budget_bytes", nullptr},
              {"fitting_planners", nullptr},
              {"untried_planners", nullptr},
              {"fitting_batch", nullptr},
              {"peak_at", nullptr}};
  if (advice.smallest_budget) {
    object["smallest_budget_bytes"] = *advice.smallest_budget;
    object["peak_at"] = advice.peak;
  }
  if (!advice.fitting_planners.empty() || advice.untried_planners.empty()) object["fitting_planners"] = advice.fitting_planners;
  object["untried_planners"] = advice.untried_planners;
  if (advice.fitting_batch) object["fitting_batch"] = *advice.fitting_batch;
  const std::optional<std::string> command = fitting_command(advice);
  object["fitting_command"] = command ? Json(*command) : Json(nullptr);
  return object;
}

namespace {

std::vector<std::string> words;

// The command line with other values of flags; without those whose value is empty.
std::string command_with(const std::map<std::string, std::string>& flags) {
  std::vector<std::string> changed;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    if (!flags.contains(name))
      changed.push_back(words[i]);
    else if (name == words[i] && name != "--no-split")
      ++i;  // its value
  }
  for (const auto& [name, value] : flags)
    if (!value.empty()) changed.insert(changed.end(), {name, value});
  std::string text = "outsize";
  for (const std::string& word : changed) {
    const bool plain =
        word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:%+@") == word.npos;
    std::string quoted = word;
    for (std::size_t at = 0; (at = quoted.find('\'', at)) != quoted.npos; at += 4) quoted.replace(at, 1, "'\\''");
    text += plain ? " " + word : " '" + quoted + "'";
  }
  return text;
}

}  // namespace

void keep_words(int argc, char** argv) { words.assign(argv + std::min(argc, 1), argv + argc); }

std::optional<std::string> fitting_command(const Advice& advice) {
  if (!advice.fitting_planners.empty())
    return command_with({{"--planner", advice.fitting_planners.front()}, {"--plan", ""}, {"--no-split", ""}});
  if (advice.smallest_budget && advice.budget_is_there)
    return command_with({{"--memory", std::to_string(*advice.smallest_budget)}});
  if (advice.fitting_batch) return command_with({{"--batch", std::to_string(*advice.fitting_batch)}});
  return std::nullopt;
}

std::optional<std::string> command_with_memory(Task task, std::int64_t needed) {
  task.planning.advice_seconds = 0;
  task.planning.memory.clear();
  const std::int64_t there = describe(task).budgets.device;
  for (const double factor : {1.0, 1.1, 1.25, 1.5, 2.0, 3.0}) {
    const auto bytes = static_cast<std::int64_t>(factor * static_cast<double>(needed));
    if (bytes > there) break;
    task.planning.memory = std::to_string(bytes);
    if (plan(task).fits()) return command_with({{"--memory", task.planning.memory}});
  }
  return std::nullopt;
}

void say_refused(const std::string& message, const std::optional<std::string>& command) {
  say("{}. {}", message, command ? "This fits: " + *command : "No command was found that fits");
}

void print_json(const Json& object) { fmt::print("{}\n", object.dump(2)); }

void warn_if_disturbed(const Coverage& coverage) {
  if (coverage.disturbed == 0) return;
  say("something else ran while {} of the {} measured ops were timed, which may be faster than that; --profile measured times "
      "them again",
      coverage.disturbed, coverage.measured);
}

void warn_of_own_sizes(const ModelRequest& model, const Facts& facts) {
  if (!model.own_sizes) return;
  say("--image own: only `train` sees the samples; this is planned for {}, the model's own size. --image HxW plans for another",
      facts.x_shape);
}

void expect_no_dump(bool json, const PlanningRequest& planning) {
  if (json && !planning.dump.empty())
    throw UserError(fmt::format("--dump {} prints text, not JSON; give it without --json", planning.dump));
}

}  // namespace outsize::cli
