#pragma once

#include <cstdint>
#include <string>

#include "outsize/reports.h"

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
  // What tells the library to show its progress here.
  Observer observer();
  // Removes the line.
  void clear();

 private:
  bool wanted_ = false;
  bool active_ = false;
  std::size_t shown_ = 0;
};

}  // namespace outsize::cli
