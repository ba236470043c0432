#include "base/bytes.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace outsize {

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  double amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(amount) >= 1023.5 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  const int decimals = std::abs(amount) < 9.995 ? 2 : std::abs(amount) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", amount, decimals, kUnits[unit]);
}

std::int64_t parse_bytes(std::string_view text, std::string_view what, std::int64_t whole) {
  double amount = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  double scale = 0;
  if (unit.empty() || unit == "B") scale = 1;
  if (unit == "KiB") scale = 1024.0;
  if (unit == "MiB") scale = 1024.0 * 1024;
  if (unit == "GiB") scale = 1024.0 * 1024 * 1024;
  if (unit == "TiB") scale = 1024.0 * 1024 * 1024 * 1024;
  if (unit == "%") {
    if (whole <= 0) user_error("{}: a percentage has no meaning here; give a size such as 512MiB or 2GiB", what);
    scale = static_cast<double>(whole) / 100;
  }
  const double bytes = amount * scale;
  if (error != std::errc() || scale == 0 || !(bytes >= 0) || bytes > 9e18)
    user_error("{}: '{}' is not a size; expected bytes or a number with KiB, MiB, GiB, TiB or %, such as 512MiB or 40%", what,
               text);
  return static_cast<std::int64_t>(std::llround(bytes));
}

std::string format_seconds(double seconds) {
  if (seconds >= 99.95) return fmt::format("{:.0f} s", seconds);
  if (seconds >= 0.9995) return fmt::format("{:.3g} s", seconds);
  if (seconds >= 0.9995e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} us", seconds * 1e6);
}

}  // namespace outsize
