#pragma once

#include <cstdint>
#include <string>

namespace outsize::cli {

// One line that rewrites itself on a terminal; in a pipe it writes nothing.
class Progress {
 public:
  explicit Progress(bool wanted);
  ~Progress();

  // Whether there is a terminal to show it on.
  bool active() const { return active_; }
  // Shows `text` in place of what was shown before.
  void show(const std::string& text);
  // Removes the line.
  void clear();

 private:
  bool active_ = false;
  std::size_t shown_ = 0;
};

}  // namespace outsize::cli
