#include "plan/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace outsize {

namespace {

using Kind = PlannerOption::Kind;

// The parts of a text between separators; none where it is empty.
std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool takes(const PlannerOption& option, std::string_view text) {
  const auto in_range = [&](double number) { return number >= option.least && number <= option.most; };
  std::int64_t integer = 0;
  double number = 0;
  switch (option.kind) {
    case Kind::integer: return parse_integer(text, integer) && in_range(static_cast<double>(integer));
    case Kind::number: return parse_number(text, number) && in_range(number);
    case Kind::word: return !text.empty() && std::ranges::count(split(option.words, '|'), text) > 0;
    case Kind::names: {
      const std::vector<std::string> names = split(text, '+');
      return !names.empty() && std::ranges::all_of(names, [](const std::string& name) { return is_name(name); });
    }
  }
  return false;
}

}  // namespace

std::string expected_by(const PlannerOption& option) {
  if (option.kind == Kind::word) return fmt::format("one of {}", fmt::join(split(option.words, '|'), ", "));
  if (option.kind == Kind::names) return "names joined by +";
  const std::string_view what = option.kind == Kind::integer ? "a whole number" : "a number";
  if (option.most == std::numeric_limits<double>::infinity()) return fmt::format("{} of at least {}", what, option.least);
  return fmt::format("{} from {} to {}", what, option.least, option.most);
}

PlannerOptions::PlannerOptions(std::string_view planner, std::span<const PlannerOption> options, std::string_view text) {
  std::vector<std::string_view> names;
  for (const PlannerOption& option : options) names.push_back(option.name);
  std::vector<std::optional<std::string>> found(options.size());
  for (const std::string& part : split(text, ',')) {
    if (options.empty()) user_error("planner {} has no options, so that it takes no '{}'", planner, part);
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) user_error("planner {}: expected OPTION=VALUE, found {}", planner, in_quotes(part));
    const std::string name = part.substr(0, equals), value = part.substr(equals + 1);
    const auto at = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
    if (at == names.size()) {
      const std::string near = did_you_mean(name, names);
      user_error("planner {} has no option {}{}", planner, in_quotes(name),
                 near.empty() ? fmt::format("; it has {}", fmt::join(names, ", ")) : near);
    }
    if (found[at]) user_error("planner {}: {} is given twice", planner, name);
    if (!takes(options[at], value))
      user_error("planner {}: {}: {} is not {}", planner, name, in_quotes(value), expected_by(options[at]));
    found[at] = value;
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i]) given_.push_back({options[i], std::move(*found[i])});
}

std::string PlannerOptions::to_string() const {
  std::string text;
  for (const Given& one : given_) text += fmt::format("{}{}={}", text.empty() ? "" : ",", one.option.name, one.text);
  return text;
}

const PlannerOptions::Given* PlannerOptions::find(const PlannerOption& option) const {
  const auto found = std::ranges::find(given_, option.name, [](const Given& one) { return one.option.name; });
  return found == given_.end() ? nullptr : &*found;
}

std::string_view PlannerOptions::text_of(const PlannerOption& option) const {
  const Given* given = find(option);
  return given ? std::string_view(given->text) : option.initial;
}

std::int64_t PlannerOptions::integer(const PlannerOption& option) const {
  std::int64_t value = 0;
  OUTSIZE_CHECK(parse_integer(text_of(option), value));
  return value;
}

double PlannerOptions::number(const PlannerOption& option) const {
  double value = 0;
  OUTSIZE_CHECK(parse_number(text_of(option), value));
  return value;
}

std::string_view PlannerOptions::word(const PlannerOption& option) const { return text_of(option); }

std::vector<std::string> PlannerOptions::names(const PlannerOption& option) const { return split(text_of(option), '+'); }

}  // namespace outsize
