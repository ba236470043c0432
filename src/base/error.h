#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace outsize {

// The user's mistake: a bad file, flag or graph. The message says what was expected, what was found and what to do. Exit status 2.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Our mistake: a checker or an assertion failed. Exit status 3.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Throws UserError with a formatted message.
template <class... Args>
[[noreturn]] void user_error(fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(fmt::format(format, std::forward<Args>(args)...));
}

// Throws InternalError with a formatted message.
template <class... Args>
[[noreturn]] void internal_error(fmt::format_string<Args...> format, Args&&... args) {
  throw InternalError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace outsize

// Holds in release builds too; what it guards is cheap beside what it protects.
#define OUTSIZE_CHECK(condition)                                                                            \
  do {                                                                                                      \
    if (!(condition)) ::outsize::internal_error("{}:{}: check failed: {}", __FILE__, __LINE__, #condition); \
  } while (false)
