#include "ops/cpu_broadcast.h"

namespace outsize {
namespace {

struct Subtract {
  OUTSIZE_INLINE static float apply(float a, float b) { return a - b; }
};
OUTSIZE_CLONES void subtract(const BroadcastRun& run) { broadcast_loop<Subtract>(run); }

}  // namespace

void cpu_sub(KernelTable& table) { table.add("sub", make_broadcast<subtract, true>); }

}  // namespace outsize
