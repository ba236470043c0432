#include "ops/registry.h"
#include "ops/softmax/cpu_softmax.h"

namespace outsize {

void cpu_softmax(KernelTable& table) {
  table.add("softmax", make_softmax<false>);
  table.add("softmax_grad", make_softmax_grad<false>);
}

}  // namespace outsize
