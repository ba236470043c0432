#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "data/array.h"

namespace outsize {

// What the header of a NumPy .npy file states, and where the elements begin.
struct NpyHeader {
  ElementType type = ElementType::f32;
  Dims shape;
  std::int64_t data_offset = 0;
};

// The header at the start of `bytes`. Throws UserError beginning with `what` for other formats, element types or Fortran order.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, std::string_view what);

// The array in the bytes of a whole .npy file.
Array parse_npy(std::vector<std::byte> bytes, std::string_view what);

// The bytes of a .npy file up to its elements.
std::vector<std::byte> make_npy_header(ElementType type, const Dims& shape);

}  // namespace outsize
