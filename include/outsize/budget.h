#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

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

// Why there is no plan within the budgets.
struct Refusal {
  std::string planner;       // empty: a plan that was given
  std::string program;       // the graph that was to be planned
  Tier tier = Tier::device;  // what lacks the bytes
  std::int64_t budget = 0;   // bytes of that tier
  std::int64_t needed = 0;   // bytes of that tier; 0: the planner has no plan for such a graph or machine, whatever the budget
  std::string at;            // what is at the peak: "op conv1"
  std::string reason = {};   // where there is no plan whatever the budget: why
  bool disk = false;         // whether values may wait on disk

  std::int64_t missing() const { return needed - budget; }
  // Whether more bytes would help.
  bool of_bytes() const { return needed > 0; }
};

// The refusal in words, without advice: one sentence that names who needs how much of what and where, without a full stop.
std::string sentence_of(const Refusal& refusal);
// What to do about it in general, where nothing is known that helps: "Raise --memory, try another --planner, …".
std::string advice_of(const Refusal& refusal);

// Sentence and advice: "planner keep needs …. Raise --memory, …".
std::string message_of(const Refusal& refusal);

// A refusal that ends the command. The message is sentence and advice; exit status 1.
class BudgetError : public std::runtime_error {
 public:
  explicit BudgetError(const Refusal& refusal) : BudgetError(refusal, message_of(refusal)) {}
  BudgetError(Refusal refusal, const std::string& message) : std::runtime_error(message), refusal_(std::move(refusal)) {}
  const Refusal& refusal() const { return refusal_; }

 private:
  Refusal refusal_;
};

// A T, or why there is none.
template <class T>
class [[nodiscard]] Planned {
 public:
  Planned(T value) : value_(std::move(value)) {}
  Planned(Refusal refusal) : refusal_(std::move(refusal)) {}

  bool fits() const { return value_.has_value(); }
  explicit operator bool() const { return fits(); }
  // There must be one.
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  // There must be none.
  const Refusal& refusal() const { return refusal_; }
  // The T; throws BudgetError where there is none.
  T take() && {
    if (!fits()) throw BudgetError(refusal());
    return *std::move(value_);
  }

 private:
  std::optional<T> value_;
  Refusal refusal_;
};

}  // namespace outsize
