#include "data/json.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace outsize {

namespace {

using Json = nlohmann::json;

// Printing a value takes stack in proportion to its depth; a header needs a depth of 3.
constexpr int kDeepest = 16;

// Where a text goes wrong and what stands there.
std::string place(std::string_view text, std::size_t at, std::int64_t offset) {
  constexpr std::size_t kShown = 24;
  if (at >= text.size()) return fmt::format("it ends too early, at byte {} of the file", offset + std::ssize(text));
  const std::size_t begin = at - std::min(at, kShown - 1);
  return fmt::format("it goes wrong at byte {} of the file, the end of {}", offset + static_cast<std::int64_t>(at),
                     in_quotes(text.substr(begin, at + 1 - begin)));
}

}  // namespace

Json parse_json(std::string_view text, std::string_view what, std::int64_t offset) {
  std::vector<std::set<std::string>> names;  // of the objects that are open
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepest) user_error("{}: its values are nested more than {} deep", what, kDeepest);
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key && !names.back().insert(parsed.get<std::string>()).second)
      user_error("{}: {} stands twice in an object", what, in_quotes(parsed.get<std::string>()));
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::parse_error& error) {
    // The library counts the bytes it has read, the wrong one included.
    user_error("{}: not JSON: {}", what, place(text, error.byte > 0 ? error.byte - 1 : 0, offset));
  } catch (const Json::out_of_range&) {
    user_error("{}: holds a number that no 64 bits can", what);
  }
}

}  // namespace outsize
