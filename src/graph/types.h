#pragma once

#include <string>

#include "base/box.h"
#include "base/dtype.h"

namespace outsize {

// `map`: N C D? H W, stored in the backend's one layout for spatial values. `plain`: row-major everywhere.
enum class Format : std::uint8_t { plain, map };

struct ValueType {
  DType dtype = DType::f32;
  Dims shape;
  Format format = Format::plain;

  std::int64_t elements() const { return shape.product(); }
  bool operator==(const ValueType&) const = default;
};

// "f32[2, 3, 32, 32]"; a rank-4 or -5 plain value says "f32.plain[...]".
std::string to_string(const ValueType& type);

// What a value is for. Parameters and states persist from step to step.
enum class Role : std::uint8_t { input, parameter, state, activation, gradient, statistic };

enum class Phase : std::uint8_t { forward, backward, update };

std::string_view name_of(Role role);
std::string_view name_of(Phase phase);

}  // namespace outsize
