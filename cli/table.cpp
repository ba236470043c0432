#include "table.h"

#include <fmt/format.h>

#include <algorithm>

namespace outsize::cli {

void Summary::print() const {
  std::size_t width = 0;
  for (const auto& [name, text] : rows_) width = std::max(width, name.size());
  for (const auto& [name, text] : rows_) fmt::print("{:<{}}  {}\n", name, width, text);
}

void Table::print() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows_) {
    fmt::print("{:<{}}", row[0], widths[0]);
    for (std::size_t i = 1; i < row.size(); ++i) fmt::print("  {:>{}}", row[i], widths[i]);
    fmt::print("\n");
  }
}

std::string format_rate(double samples_per_second) {
  return samples_per_second >= 100 ? fmt::format("{:.0f} samples/s", samples_per_second)
                                   : fmt::format("{:.3g} samples/s", samples_per_second);
}

}  // namespace outsize::cli
