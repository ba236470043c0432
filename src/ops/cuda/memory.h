#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "graph/opdef.h"
#include "graph/storage.h"

// What a backend asks of block programs besides kernels: boxes that are moved or combined within a card's memory, a look at what
// was touched, and a pause. Like all block programs they are there twice, for the card and as loops of the host.
namespace outsize {

// How many results scan_other() has at most.
inline constexpr int kScanResults = 1024;

// copy_box() puts the copy of a box, of elements of 1, 4 or 8 bytes, into the stream; what is read and what is written do not
// overlap.
//
// combine_box() puts there the rule's combination of a box into the accumulator `to`, as combine_into() does (ops/combine.h). A
// rule other than sum takes boxes of one run that begin at 0.
//
// scan_other() puts there a scan of `bytes` bytes, in parts: results[i] gets the place, counted from `memory`, of the first (or
// last) byte of part i that is not `byte`, or -1. It returns the number of parts, which follow each other in memory. `results` is
// memory that card and host can address, of kScanResults numbers.
//
// pause() keeps the stream busy for so long, so that what is put there meanwhile begins together; it touches no memory. Where the
// host runs it, there is nothing to wait for.
#define OUTSIZE_MEMORY_FUNCTIONS                                                                                              \
  void copy_box(const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::byte* to, void* queue);         \
  void combine_box(Combine rule, const CopyPlan& plan, DType dtype, const std::byte* from, std::byte* to, void* queue);       \
  int scan_other(const std::byte* memory, std::int64_t bytes, std::byte byte, bool last, std::int64_t* results, void* queue); \
  void pause(double seconds, void* queue);

namespace card {
OUTSIZE_MEMORY_FUNCTIONS
}
namespace emulated {
OUTSIZE_MEMORY_FUNCTIONS
}
#undef OUTSIZE_MEMORY_FUNCTIONS

}  // namespace outsize
