#pragma once

#include <string>

namespace outsize {

// The descriptor of a new file in `directory` that has no name and is gone when it is closed; −1, with errno set, where there can
// be none.
int open_nameless_file(const std::string& directory);

}  // namespace outsize
