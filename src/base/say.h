#pragma once

#include <fmt/format.h>

#include "outsize/text.h"

namespace outsize {

// Tells the user a formatted sentence, as tell() does.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  tell(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace outsize
