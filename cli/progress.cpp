#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace outsize::cli {

Progress::Progress(bool wanted) : active_(wanted && ::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear(); }

void Progress::show(const std::string& text) {
  if (!active_) return;
  fmt::print(stderr, "\r{:<{}}", text, shown_);
  std::fflush(stderr);
  shown_ = text.size();
}

void Progress::clear() {
  if (!active_ || shown_ == 0) return;
  fmt::print(stderr, "\r{:{}}\r", "", shown_);
  std::fflush(stderr);
  shown_ = 0;
}

}  // namespace outsize::cli
