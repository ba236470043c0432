#pragma once

#include <vector>

#include "program/program.h"

namespace outsize {

// One instruction's time on its lane; the executor and the simulator write the same form.
struct TraceEvent {
  std::int32_t instruction = 0;
  std::int64_t iteration = 0;
  Lane lane = Lane::compute;
  double start = 0;  // seconds from the start of the step
  double end = 0;
};

struct Trace {
  std::vector<TraceEvent> events;
  double seconds = 0;
};

}  // namespace outsize
