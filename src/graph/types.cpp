#include "graph/types.h"

#include <fmt/format.h>

namespace outsize {

std::string to_string(const ValueType& type) {
  const bool looks_like_map = type.shape.rank() == 4 || type.shape.rank() == 5;
  std::string_view marker;
  if (looks_like_map && type.format == Format::plain) marker = ".plain";
  if (!looks_like_map && type.format == Format::map) marker = ".map";
  if (type.format == Format::planar) marker = ".planar";
  return fmt::format("{}{}{}", name_of(type.dtype), marker, to_string(type.shape));
}

std::string_view name_of(Role role) {
  switch (role) {
    case Role::input: return "input";
    case Role::parameter: return "parameter";
    case Role::state: return "state";
    case Role::activation: return "activation";
    case Role::gradient: return "gradient";
    case Role::statistic: return "statistic";
  }
  return "?";
}

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::update: return "update";
  }
  return "?";
}

}  // namespace outsize
