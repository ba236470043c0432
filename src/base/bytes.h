#pragma once

#include <cstdint>
#include <string_view>

#include "outsize/text.h"

namespace outsize {

// "512MiB", "1.5GiB", "4096" (bytes) or "40%" (of `whole`). Throws UserError naming `what` (a flag, say) otherwise,
// or for a percentage when `whole` is 0.
std::int64_t parse_bytes(std::string_view text, std::string_view what, std::int64_t whole = 0);

// `bytes` rounded up to a multiple of `alignment`.
constexpr std::int64_t align_up(std::int64_t bytes, std::int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace outsize
