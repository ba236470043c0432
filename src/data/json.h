#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

namespace outsize {

// The JSON value that `text` states. Throws UserError that begins with `what` and says what is wrong at which byte of the file,
// in which the text begins at byte `offset`: for text that is not JSON, a name that stands twice in one object (the first would
// otherwise be lost silently), and values nested deeper than any file of ours.
nlohmann::json parse_json(std::string_view text, std::string_view what, std::int64_t offset = 0);

}  // namespace outsize
