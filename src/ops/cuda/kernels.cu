#include "cuda_ops.h"
#include "ops/alternatives.h"
#include "ops/cuda/support.h"

namespace outsize {
namespace OUTSIZE_PLACE {

#define OUTSIZE_DECLARE(name) void cuda_##name(KernelTable&);
OUTSIZE_CUDA_OPS(OUTSIZE_DECLARE)
#undef OUTSIZE_DECLARE
void cuda_conv_alternatives(AlternativesTable&, bool tf32);

}  // namespace OUTSIZE_PLACE

#if defined(__CUDACC__)
KernelTable cuda_kernels(bool tf32) {
#else
KernelTable cuda_host_kernels(bool tf32) {
#endif
  KernelTable table;
#if defined(__CUDACC__)
  table.backend = "cuda";
#else
  table.backend = "cuda-host";
#endif
  table.tf32 = tf32;
#define OUTSIZE_ADD(name) OUTSIZE_PLACE::cuda_##name(table);
  OUTSIZE_CUDA_OPS(OUTSIZE_ADD)
#undef OUTSIZE_ADD
  return table;
}

#if defined(__CUDACC__)
AlternativesTable cuda_alternatives(bool tf32) {
#else
AlternativesTable cuda_host_alternatives() {
  constexpr bool tf32 = false;
#endif
  AlternativesTable table;
  OUTSIZE_PLACE::cuda_conv_alternatives(table, tf32);
  return table;
}

}  // namespace outsize
