#include "ops/reference_broadcast.h"

namespace outsize {
namespace {

void mul(const ReferenceCall& call) {
  reference_broadcast(call, [](auto a, auto b) { return a * b; });
}

}  // namespace

void reference_mul(KernelTable& table) { table.add("mul", reference_kernel<mul>); }

}  // namespace outsize
