#include "ops/reference_movement.h"

namespace outsize {
namespace {

void permute(const ReferenceCall& call) {
  const std::vector<std::int64_t>& order = call.site().integers("order");
  reference_move(call, [&](const Dims& at) {
    Dims from = at;
    for (int dim = 0; dim < at.rank(); ++dim) from[static_cast<int>(order[static_cast<std::size_t>(dim)])] = at[dim];
    return from;
  });
}

}  // namespace

void reference_permute(KernelTable& table) { table.add("permute", reference_kernel<permute>); }

}  // namespace outsize
