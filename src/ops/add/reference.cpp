#include "ops/reference_broadcast.h"

namespace outsize {
namespace {

void add(const ReferenceCall& call) {
  reference_broadcast(call, [](auto a, auto b) { return a + b; });
}

}  // namespace

void reference_add(KernelTable& table) { table.add("add", reference_kernel<add>); }

}  // namespace outsize
