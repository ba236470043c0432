#include "plan/plan.h"

#include <map>

#include "data/file.h"
#include "graph/step_graph.h"
#include "graph/text.h"
#include "ops/registry.h"
#include "program/lower.h"
#include "support.h"

namespace outsize::fuzz {
namespace {

const Graph& graph_named(const std::string& name) {
  static std::map<std::string, StepGraph> graphs;
  const auto found = graphs.find(name);
  if (found != graphs.end()) return found->second.graph;
  register_ops();
  const std::string path = OUTSIZE_TESTS "/skeleton/" + name + ".graph";
  TrainingOptions options;
  options.gradients = true;
  return graphs.emplace(name, make_training_graph(parse_graph(read_text(path), path), options)).first->second.graph;
}

// The graph that the first line names, where it is one of the skeleton's; else the skeleton.
const Graph& graph_of(std::string_view text) {
  for (const char* name : {"clipped", "strided"})
    if (text.starts_with("plan " + std::string(name))) return graph_named(name);
  return graph_named("skeleton");
}

}  // namespace
}  // namespace outsize::fuzz

// Parses the input as a plan of a small graph, which must print and read back the same, then checks and lowers it. What lowering
// makes is checked by code of its own, whose InternalError is a finding.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace outsize;
  constexpr std::string_view kFile = "fuzz.plan";
  const std::string_view text = fuzz::text_of({data, size});
  const Graph& graph = fuzz::graph_of(text);
  fuzz::accept_or_refuse(kFile, [&] {
    const Plan plan = parse_plan(graph, text, kFile);
    const std::string printed = print_plan(graph, plan);
    if (const std::string again = print_plan(graph, parse_plan(graph, printed, "printed")); again != printed)
      internal_error("printed:\n{}\nread back:\n{}", printed, again);
    LowerOptions options;
    options.storage.channel_block = 8;
    options.workspace = [](const Call&) { return std::int64_t{0}; };
    try {
      lower(graph, plan, options).take();
    } catch (const UserError&) {
      // prepare() puts the file's name before it.
    }
  });
  return 0;
}
