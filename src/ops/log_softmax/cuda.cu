#include "ops/softmax/cuda_softmax.h"

namespace outsize::OUTSIZE_PLACE {

void cuda_log_softmax(KernelTable& table) {
  table.add("log_softmax", make_softmax<SoftmaxRows<true>>);
  table.add("log_softmax_grad", make_softmax<SoftmaxGradRows<true>>);
}

}  // namespace outsize::OUTSIZE_PLACE
