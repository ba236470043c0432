#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/chain/chain.h"

namespace outsize {

// DynProg: Algorithm 1, the decisions (one for each of x_0 … x_L) with the least idle time where transfers may be interrupted, in
// `slots` slots of memory/slots bytes: |y| and temporary bytes are rounded up, what the link carries during ops is rounded down in
// partial sums, and |x| is rounded up in partial sums first and one by one where the decisions would not fit in bytes. The
// decisions fit in bytes; they are optimal when slots = memory and what the link carries during each op is whole. nullopt: none
// fits in slots.
std::optional<std::vector<bool>> dynprog_offload(const Chain& chain, std::int64_t memory, double bandwidth, int slots);

}  // namespace outsize
