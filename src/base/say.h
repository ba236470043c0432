#pragma once

#include <fmt/format.h>

#include <string_view>

namespace outsize {

// Writes the text to standard error. What cannot be written there, on a full disk or to a terminal that is gone, is lost and ends
// nothing: no run is worth less than what it says.
void write_to_stderr(std::string_view text) noexcept;

// Says "outsize: MESSAGE" on a line of standard error, as write_to_stderr() writes it.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  write_to_stderr(fmt::format("outsize: {}\n", fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace outsize
