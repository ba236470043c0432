#pragma once

#include <string>

#include "base/box.h"
#include "base/dtype.h"

namespace outsize {

// `map`: N C D? H W, stored in the backend's one layout for spatial values. `planar`: a map that is stored row-major, as images of
// few channels are read, where maps are stored in blocks of channels: a block would be mostly padding. `plain`: row-major
// everywhere, and no map.
enum class Format : std::uint8_t { plain, map, planar };

constexpr bool is_map(Format format) { return format != Format::plain; }

struct ValueType {
  DType dtype = DType::f32;
  Dims shape;
  Format format = Format::plain;

  std::int64_t elements() const { return shape.product(); }
  bool operator==(const ValueType&) const = default;
};

// "f32[2, 3, 32, 32]"; a rank-4 or -5 plain value says "f32.plain[...]", a planar map "f32.planar[...]".
std::string to_string(const ValueType& type);

// The type of a value's gradient: its own, but that of a planar map is a map.
constexpr ValueType gradient_type(ValueType type) {
  if (type.format == Format::planar) type.format = Format::map;
  return type;
}

// The dimension of scores of classes (logits) along which the classes lie: plain [..., K] or a map [N, K, ...].
constexpr int class_dim(const ValueType& logits) { return logits.format == Format::map ? 1 : logits.shape.rank() - 1; }

// What a value is for. Parameters and states persist from step to step.
enum class Role : std::uint8_t { input, parameter, state, activation, gradient, statistic };

enum class Phase : std::uint8_t { forward, backward, update };

std::string_view name_of(Role role);
std::string_view name_of(Phase phase);

}  // namespace outsize
