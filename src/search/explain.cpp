#include "search/explain.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/alignment.h"
#include "base/bytes.h"
#include "base/text.h"
#include "graph/storage.h"
#include "plan/reckon/lives.h"
#include "program/offsets.h"

namespace outsize {
namespace {

bool reads(const Op& op, ValueId value) { return std::ranges::find(op.inputs, value) != op.inputs.end(); }

// The steps of a plan as seen from one value.
class PlanReader {
 public:
  PlanReader(const Graph& graph, const Plan& plan, ValueId value)
      : graph_(graph), plan_(plan), value_(value), producer_(graph.value(value).producer) {}

  void read(Explanation& explanation) {
    bool swapped = false, tiled = false;
    for (std::size_t at = 0; at < plan_.steps.size(); ++at) {
      const Step& step = plan_.steps[at];
      const auto number = static_cast<std::int64_t>(at) + 1;
      const auto event = [&](std::string what, std::string text) {
        explanation.events.push_back({std::move(what), number, std::move(text)});
      };
      if (const auto* run = std::get_if<RunStep>(&step)) {
        if (reads(graph_.op(run->op), value_)) explanation.uses.push_back({graph_.op(run->op).name, number, ""});
        if (producer_ && run->op == producer_) made(explanation, at, "");
      } else if (const auto* out = std::get_if<OutStep>(&step); out && out->value == value_) {
        swapped = true;
        event("swapped out", fmt::format("swapped out to {} after {}", name_of(out->tier), runner_before(at)));
      } else if (const auto* in = std::get_if<InStep>(&step); in && in->value == value_) {
        swapped = true;
        event("swapped in", fmt::format("swapped in before {}", runner_after(at)));
      } else if (const auto* drop = std::get_if<DropStep>(&step); drop && drop->value == value_) {
        event("dropped", fmt::format("dropped after {}", runner_before(at)));
      } else if (const auto* pass_step = std::get_if<PassStep>(&step)) {
        const Pass& pass = plan_.passes[static_cast<std::size_t>(pass_step->pass)];
        for (OpId op : pass.ops) {
          if (reads(graph_.op(op), value_)) explanation.uses.push_back({graph_.op(op).name, number, pass.name});
          if (!producer_ || op != producer_) continue;
          tiled = true;
          made(explanation, at, pass.name);
        }
      }
    }
    const bool streamed = plan_.home_of(value_) != Tier::device;
    if (swapped) explanation.residency.emplace_back("swapped");
    if (times_made_ > 1) explanation.residency.emplace_back("recomputed");
    if (streamed) explanation.residency.emplace_back("streamed");
    if (tiled) explanation.residency.emplace_back("tiled");
    if (explanation.residency.empty()) explanation.residency.emplace_back("kept");
  }

 private:
  void made(Explanation& explanation, std::size_t at, const std::string& pass) {
    const bool again = ++times_made_ > 1;
    std::string text = again ? "made again" : "made";
    if (pass.empty())
      text += fmt::format(" by op {}", graph_.op(producer_).name);
    else
      text += fmt::format(" tile by tile in pass {}", pass);
    if (again && pass.empty())
      if (const std::string reader = reader_after(at); !reader.empty()) text += " for " + reader;
    explanation.events.push_back({again ? "made again" : "made", static_cast<std::int64_t>(at) + 1, std::move(text)});
  }

  // "op conv1", "pass r.f1"; empty where the step runs nothing.
  std::string runner(const Step& step) const {
    if (const auto* run = std::get_if<RunStep>(&step)) return "op " + graph_.op(run->op).name;
    if (const auto* pass = std::get_if<PassStep>(&step)) return "pass " + plan_.passes[static_cast<std::size_t>(pass->pass)].name;
    return "";
  }
  std::string runner_before(std::size_t at) const {
    while (at-- > 0)
      if (const std::string found = runner(plan_.steps[at]); !found.empty()) return found;
    return "the beginning of the step";
  }
  std::string runner_after(std::size_t at) const {
    while (++at < plan_.steps.size())
      if (const std::string found = runner(plan_.steps[at]); !found.empty()) return found;
    return "the end of the step";
  }
  std::string reader_after(std::size_t at) const {
    while (++at < plan_.steps.size()) {
      const Step& step = plan_.steps[at];
      if (const auto* run = std::get_if<RunStep>(&step))
        if (reads(graph_.op(run->op), value_)) return runner(step);
      if (const auto* pass = std::get_if<PassStep>(&step))
        for (OpId op : plan_.passes[static_cast<std::size_t>(pass->pass)].ops)
          if (reads(graph_.op(op), value_)) return runner(step);
    }
    return "";
  }

