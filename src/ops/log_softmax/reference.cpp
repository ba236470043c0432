#include "ops/registry.h"
#include "ops/softmax/reference_softmax.h"

namespace outsize {

void reference_log_softmax(KernelTable& table) {
  table.add("log_softmax", reference_kernel<softmax_reference<true>>);
  table.add("log_softmax_grad", reference_kernel<softmax_grad_reference<true>>);
}

}  // namespace outsize
