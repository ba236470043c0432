#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace outsize {

// An index into one table that cannot be mistaken for an index into another. Default-constructed it is "none".
template <class Tag>
struct Id {
  std::int32_t index = -1;

  constexpr Id() = default;
  constexpr explicit Id(std::int64_t i) : index(static_cast<std::int32_t>(i)) {}
  constexpr bool valid() const { return index >= 0; }
  constexpr explicit operator bool() const { return valid(); }
  constexpr auto operator<=>(const Id&) const = default;
};

using ValueId = Id<struct ValueTag>;
using OpId = Id<struct OpTag>;
using PieceId = Id<struct PieceTag>;

}  // namespace outsize

template <class Tag>
struct std::hash<outsize::Id<Tag>> {
  std::size_t operator()(outsize::Id<Tag> id) const noexcept { return std::hash<std::int32_t>{}(id.index); }
};
