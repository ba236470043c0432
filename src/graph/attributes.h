#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace outsize {

using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;

// The attributes of one op, by name. Only what differs from the OpDef's defaults need be given.
using Attributes = std::map<std::string, Attribute, std::less<>>;

// An attribute an op takes: its name, what it is without being given, and one line for people.
struct AttributeSpec {
  std::string name;
  Attribute fallback;
  std::string help;
};

// "3", "0.1", "relu" or "[1, 1]"
std::string to_string(const Attribute& attribute);

}  // namespace outsize
