#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "outsize/dtype.h"

namespace outsize {

constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return 4;
    case DType::f64: return 8;
    case DType::i32: return 4;
    case DType::u8: return 1;
  }
  return 0;
}

constexpr bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

// "f32", "f64", "i32" or "u8".
std::string_view name_of(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);

}  // namespace outsize
