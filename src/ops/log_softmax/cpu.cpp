#include "ops/registry.h"
#include "ops/softmax/cpu_softmax.h"

namespace outsize {

void cpu_log_softmax(KernelTable& table) {
  table.add("log_softmax", make_softmax<true>);
  table.add("log_softmax_grad", make_softmax_grad<true>);
}

}  // namespace outsize
