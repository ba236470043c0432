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
constexpr std::size_t kDeepest = 16;

// Where a text goes wrong and what stands there.
std::string place(std::string_view text, std::size_t at, std::int64_t offset) {
  constexpr std::size_t kShown = 24;
  if (at >= text.size()) return fmt::format("it ends too early, at byte {} of the file", offset + std::ssize(text));
  const std::size_t begin = at - std::min(at, kShown - 1);
  return fmt::format("it goes wrong at byte {} of the file, the end of {}", offset + static_cast<std::int64_t>(at),
                     in_quotes(text.substr(begin, at + 1 - begin)));
}

// Goes through a text before it is read: the library's own parser keeps the last of two equal names, and one that calls back for
// every value looks at all the values beside it each time.
class Checker final : public nlohmann::json_sax<Json> {
 public:
  Checker(std::string_view text, std::string_view what, std::int64_t offset) : text_(text), what_(what), offset_(offset) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(Json::number_integer_t) override { return true; }
  bool number_unsigned(Json::number_unsigned_t) override { return true; }
  bool number_float(Json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool key(std::string& name) override {
    if (!names_.back().insert(name).second) user_error("{}: {} stands twice in an object", what_, in_quotes(name));
    return true;
  }
  bool parse_error(std::size_t read, const std::string&, const Json::exception& error) override {
    if (dynamic_cast<const Json::out_of_range*>(&error)) user_error("{}: holds a number that no 64 bits can", what_);
    // The library counts the bytes it has read, the wrong one included.
    user_error("{}: not JSON: {}", what_, place(text_, read > 0 ? read - 1 : 0, offset_));
  }

 private:
  bool open() {
    if (names_.size() == kDeepest) user_error("{}: its values are nested more than {} deep", what_, kDeepest);
    names_.emplace_back();
    return true;
  }
  bool close() {
    names_.pop_back();
    return true;
  }

  std::string_view text_, what_;
  std::int64_t offset_;
  std::vector<std::set<std::string>> names_;  // of the objects and lists that are open
};

}  // namespace

Json parse_json(std::string_view text, std::string_view what, std::int64_t offset) {
  Checker checker(text, what, offset);
  Json::sax_parse(text, &checker);
  return Json::parse(text);
}

}  // namespace outsize