  const Graph& graph_;
  const Plan& plan_;
  ValueId value_;
  OpId producer_;
  int times_made_ = 0;
};

// Whether a piece holds the value; an update's output is in the place of what it replaces.
bool holds(const Graph& graph, const Piece& piece, ValueId value) {
  return piece.first >= 0 && (piece.value == value || (piece.value && piece.value == graph.value(value).version_of));
}

void read_program(const Graph& graph, const Prepared& prepared, ValueId value, std::int32_t peak, Explanation& explanation) {
  const Program& program = prepared.program;
  for (const Piece& piece : program.pieces) {
    if (!holds(graph, piece, value)) continue;
    const std::string text = piece.persistent ? "the whole step, and from step to step"
                                              : fmt::format("{} to {}", name_of_instruction(graph, program, piece.first),
                                                            name_of_instruction(graph, program, piece.last));
    explanation.stays.push_back({piece.tier, piece.first, piece.last, text});
    const bool at_peak = piece.first <= peak && peak <= piece.last;
    explanation.live_at_peak = explanation.live_at_peak || (piece.tier == Tier::device && (piece.persistent || at_peak));
  }
  // A value made in tiles has a stay for every tile's body; the first instruction orders them.
  std::ranges::stable_sort(explanation.stays, {}, &Explanation::Stay::first);
}

// Finds the longest time between two kernels that touch the value, as predicted.
void find_idle_time(const Graph& graph, const Prepared& prepared, ValueId value, Explanation& explanation) {
  const Program& program = prepared.program;
  const auto touches = [&](const Instruction& instruction) {
    const auto ours = [&](const Operand& operand) { return holds(graph, program.piece(operand.piece), value); };
    return instruction.action == Action::kernel &&
           (std::ranges::any_of(instruction.reads, ours) || std::ranges::any_of(instruction.writes, ours));
  };
  std::vector<bool> touching(program.instructions.size());
  for (std::size_t i = 0; i < touching.size(); ++i) touching[i] = touches(program.instructions[i]);
  std::vector<TraceEvent> events;
  for (const TraceEvent& event : prepared.predicted.events)
    if (touching[static_cast<std::size_t>(event.instruction)]) events.push_back(event);
  std::ranges::stable_sort(events, {}, &TraceEvent::start);
  for (std::size_t i = 1; i < events.size(); ++i) {
    const double seconds = events[i].start - events[i - 1].end;
    if (seconds <= explanation.idle_seconds) continue;
    explanation.idle_seconds = seconds;
    explanation.idle = fmt::format("{} and {}", name_of_instruction(graph, program, events[i - 1].instruction),
                                   name_of_instruction(graph, program, events[i].instruction));
  }
}

std::string join_names(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  for (ValueId value : values) names.push_back(graph.value(value).name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Peak peak_of(const Program& program) {
  std::vector<std::int64_t> change(program.instructions.size() + 1, 0);
  for (const Piece& piece : program.pieces) {
    if (piece.tier != Tier::device || piece.first < 0) continue;
    // In place, the piece whose bytes are taken over counts for the instruction that they share.
    const std::size_t first = piece.persistent ? 0 : static_cast<std::size_t>(piece.first) + (piece.shares ? 1U : 0U);
    const std::size_t end = piece.persistent ? program.instructions.size() : static_cast<std::size_t>(piece.last) + 1;
    if (first >= end) continue;
    change[first] += align_up(piece.bytes, kAlignment);
    change[end] -= align_up(piece.bytes, kAlignment);
  }
  Peak peak;
  std::int64_t live = 0;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    live += change[i];
    if (live > peak.live_bytes) peak = {static_cast<std::int32_t>(i), live};
  }
  return peak;
}

std::string name_of_instruction(const Graph& graph, const Program& program, std::int32_t instruction) {
  if (instruction < 0) return "no instruction";
  const Instruction& found = program.instructions[static_cast<std::size_t>(instruction)];
  if (found.op) return "op " + graph.op(found.op).name;
  return fmt::format("{} of {}", name_of(found.action), label_of(graph, program.piece(found.writes[0].piece)));
}

ValueId find_explained(const Graph& graph, std::string_view name) {
  if (const ValueId found = graph.find_value(name)) return found;
  if (const OpId op = graph.find_op(name))
    user_error("--explain: {} is an op; the values it makes: {}", in_quotes(name), join_names(graph, graph.op(op).outputs));
  std::vector<std::string_view> names;
  for (const Value& value : graph.values()) names.emplace_back(value.name);
  const std::string near = did_you_mean(name, names);
  user_error("--explain: {} has no value {}{}", graph.name, in_quotes(name),
             near.empty() ? "; --dump graph prints them all" : near);
}

Explanation explain(const Graph& graph, const Profile& profile, const Prepared& prepared, ValueId value) {
  const Value& explained = graph.value(value);
  const Device& device = profile.device;
  const Peak peak = peak_of(prepared.program);
  Explanation explanation;
  explanation.model = graph.name;
  explanation.device = device.name;
  explanation.planner = prepared.plan.planner;
  explanation.plan_peak_bytes = prepared.program.peak_bytes.device;
  explanation.step_seconds = prepared.predicted.seconds;
  explanation.value = explained.name;
  explanation.type = to_string(explained.type);
  explanation.role = name_of(explained.role);
  explanation.bytes = stored_bytes(prepared.program.storage, explained.type, explained.type.shape);
  explanation.peak_at = name_of_instruction(graph, prepared.program, peak.instruction);
  explanation.peak_live_bytes = peak.live_bytes;
  PlanReader(graph, prepared.plan, value).read(explanation);
  read_program(graph, prepared, value, peak.instruction, explanation);
  find_idle_time(graph, prepared, value, explanation);
  const auto bytes = static_cast<double>(explanation.bytes);
  explanation.host_out_seconds = device.launch_seconds + bytes / device.link_out;
  explanation.host_in_seconds = device.launch_seconds + bytes / device.link_in;
  explanation.disk_out_seconds = device.launch_seconds + bytes / device.disk_out;
  explanation.disk_in_seconds = device.launch_seconds + bytes / device.disk_in;
  if (explained.producer) {
    const Op& producer = graph.op(explained.producer);
    explanation.producer = producer.name;
    explanation.producer_kind = producer.def->kind();
    for (ValueId input : producer.inputs) explanation.producer_inputs.push_back(graph.value(input).name);
    if (producer.updates.empty()) explanation.recompute_seconds = profile.seconds_of(whole_call(graph, producer));
  }
  return explanation;
}

}  // namespace outsize
