#include "graph/attributes.h"

#include <fmt/ranges.h>

namespace outsize {

namespace {

struct Printer {
  std::string operator()(std::int64_t number) const { return fmt::format("{}", number); }
  std::string operator()(double number) const { return fmt::format("{}", number); }  // shortest text that reads back equal
  std::string operator()(const std::string& word) const { return word; }
  std::string operator()(const std::vector<std::int64_t>& numbers) const { return fmt::format("[{}]", fmt::join(numbers, ", ")); }
};

}  // namespace

std::string to_string(const Attribute& attribute) { return std::visit(Printer{}, attribute); }

}  // namespace outsize
