#include "graph/autodiff.h"
#include "graph/fusion.h"
#include "graph/opdef.h"
#include "graph/step_graph.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/registry.h"
#include "run/batch_spec.h"
#include "support.h"

namespace outsize::fuzz {
namespace {

// What a training step does to any forward graph, whatever its ends are called.
void fuse_and_differentiate(const Graph& graph) {
  for (const Op& op : graph.ops())
    if (op.phase == Phase::backward) return;
  Graph fused = fuse(graph);
  verify_graph(fused);
  AutodiffOptions options;
  for (ValueId output : fused.outputs())
    if (is_float(fused.value(output).type.dtype)) options.of.push_back(output);
  differentiate(fused, options);
  verify_graph(fused);
}

// Refusals of what follows parsing name the graph and not the file, as for the models of the zoo.
template <class Use>
void use(Use&& use) {
  try {
    use();
  } catch (const UserError&) {
  }
}

}  // namespace
}  // namespace outsize::fuzz

// Parses the input as a graph, which must print and read back the same; then makes a training step of it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace outsize;
  constexpr std::string_view kFile = "fuzz.graph";
  static const bool registered = (register_ops(), true);
  OUTSIZE_CHECK(registered);
  fuzz::accept_or_refuse(kFile, [&] {
    const Graph graph = parse_graph(fuzz::text_of({data, size}), kFile);
    const std::string printed = print_graph(graph);
    if (const std::string again = print_graph(parse_graph(printed, "printed")); again != printed)
      internal_error("printed:\n{}\nread back:\n{}", printed, again);
    fuzz::use([&] { verify_graph(graph); });
    fuzz::use([&] { fuzz::fuse_and_differentiate(graph); });
    fuzz::use([&] { batch_spec_of(make_training_graph(graph, {})); });
  });
  return 0;
}
