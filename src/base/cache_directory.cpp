#include "base/cache_directory.h"

#include <cstdlib>

namespace outsize {

std::filesystem::path cache_directory() {
  if (const char* const named = std::getenv("XDG_CACHE_HOME"); named != nullptr && named[0] == '/')
    return std::filesystem::path(named) / "outsize";
  if (const char* const home = std::getenv("HOME"); home != nullptr && home[0] == '/')
    return std::filesystem::path(home) / ".cache" / "outsize";
  return {};
}

}  // namespace outsize
