#include "signals.h"

#include <ctime>

namespace outsize::cli {
namespace {

// The signal that asked the run to end, or 0.
volatile std::sig_atomic_t stop_signal = 0;

// When it came, in whole and parts of seconds.
volatile std::sig_atomic_t stop_second = 0, stop_nanosecond = 0;

// `timeout` sends its signal twice, to the process and to its group: within a second they are one.
void note_signal(int number) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto second = static_cast<std::sig_atomic_t>(now.tv_sec), nanosecond = static_cast<std::sig_atomic_t>(now.tv_nsec);
  if (stop_signal == 0) {
    stop_second = second;
    stop_nanosecond = nanosecond;
    stop_signal = number;
    return;
  }
  if (second - stop_second < 1 || (second - stop_second == 1 && nanosecond < stop_nanosecond)) return;
  ::signal(number, SIG_DFL);
  ::raise(number);
}

}  // namespace

StopOnSignal::StopOnSignal() {
  stop_signal = 0;
  struct sigaction stop {
  }, ignore{};
  stop.sa_handler = note_signal;
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGINT, &stop, &interrupt_);
  ::sigaction(SIGTERM, &stop, &terminate_);
  ::sigaction(SIGHUP, nullptr, &hang_up_);
  if (hang_up_.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &stop, nullptr);
  ::sigaction(SIGPIPE, &ignore, &pipe_);
}

StopOnSignal::~StopOnSignal() {
  ::sigaction(SIGINT, &interrupt_, nullptr);
  ::sigaction(SIGTERM, &terminate_, nullptr);
  ::sigaction(SIGHUP, &hang_up_, nullptr);
  ::sigaction(SIGPIPE, &pipe_, nullptr);
}

int StopOnSignal::number() { return stop_signal; }

std::string StopOnSignal::caught() {
  switch (stop_signal) {
    case 0: return {};
    case SIGINT: return "SIGINT";
    case SIGHUP: return "SIGHUP";
    default: return "SIGTERM";
  }
}

}  // namespace outsize::cli
