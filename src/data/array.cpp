#include "data/array.h"

#include <fmt/ranges.h>

#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <utility>

namespace outsize {

namespace {

template <class From, class To>
void convert(const Array& array, std::vector<std::byte>& out, std::string_view what) {
  const auto count = static_cast<std::size_t>(array.elements());
  for (std::size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, array.data.data() + i * sizeof(From), sizeof(From));
    if constexpr (std::integral<To>) {
      if constexpr (std::floating_point<From>)
        user_error("{}: expected whole numbers, found {}", what, name_of(array.type));
      else if (!std::in_range<To>(value))
        user_error("{}: element {} is {}, outside the range of {} to {}", what, i, value, std::numeric_limits<To>::min(),
                   std::numeric_limits<To>::max());
    }
    const To result = static_cast<To>(value);
    std::memcpy(out.data() + i * sizeof(To), &result, sizeof(To));
  }
}

template <class To>
std::vector<std::byte> convert_to(const Array& array, std::string_view what) {
  std::vector<std::byte> out(static_cast<std::size_t>(array.elements()) * sizeof(To));
  switch (array.type) {
    case ElementType::f32: convert<float, To>(array, out, what); break;
    case ElementType::f64: convert<double, To>(array, out, what); break;
    case ElementType::i32: convert<std::int32_t, To>(array, out, what); break;
    case ElementType::i64: convert<std::int64_t, To>(array, out, what); break;
    case ElementType::u8: convert<std::uint8_t, To>(array, out, what); break;
    case ElementType::i8: convert<std::int8_t, To>(array, out, what); break;
    case ElementType::i16: convert<std::int16_t, To>(array, out, what); break;
    case ElementType::u16: convert<std::uint16_t, To>(array, out, what); break;
    case ElementType::u32: convert<std::uint32_t, To>(array, out, what); break;
    case ElementType::u64: convert<std::uint64_t, To>(array, out, what); break;
  }
  return out;
}

template <class From>
std::int64_t integer_of(const std::byte* element) {
  From value;
  std::memcpy(&value, element, sizeof value);
  return std::in_range<std::int64_t>(value) ? static_cast<std::int64_t>(value) : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

std::string_view name_of(ElementType type) {
  switch (type) {
    case ElementType::f32: return "float32";
    case ElementType::f64: return "float64";
    case ElementType::i32: return "int32";
    case ElementType::i64: return "int64";
    case ElementType::u8: return "uint8";
    case ElementType::i8: return "int8";
    case ElementType::i16: return "int16";
    case ElementType::u16: return "uint16";
    case ElementType::u32: return "uint32";
    case ElementType::u64: return "uint64";
  }
  return "?";
}

ElementType element_type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return ElementType::f32;
    case DType::f64: return ElementType::f64;
    case DType::i32: return ElementType::i32;
    case DType::u8: return ElementType::u8;
  }
  internal_error("no element type for {}", name_of(dtype));
}

Array make_array(ElementType type, const Dims& extents) {
  return {type, extents, std::vector<std::byte>(static_cast<std::size_t>(extents.product() * size_of(type)))};
}

std::vector<std::byte> converted(const Array& array, DType to, std::string_view what) {
  if (array.type == element_type_of(to)) return array.data;
  switch (to) {
    case DType::f32: return convert_to<float>(array, what);
    case DType::f64: return convert_to<double>(array, what);
    case DType::i32: return convert_to<std::int32_t>(array, what);
    case DType::u8: return convert_to<std::uint8_t>(array, what);
  }
  internal_error("no conversion to {}", name_of(to));
}

std::int64_t integer_at(const Array& array, std::int64_t index) {
  const std::byte* const element = array.data.data() + index * size_of(array.type);
  switch (array.type) {
    case ElementType::i32: return integer_of<std::int32_t>(element);
    case ElementType::i64: return integer_of<std::int64_t>(element);
    case ElementType::u8: return integer_of<std::uint8_t>(element);
    case ElementType::i8: return integer_of<std::int8_t>(element);
    case ElementType::i16: return integer_of<std::int16_t>(element);
    case ElementType::u16: return integer_of<std::uint16_t>(element);
    case ElementType::u32: return integer_of<std::uint32_t>(element);
    case ElementType::u64: return integer_of<std::uint64_t>(element);
    default: internal_error("{} are no whole numbers", name_of(array.type));
  }
}

Dims checked_shape(const std::vector<std::int64_t>& extents, ElementType type, std::string_view what) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
  if (extents.size() > Dims::kMaxRank)
    user_error("{}: expected at most {} dimensions, found {}", what, Dims::kMaxRank, extents.size());
  std::int64_t room = kMostBytes / size_of(type);
  for (std::int64_t extent : extents) {
    if (extent < 0) user_error("{}: negative extent in the shape [{}]", what, fmt::join(extents, ", "));
    if (extent > room) user_error("{}: the shape [{}] is larger than any memory", what, fmt::join(extents, ", "));
    if (extent > 0) room /= extent;
  }
  return Dims(std::span(extents));
}

}  // namespace outsize
