#include "ops/reference_broadcast.h"

namespace outsize {
namespace {

void div(const ReferenceCall& call) {
  reference_broadcast(call, [](auto a, auto b) { return a / b; });
}

}  // namespace

void reference_div(KernelTable& table) { table.add("div", reference_kernel<div>); }

}  // namespace outsize
