#include "ops/reference_pointwise.h"

namespace outsize {
namespace {

void affine(const ReferenceCall& call) {
  const double scale = call.site().number("scale");
  const double shift = call.site().number("shift");
  reference_pointwise(call, [&](auto x) { return static_cast<decltype(x)>(scale * static_cast<double>(x) + shift); });
}

}  // namespace

void reference_affine(KernelTable& table) { table.add("affine", reference_kernel<affine>); }

}  // namespace outsize
