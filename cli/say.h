#pragma once

#include <fmt/format.h>

#include "outsize/error.h"
#include "outsize/text.h"

namespace outsize::cli {

// Says "outsize: MESSAGE" on a line of standard error.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  tell(fmt::format(format, std::forward<Args>(args)...));
}

// Throws UserError with a formatted message: exit status 2.
template <class... Args>
[[noreturn]] void user_error(fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace outsize::cli
