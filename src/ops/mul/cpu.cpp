#include "ops/cpu_broadcast.h"

namespace outsize {
namespace {

struct Multiply {
  OUTSIZE_INLINE static float apply(float a, float b) { return a * b; }
};
OUTSIZE_CLONES void multiply(const BroadcastRun& run) { broadcast_loop<Multiply>(run); }

}  // namespace

void cpu_mul(KernelTable& table) { table.add("mul", make_broadcast<multiply, true>); }

}  // namespace outsize
