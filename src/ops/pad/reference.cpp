#include "ops/reference_movement.h"

namespace outsize {
namespace {

void pad(const ReferenceCall& call) {
  const std::vector<std::int64_t>& before = call.site().integers("before");
  const auto from = [&](Dims at) {
    for (int dim = 0; dim < at.rank(); ++dim) at[dim] -= before[static_cast<std::size_t>(dim)];
    return at;
  };
  reference_move(call, from, call.site().number("value"));
}

}  // namespace

void reference_pad(KernelTable& table) { table.add("pad", reference_kernel<pad>); }

}  // namespace outsize
