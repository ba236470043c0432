#include "ops/softmax/cuda_softmax.h"

namespace outsize::OUTSIZE_PLACE {

void cuda_softmax(KernelTable& table) {
  table.add("softmax", make_softmax<SoftmaxRows<false>>);
  table.add("softmax_grad", make_softmax<SoftmaxGradRows<false>>);
}

}  // namespace outsize::OUTSIZE_PLACE
