#pragma once

#include <CLI/CLI.hpp>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "backend/interface.h"
#include "model/zoo.h"
#include "run/trainer.h"
#include "search/prepare.h"

namespace outsize::cli {

// What every command takes.
struct CommonFlags {
  bool json = false;
  std::uint64_t seed = 0;
  std::int64_t threads = 0;  // 0: all the machine has
  std::string backend;       // empty: cpu for f32, reference for f64
};
void add_common_flags(CLI::App& command, CommonFlags& flags);

// MODEL and what shapes it.
struct ModelFlags {
  std::string model;
  ModelOptions options;
  bool f64 = false;
  bool own_sizes = false;             // --image own: every sample has its own extents
  std::vector<std::string> zoo_only;  // flags given that a graph file has no use for
};
void add_model_flags(CLI::App& command, ModelFlags& flags);

// The budget and who keeps it.
struct PlanFlags {
  std::string planner;
  bool no_split = false;  // of planner tsplit
  std::string plan_file;
  std::string memory;
  std::string host_memory;
  std::string spill;
  std::string spill_limit;
  std::string device = "cpu";
  std::string profile;  // measured, fresh, roofline or a file; empty: roofline, and what was measured before
  std::string dump;
  double advice_seconds = 2;
};
void add_plan_flags(CLI::App& command, PlanFlags& flags);

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
