#include "ops/alternatives.h"
#include "ops/registry.h"

namespace outsize {

#define OUTSIZE_DECLARE(name) void cpu_##name(KernelTable&);
OUTSIZE_OPS(OUTSIZE_DECLARE)
#undef OUTSIZE_DECLARE

KernelTable cpu_kernels() {
  KernelTable table;
  table.backend = "cpu";
#define OUTSIZE_ADD(name) cpu_##name(table);
  OUTSIZE_OPS(OUTSIZE_ADD)
#undef OUTSIZE_ADD
  return table;
}

void cpu_conv_alternatives(AlternativesTable&);

AlternativesTable cpu_alternatives() {
  AlternativesTable table;
  cpu_conv_alternatives(table);
  return table;
}

}  // namespace outsize
