#include "run/trace_file.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace outsize {
namespace {

using Json = nlohmann::ordered_json;

Json event_of(const Graph& graph, const Program& program, Backend& backend, const Profile& profile, const TraceEvent& event) {
  const Instruction& instruction = program.instructions[event.instruction];
  const bool kernel = instruction.action == Action::kernel;
  Json arguments{{"instruction", event.instruction}, {"iteration", event.iteration}};
  std::string name(name_of(instruction.action)), category = name;
  if (kernel) {
    const Call call = call_of(graph, program, instruction, event.iteration);
    name = graph.op(instruction.op).name;
    category = call.site.op.def->kind();
    arguments["kernel"] = backend.kernel(call, instruction.lane, program.kernel_of(instruction.op))->name();
    arguments["predicted_us"] = 1e6 * profile.seconds_of(call, program.kernel_of(instruction.op));
    arguments["workspace"] = instruction.workspace ? program.piece(instruction.workspace).bytes : 0;
  } else if (!instruction.writes.empty()) {
    const Operand& written = instruction.writes[0];
    name += " " + label_of(graph, program.piece(written.piece));
    arguments["bytes"] =
        stored_bytes(program.storage, type_of(graph, program.piece(written.piece)), program.boxes[written.box].start.shape());
  }
  return {{"name", name},
          {"cat", category},
          {"ph", "X"},
          {"ts", 1e6 * event.start},
          {"dur", 1e6 * (event.end - event.start)},
          {"pid", 0},
          {"tid", static_cast<int>(event.lane)},
          {"args", arguments}};
}

constexpr std::string_view kBeginning = "{\"traceEvents\":[";

}  // namespace

void expect_trace(const std::string& path) {
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path, failure) || std::filesystem::file_size(path, failure) == 0) return;
  std::string beginning(kBeginning.size(), '\0');
  std::ifstream(path, std::ios::binary).read(beginning.data(), std::ssize(beginning));
  if (beginning != kBeginning)
    user_error("--trace: '{}' is there and is no trace; nothing else is written over: give another name, or remove this file first",
               path);
}

void write_trace(const std::string& path, const Graph& graph, const Program& program, Backend& backend, const Profile& profile,
                 const Trace& trace) {
  std::ofstream file(path);
  file << kBeginning << "\n";
  for (int lane = 0; lane < kLanes; ++lane)
    file << Json{{"name", "thread_name"},
                 {"ph", "M"},
                 {"pid", 0},
                 {"tid", lane},
                 {"args", {{"name", name_of(static_cast<Lane>(lane))}}}}
                .dump()
         << ",\n";
  for (const TraceEvent& event : trace.events)
    if (event.end > 0) file << event_of(graph, program, backend, profile, event).dump() << ",\n";
  file << Json{{"name", "step"}, {"cat", "step"}, {"ph", "X"}, {"ts", 0}, {"dur", 1e6 * trace.seconds}, {"pid", 0}, {"tid", kLanes}}
              .dump()
       << "\n]}\n";
  if (!file.flush()) user_error("--trace: '{}' cannot be written", path);
}

}  // namespace outsize
