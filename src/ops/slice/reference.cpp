#include "ops/reference_movement.h"

namespace outsize {
namespace {

void slice(const ReferenceCall& call) {
  const std::vector<std::int64_t>& start = call.site().integers("start");
  reference_move(call, [&](Dims at) {
    for (int dim = 0; dim < at.rank(); ++dim) at[dim] += start[static_cast<std::size_t>(dim)];
    return at;
  });
}

}  // namespace

void reference_slice(KernelTable& table) { table.add("slice", reference_kernel<slice>); }

}  // namespace outsize
