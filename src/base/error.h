#pragma once

#include <fmt/format.h>

#include "outsize/error.h"

namespace outsize {

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
