#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace outsize {

namespace {

constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_name_character(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '.' || c == '-' || c == '/'; }
constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

template <class Number>
bool parse_whole(std::string_view text, Number& number) {
  // from_chars would also take "inf" and "nan", which are names here.
  if (text.empty() || is_letter(text.front())) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::int64_t edit_distance(std::string_view a, std::string_view b) {
  // Rows of the table for the first i − 2, i − 1 and i letters of `a`.
  std::vector<std::int64_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<std::int64_t>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = static_cast<std::int64_t>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
  // The distance takes the product of the lengths, and nobody misspells a name that is this long.
  constexpr std::size_t kLongest = 200;
  if (name.size() > kLongest) return "";
  // Further away than a third of the name it is another word, not a misspelling.
  const auto limit = static_cast<std::int64_t>(name.size()) / 3;
  std::int64_t best = limit + 1;
  std::string_view nearest;
  for (std::string_view candidate : candidates) {
    const auto lengths = static_cast<std::int64_t>(candidate.size()) - static_cast<std::int64_t>(name.size());
    if (std::abs(lengths) >= best) continue;
    const std::int64_t distance = edit_distance(name, candidate);
    if (distance >= best) continue;
    best = distance;
    nearest = candidate;
  }
  // Or it was cut short; of fewer than three letters too many words begin so.
  constexpr std::size_t kLetters = 3;
  if (nearest.empty() && name.size() >= kLetters + std::min(name.find_first_not_of('-'), name.size()))
    for (std::string_view candidate : candidates)
      if (candidate.starts_with(name) && (nearest.empty() || candidate.size() < nearest.size())) nearest = candidate;
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::size_t length = std::min(text.size(), kLongest);
  const auto inside_character = [&](std::size_t at) { return at < text.size() && (text[at] & 0xC0) == 0x80; };  // of UTF-8
  if (length < text.size())
    while (length > 0 && inside_character(length)) --length;
  std::string shown = "'";
  for (const char c : text.substr(0, length)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == 0x7F)
      shown += fmt::format("\\x{:02x}", byte);
    else
      shown += c;
  }
  return shown + (length < text.size() ? "…'" : "'");
}

bool is_name(std::string_view text) {
  return std::all_of(text.begin(), text.end(), is_name_character) &&
         std::any_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

bool parse_integer(std::string_view text, std::int64_t& number) { return parse_whole(text, number); }

bool parse_number(std::string_view text, double& number) { return parse_whole(text, number) && std::isfinite(number); }

void LineCursor::skip_blanks() {
  while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
}

std::string LineCursor::found() {
  skip_blanks();
  if (rest_.empty()) return "the end of the line";
  const std::size_t blank = static_cast<std::size_t>(std::find_if(rest_.begin(), rest_.end(), is_blank) - rest_.begin());
  return in_quotes(rest_.substr(0, blank));
}

bool LineCursor::at_end() {
  skip_blanks();
  return rest_.empty();
}

bool LineCursor::peek(char c) {
  skip_blanks();
  return !rest_.empty() && rest_.front() == c;
}

bool LineCursor::accept(char c) {
  if (!peek(c)) return false;
  rest_.remove_prefix(1);
  return true;
}

void LineCursor::expect(char c, std::string_view where) {
  if (!accept(c)) user_error("expected '{}' {}, found {}", c, where, found());
}

std::string_view LineCursor::name(std::string_view what) {
  skip_blanks();
  std::size_t length = 0;
  while (length < rest_.size() && is_name_character(rest_[length])) ++length;
  if (length == 0) user_error("expected {}, found {}", what, found());
  const std::string_view text = rest_.substr(0, length);
  rest_.remove_prefix(length);
  return text;
}

std::string_view LineCursor::word(std::string_view what) {
  skip_blanks();
  std::size_t length = 0;
  while (length < rest_.size() && (is_name_character(rest_[length]) || rest_[length] == '+')) ++length;
  if (length == 0) user_error("expected {}, found {}", what, found());
  const std::string_view text = rest_.substr(0, length);
  rest_.remove_prefix(length);
  return text;
}

std::int64_t LineCursor::integer(std::string_view what) {
  const std::string_view text = word(what);
  std::int64_t number = 0;
  if (!parse_integer(text, number)) user_error("expected {}, found '{}'", what, text);
  return number;
}

std::vector<std::int64_t> LineCursor::integers(std::string_view what) {
  std::vector<std::int64_t> numbers;
  expect('[', fmt::format("before {}", what));
  if (accept(']')) return numbers;
  do numbers.push_back(integer("an integer"));
  while (accept(','));
  expect(']', fmt::format("after {}", what));
  return numbers;
}

void LineCursor::finish() {
  if (!at_end()) user_error("expected the end of the line, found {}", found());
}

}  // namespace outsize
