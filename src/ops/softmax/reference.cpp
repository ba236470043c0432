#include "ops/registry.h"
#include "ops/softmax/reference_softmax.h"

namespace outsize {

void reference_softmax(KernelTable& table) {
  table.add("softmax", reference_kernel<softmax_reference<false>>);
  table.add("softmax_grad", reference_kernel<softmax_grad_reference<false>>);
}

}  // namespace outsize
