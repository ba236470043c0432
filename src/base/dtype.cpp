#include "base/dtype.h"

#include <array>
#include <utility>

namespace outsize {

namespace {
constexpr std::array<std::pair<DType, std::string_view>, 4> kNames{
    {{DType::f32, "f32"}, {DType::f64, "f64"}, {DType::i32, "i32"}, {DType::u8, "u8"}}};
}

std::string_view name_of(DType dtype) {
  for (const auto& [value, name] : kNames)
    if (value == dtype) return name;
  return "?";
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const auto& [value, text] : kNames)
    if (text == name) return value;
  return std::nullopt;
}

}  // namespace outsize
