#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace outsize {

// Something that a planner lets its user choose.
struct PlannerOption {
  enum class Kind : std::uint8_t {
    integer,
    number,
    word,   // one of `words`
    names,  // any number of them, written a+b+c
  };
  std::string_view name;
  Kind kind = Kind::integer;
  std::string_view initial;  // its value where it is not given, as a user would write it; empty: none, and `help` says what then is
  std::string_view help;
  double least = 0;  // of integers and numbers
  double most = std::numeric_limits<double>::infinity();
  std::string_view words = {};  // "speed|memory"
};

// "a whole number of at least 1", "one of speed, memory"
std::string expected_by(const PlannerOption& option);

// The options that a user gave a planner: each is one of the planner's, and its value is one that it takes.
class PlannerOptions {
 public:
  struct Given {
    PlannerOption option;
    std::string text;
  };

  PlannerOptions() = default;  // none are given
  // Of "key=value,key=value". Throws UserError that names the planner, the option and what was expected.
  PlannerOptions(std::string_view planner, std::span<const PlannerOption> options, std::string_view text);

  bool has(const PlannerOption& option) const { return find(option) != nullptr; }
  // In the order of the planner's own list.
  const std::vector<Given>& given() const { return given_; }
  // "key=value,key=value", in the same order; empty where none is given.
  std::string to_string() const;

  // What was given, or else the option's initial value, which it must have.
  std::int64_t integer(const PlannerOption& option) const;
  double number(const PlannerOption& option) const;
  std::string_view word(const PlannerOption& option) const;
  bool flag(const PlannerOption& option) const { return word(option) == "true"; }
  // These may be none.
  std::vector<std::string> names(const PlannerOption& option) const;

 private:
  const Given* find(const PlannerOption& option) const;
  std::string_view text_of(const PlannerOption& option) const;

  std::vector<Given> given_;
};

}  // namespace outsize
