#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "run/training.h"

namespace outsize {

// What a run needs, beside its parameters and states, to go on as if it had never stopped. Data and random numbers are functions of
// the seed and the step, so that these two are their whole state.
struct RunState {
  std::string model;     // name and sizes
  std::string settings;  // everything else that the steps depend on: optimizer, schedule, data, precision
  std::string backend;
  std::uint64_t seed = 0;
  std::int64_t step = 0;             // steps made
  std::string plan;                  // its text
  std::vector<std::string> kernels;  // "op: implementation", in program order
};

// A checkpoint on disk: "checkpoint-<step>.safetensors" and, written after it, "checkpoint-<step>.json", which makes it one.
struct Checkpoint {
  RunState state;
  std::string weights;  // the path of its tensors
};

// Writes a checkpoint of `trainer` into `directory`, which is made if need be. Each file is written under another name, flushed and
// renamed; the checkpoint before stays until this one is whole, and the older ones are then removed. Throws UserError when it
// cannot be written; what was there before is then still there.
void write_checkpoint(const std::string& directory, const RunState& state, const Trainer& trainer);

// The newest whole checkpoint of a directory. Throws UserError that says what is wrong with those that are not whole, if none is.
Checkpoint find_checkpoint(const std::string& directory);

// Throws UserError naming what differs, unless a run of `now` may go on from `then`.
void expect_same_run(const RunState& then, const RunState& now, const std::string& directory);

// Which implementation every kernel of a program is.
std::vector<std::string> kernel_table(const Graph& graph, const Program& program, Backend& backend);

}  // namespace outsize
