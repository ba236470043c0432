#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "say.h"

namespace outsize::cli {

Progress::Progress(bool wanted) : wanted_(wanted), active_(wanted && ::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear(); }

void Progress::show(const std::string& text) {
  if (!active_) return;
  write_to_stderr(fmt::format("\r{:<{}}", text, shown_));
  shown_ = text.size();
}

Observer Progress::observer() {
  Observer observer;
  observer.progress = [this](const std::string& text) { text.empty() ? clear() : show(text); };
  observer.quiet = !wanted_;
  return observer;
}

void Progress::clear() {
  if (!active_ || shown_ == 0) return;
  write_to_stderr(fmt::format("\r{:{}}\r", "", shown_));
  shown_ = 0;
}

}  // namespace outsize::cli
