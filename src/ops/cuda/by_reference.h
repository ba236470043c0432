#pragma once

#include "ops/cuda/support.h"

#if !defined(__CUDACC__)
namespace outsize::OUTSIZE_PLACE {

// The kernel of the backend `reference` for a call, on maps as the card stores them: what cuda-host runs in the place of a call of
// a library. Its sums are in f32 and in the order of its loops.
inline std::unique_ptr<Kernel> make_by_reference(const Call& call, const StorageRule& storage) {
  static const KernelTable table = reference_kernels();
  return table.prepare(call, storage);
}

}  // namespace outsize::OUTSIZE_PLACE
#endif
