#pragma once

#include <string>

#include "backend/interface.h"
#include "cost/profile.h"
#include "program/trace.h"

namespace outsize {

// Throws UserError where there is a file at `path` that is not a trace: nothing else is written over.
void expect_trace(const std::string& path);

// Writes a step's trace in the format that chrome://tracing and Perfetto show: a row for each lane, an event for each instruction
// with its op, kernel, iteration and predicted time, or the bytes that it moves. Throws UserError where the file cannot be written.
void write_trace(const std::string& path, const Graph& graph, const Program& program, Backend& backend, const Profile& profile,
                 const Trace& trace);

}  // namespace outsize
