#pragma once

#include <csignal>
#include <string>

namespace outsize::cli {

// While it lives, SIGINT, SIGTERM and SIGHUP (the terminal is gone) are noted, for what runs to end soon; another one later ends
// the process. SIGHUP that was ignored before, as by `nohup`, still is. A pipe that nobody reads any more ends nothing.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  // The signal that came, or 0.
  static int number();
  // Its name: "SIGINT"; or empty.
  static std::string caught();

 private:
  struct sigaction interrupt_, terminate_, hang_up_, pipe_;  // as they were before
};

}  // namespace outsize::cli
