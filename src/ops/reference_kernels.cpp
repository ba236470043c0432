#include "ops/registry.h"

namespace outsize {

#define OUTSIZE_DECLARE(name) void reference_##name(KernelTable&);
OUTSIZE_OPS(OUTSIZE_DECLARE)
#undef OUTSIZE_DECLARE

KernelTable reference_kernels() {
  KernelTable table;
  table.backend = "reference";
#define OUTSIZE_ADD(name) reference_##name(table);
  OUTSIZE_OPS(OUTSIZE_ADD)
#undef OUTSIZE_ADD
  return table;
}

}  // namespace outsize
