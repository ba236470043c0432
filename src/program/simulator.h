#pragma once

#include "cost/profile.h"
#include "program/trace.h"

namespace outsize {

// Runs the program against the profile: lanes in order, waits, half or full duplex links, kernels and copies that slow each other
// down as the device says. The trace has the executor's form.
Trace simulate(const Graph& graph, const Program& program, const Profile& profile);

}  // namespace outsize
