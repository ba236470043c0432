#include "ops/reference_broadcast.h"

namespace outsize {
namespace {

void sub(const ReferenceCall& call) {
  reference_broadcast(call, [](auto a, auto b) { return a - b; });
}

}  // namespace

void reference_sub(KernelTable& table) { table.add("sub", reference_kernel<sub>); }

}  // namespace outsize
