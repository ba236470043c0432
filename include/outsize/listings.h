#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "outsize/devices.h"
#include "outsize/requests.h"

// What there is to choose from: models, planners, ops, devices.
namespace outsize {

// A model of the zoo.
struct ModelInfo {
  std::string name;
  std::string help;  // one line
};
std::vector<ModelInfo> list_models();

// A planner with the options that it takes.
struct PlannerInfo {
  struct Option {
    std::string name;
    std::string expects;  // "a whole number of at least 1"
    std::string words;    // "speed|memory", where it is one of some words
    std::string initial;  // its value where it is not given; empty: none, and `help` says what then is
    std::string help;
  };
  std::string name;
  std::string help;
  std::string source;  // the paper or framework that it follows, or "ours"
  std::vector<Option> options;
};
std::vector<PlannerInfo> list_planners();

// An op that a graph may use, with its attributes.
struct OpInfo {
  struct Attribute {
    std::string name;
    std::string initial;  // its value where it is not given, as a graph file has it
    std::string help;
  };
  std::string kind;
  std::string help;
  std::vector<std::string> inputs;
  std::vector<Attribute> attributes;
};
// All ops by name, or the one of that kind. Throws UserError with the nearest name where there is none.
std::vector<OpInfo> list_ops(const std::string& kind = {});

// Every device that can be planned for without being here; "cpu" is the first.
std::vector<Device> list_devices();

// This machine, and what was measured of it.
struct ThisMachine {
  Machine machine;
  std::int64_t free_bytes = 0;
  int threads = 1;  // that were measured with
  MachineRates rates;
  std::optional<DiskRates> disk;  // of the directory `spill`
  std::optional<Device> card;     // an NVIDIA card that the cuda backend can use, its link measured
};
// Measures this machine with the request's threads, and the disk of the directory `spill` where one is given; takes some seconds.
// Throws UserError where `spill` is no directory that can be written.
ThisMachine measure_here(const MachineRequest& request, const std::string& spill = {});

// "0.1.0"
std::string version();

}  // namespace outsize
