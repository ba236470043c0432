#pragma once

#include <optional>
#include <string>

namespace outsize {

// How long ways to compute a call took when they were tried on the card in use, kept from one process to the next: so that a run
// that is made again or goes on takes the same ways, and gives the same bits, and so that nothing is tried twice. Kept in the
// user's cache, a file for each card and driver; of two entries for one way the older holds.
//
// `call` and `way` are texts without line ends or tabs; the way names the library's version. One that cannot be taken has infinite
// seconds.
std::optional<double> tuned_seconds(const std::string& call, const std::string& way);
void keep_tuned_seconds(const std::string& call, const std::string& way, double seconds);

// What is kept of a way or, where nothing is, what trying it takes: try_it() says the seconds, infinite where it cannot be taken.
template <class Try>
double tuned_seconds(const std::string& call, const std::string& way, const Try& try_it) {
  if (const std::optional<double> known = tuned_seconds(call, way)) return *known;
  const double seconds = try_it();
  keep_tuned_seconds(call, way, seconds);
  return seconds;
}

}  // namespace outsize
