#include "run/saved_plan.h"

#include <map>
#include <string>

namespace outsize {

Plan with_kernels(const Graph& graph, Plan plan, const Program& program, Backend& backend) {
  std::map<OpId, std::string> names;  // empty: several
  for (const Instruction& instruction : program.instructions) {
    if (instruction.action != Action::kernel || instruction.lane == Lane::host) continue;
    const Call call = call_of(graph, program, instruction);
    if (backend.alternatives(call).size() < 2) continue;
    const std::string name = backend.kernel(call, instruction.lane, program.kernel_of(instruction.op))->name();
    const auto [at, is_new] = names.emplace(instruction.op, name);
    if (!is_new && at->second != name) at->second.clear();
  }
  for (const auto& [op, name] : names)
    if (!name.empty()) plan.kernels.try_emplace(op, KernelChoice{name});
  return plan;
}

}  // namespace outsize
