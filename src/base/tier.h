#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace outsize {

enum class Tier : std::uint8_t {
  device,
  host,
  disk,
  source,  // of the data: inputs that are read from it window by window; it takes no bytes of the run
};
constexpr std::string_view name_of(Tier tier) {
  constexpr std::string_view kNames[]{"device", "host", "disk", "source"};
  return kNames[static_cast<std::size_t>(tier)];
}
// Whether what is there has an address.
constexpr bool in_memory(Tier tier) { return tier == Tier::device || tier == Tier::host; }

// The tiers that hold bytes of a run.
inline constexpr Tier kTiers[]{Tier::device, Tier::host, Tier::disk};

// One T for each of them.
template <class T>
struct ByTier {
  T device{}, host{}, disk{};

  constexpr T& operator[](Tier tier) { return tier == Tier::device ? device : tier == Tier::host ? host : disk; }
  constexpr const T& operator[](Tier tier) const { return tier == Tier::device ? device : tier == Tier::host ? host : disk; }
  bool operator==(const ByTier&) const = default;
};

// A budget that nothing exceeds; far enough below the largest number that sums with it do not overflow.
inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max() / 4;

// The bytes that a plan may take of each tier; 0: the tier is not there.
struct Budgets {
  std::int64_t device = kNoLimit;
  std::int64_t host = kNoLimit;
  std::int64_t disk = 0;

  constexpr std::int64_t operator[](Tier tier) const { return tier == Tier::device ? device : tier == Tier::host ? host : disk; }
};

inline constexpr Budgets kNoLimits{kNoLimit, kNoLimit, kNoLimit};

}  // namespace outsize
