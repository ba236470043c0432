#include "ops/cpu_broadcast.h"

namespace outsize {
namespace {

struct Add {
  OUTSIZE_INLINE static float apply(float a, float b) { return a + b; }
};
OUTSIZE_CLONES void add(const BroadcastRun& run) { broadcast_loop<Add>(run); }

}  // namespace

void cpu_add(KernelTable& table) { table.add("add", make_broadcast<add, true>); }

}  // namespace outsize
