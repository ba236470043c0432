#pragma once

#include "program/packing/blocks.h"

namespace outsize {

// Of blocks that begin at the same instant, the one that is placed first.
enum class First : std::uint8_t { longest, largest };

// What is live at `start` is stacked in the order of `stack`; from there all others are placed as an allocator would do it that
// never moves anything, each in the smallest free range that holds it: those that begin later in the order of time, and those that
// end earlier in the order of reversed time. O(n log n), but for moving free ranges up. Starting at the first instant suits
// activations that grow towards the peak, at the last one those that shrink after it; at the peak itself nothing is lost there.
Offsets best_fit_from(std::int32_t start, const Order& stack, First first, std::span<const Lifetime> blocks,
                      const Instants& instants);

}  // namespace outsize
