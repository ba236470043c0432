#pragma once

#include <filesystem>

namespace outsize {

// Where the user's caches of this program are kept, or nothing where the system says of no place: $XDG_CACHE_HOME/outsize, or
// ~/.cache/outsize. Relative paths are ignored, as the standard has it.
std::filesystem::path cache_directory();

}  // namespace outsize
