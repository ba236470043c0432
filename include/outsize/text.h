#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

// How sizes and times are written, what is read as a number, and where messages go.
namespace outsize {

// "1.50 GiB", "12.0 MiB", "640 B": three significant digits, binary units.
std::string format_bytes(std::int64_t bytes);
// "1.23 s", "45.6 ms", "789 us"
std::string format_seconds(double seconds);

// The whole of `text` as a number; false where it is none.
bool parse_integer(std::string_view text, std::int64_t& number);
bool parse_number(std::string_view text, double& number);

// "; did you mean 'conv2d'?" with the candidate nearest to `name`, or the shortest that begins with it; "" when none is near.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates);

// Writes the text to standard error. What cannot be written there, on a full disk or to a terminal that is gone, is lost and ends
// nothing: no run is worth less than what it says.
void write_to_stderr(std::string_view text) noexcept;

// Tells the user a sentence that is no answer: of weights that are ignored, of a log that cannot be written. It becomes a line
// "outsize: SENTENCE" of standard error, or goes to what on_message() was given.
void tell(const std::string& sentence);
// What tell() calls from now on, on whichever thread it is called; an empty function stands for standard error. Set it before runs
// begin.
void on_message(std::function<void(const std::string&)> take);

}  // namespace outsize
