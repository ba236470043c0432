#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace outsize {

// What array files hold: wider than what the engine computes with (labels are often 64-bit).
enum class ElementType : std::uint8_t { f32, f64, i32, i64, u8, i8, i16, u16, u32, u64 };

constexpr std::int64_t size_of(ElementType type) {
  switch (type) {
    case ElementType::f32: return 4;
    case ElementType::f64: return 8;
    case ElementType::i32: return 4;
    case ElementType::i64: return 8;
    case ElementType::u8:
    case ElementType::i8: return 1;
    case ElementType::i16:
    case ElementType::u16: return 2;
    case ElementType::u32: return 4;
    case ElementType::u64: return 8;
  }
  return 0;
}

constexpr bool is_integer(ElementType type) { return type != ElementType::f32 && type != ElementType::f64; }

// "float32", "int64", "uint8" and so on, as NumPy says.
std::string_view name_of(ElementType type);
ElementType element_type_of(DType dtype);

// A dense row-major array in memory.
struct Array {
  ElementType type = ElementType::f32;
  Dims shape;
  std::vector<std::byte> data;

  std::int64_t elements() const { return shape.product(); }
  std::int64_t bytes() const { return elements() * size_of(type); }
};

// An array of `extents`, all zeros.
Array make_array(ElementType type, const Dims& extents);

// The elements of `array` as `to`, in row-major order. An integer that `to` cannot hold, or a float where an integer is wanted,
// throws UserError that begins with `what`.
std::vector<std::byte> converted(const Array& array, DType to, std::string_view what);

// An element of an array of whole numbers. What 63 bits do not hold is the most that they do.
std::int64_t integer_at(const Array& array, std::int64_t index);

// The shape that a file states, checked: at most Dims::kMaxRank extents, none negative, fewer than 2^60 bytes altogether.
// Throws UserError that begins with `what`.
Dims checked_shape(const std::vector<std::int64_t>& extents, ElementType type, std::string_view what);

}  // namespace outsize
