#include "base/say.h"

#include <cstdio>

namespace outsize {

void write_to_stderr(std::string_view text) noexcept { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace outsize
