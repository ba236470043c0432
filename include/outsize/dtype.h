#pragma once

#include <cstdint>

namespace outsize {

// What elements are.
enum class DType : std::uint8_t { f32, f64, i32, u8 };

}  // namespace outsize
