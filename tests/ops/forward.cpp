#include "subject.h"

// Every backend against plain loops in f64.
namespace outsize::test {
namespace {

class Forward : public ::testing::TestWithParam<Subject> {};

// The case's outputs, computed from its inputs by the backend alone.
TEST_P(Forward, OutputsOfTheGraph) {
  const auto& [op, op_case, backend] = GetParam();
  const Bench bench(op_case, *backend);
  const CaseGraph& graph = bench.graph();
  std::vector<OpId> forward = graph.ops();
  std::erase_if(forward, [&](OpId id) { return graph.graph.op(id).phase == Phase::backward; });
  for (OpId id : forward)
    if (!offers(*backend, graph.site(id))) GTEST_SKIP() << backend->name << " has no kernel for " << graph.graph.op(id).name;

  Values values = random_leaves(graph, op_case);
  evaluate(*backend, graph, forward, values);
  for (ValueId output : graph.graph.outputs()) {
    const auto index = static_cast<std::size_t>(output.index);
    EXPECT_LE(relative_error(values[index], bench.exact_values()[index]), backend->tolerance) << graph.graph.value(output).name;
  }
}

// Every output of every op, forward and backward, given the same inputs.
TEST_P(Forward, EveryOp) {
  const auto& [op, op_case, backend] = GetParam();
  const Bench bench(op_case, *backend);
  for (OpId id : bench.ops()) {
    const OpSite site = bench.graph().site(id);
    const OpSite exact_site = bench.exact_graph().site(id);
    const std::vector<Tensor> results = run_op(*backend, site, bench.inputs(id), whole(site));
    const std::vector<Tensor> expected = run_op(exact_backend(), exact_site, bench.exact_inputs(id), whole(exact_site));
    for (int i = 0; i < site.outputs(); ++i) {
      const auto index = static_cast<std::size_t>(i);
      const double tolerance = is_float(site.out(i).dtype) ? backend->tolerance : 0;
      EXPECT_LE(relative_error(results[index], expected[index]), tolerance)
          << site.op.name << " (" << site.op.def->kind() << "), output " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Forward, ::testing::ValuesIn(all_subjects(false)), name_of);

}  // namespace
}  // namespace outsize::test
