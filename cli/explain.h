#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "session.h"

namespace outsize::cli {

// The instruction at which the most device bytes are live.
struct Peak {
  std::int32_t instruction = -1;  // none in a program without instructions
  std::int64_t live_bytes = 0;
};
Peak peak_of(const Program& program);
// "op layer1.0.conv1", "copy_in of relu1"
std::string describe(const Graph& graph, const Program& program, std::int32_t instruction);

// What becomes of one value, and what else could have. Steps count from 1 in the plan, instructions from 0 in the program.
struct Explanation {
  struct Use {
    std::string op;
    std::int64_t step = 0;
    std::string pass;  // where it reads windows, tile by tile
  };
  struct Event {
    std::string what;  // "made", "made again", "swapped out", "swapped in", "dropped"
    std::int64_t step = 0;
    std::string text;  // "swapped out to host after op relu1"
  };
  struct Stay {  // a time in one tier
    Tier tier = Tier::device;
    std::int32_t first = 0;
    std::int32_t last = 0;
    std::string text;  // "op conv1 to op relu1"
  };
  ValueId value;
  std::int64_t bytes = 0;
  std::vector<std::string> residency;  // "kept"; or some of "swapped", "recomputed", "streamed", "tiled"
  std::vector<Use> uses;
  std::vector<Event> events;
  std::vector<Stay> stays;
  std::string idle;  // "op a and op b": between them it is unused for longest
  double idle_seconds = 0;
  double host_out_seconds = 0;  // of the whole value over the link, and between host and disk
  double host_in_seconds = 0;
  double disk_out_seconds = 0;
  double disk_in_seconds = 0;
  std::optional<double> recompute_seconds;  // of its producer; none where there is none or it changes states
  bool live_at_peak = false;
  Peak peak;
};

// The value of that name. Throws UserError with the nearest name, or, for the name of an op, with the values it makes.
ValueId find_explained(const Graph& graph, std::string_view name);

// All of it is read from the plan, the program and the profile, whoever made the plan.
Explanation explain(const Session& session, const Prepared& prepared, ValueId value);

void print_explanation(const Session& session, const Prepared& prepared, const Explanation& explanation);
// As one JSON object.
void print_explanation_json(const Session& session, const Prepared& prepared, const Explanation& explanation);

}  // namespace outsize::cli
