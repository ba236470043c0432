#include "ops/cpu_broadcast.h"

namespace outsize {
namespace {

struct Divide {
  OUTSIZE_INLINE static float apply(float a, float b) { return a / b; }
};
OUTSIZE_CLONES void divide(const BroadcastRun& run) { broadcast_loop<Divide>(run); }

}  // namespace

void cpu_div(KernelTable& table) { table.add("div", make_broadcast<divide, false>); }

}  // namespace outsize
