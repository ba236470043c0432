#pragma once

#include <CLI/CLI.hpp>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "outsize/requests.h"

namespace outsize::cli {

// What every command takes.
struct CommonFlags {
  bool json = false;
  MachineRequest machine;
};
void add_common_flags(CLI::App& command, CommonFlags& flags);

// MODEL and what shapes it.
void add_model_flags(CLI::App& command, ModelRequest& request);

// The budget and who keeps it.
void add_plan_flags(CLI::App& command, PlanningRequest& request);

// --planners, and what of the flags of a plan has a meaning for several planners at once.
void add_planners_flags(CLI::App& command, PlanningRequest& request, std::vector<std::string>& planners);
// The planners of what stands between the commas of --planners, with their options.
std::vector<std::string> planners_named(const std::vector<std::string>& parts);

// Flags of the other optimizer than the one chosen are refused. Asks for accuracy, so that all commands have the graph of `train`.
void add_optimizer_flags(CLI::App& command, TrainingOptions& options);

// The numbers that a flag takes: those of at least `least`, or, without it, above it; and below `below`.
struct Range {
  Range(double minimum) : least(minimum) {}  // NOLINT: a minimum alone is a range
  Range(double minimum, double end, bool without_least = false) : least(minimum), below(end), open(without_least) {}
  // The numbers above `minimum`.
  static Range above(double minimum) { return {minimum, std::numeric_limits<double>::infinity(), true}; }

  bool has(double number) const { return (open ? number > least : number >= least) && number < below; }
  // "of at least 0 and below 1"
  std::string describe() const;

  double least;
  double below = std::numeric_limits<double>::infinity();
  bool open = false;
};

// Flags whose values are checked here, so that every message has one form. `minimum` is the least that is taken.
CLI::Option* add_integer(CLI::App& command, const std::string& flag, std::int64_t& target, std::int64_t minimum,
                         const std::string& help);
CLI::Option* add_number(CLI::App& command, const std::string& flag, double& target, const Range& range, const std::string& help);
// `choices` is what may be given.
CLI::Option* add_word(CLI::App& command, const std::string& flag, std::string& target, std::vector<std::string> choices,
                      const std::string& help);

}  // namespace outsize::cli
