#include "table.h"

#include <fmt/format.h>

#include <algorithm>

namespace outsize::cli {

void Summary::print() const {
  std::size_t width = 0;
  for (const auto& [name, text] : rows_) width = std::max(width, name.size());
  for (const auto& [name, text] : rows_) fmt::print("{:<{}}  {}\n", name, width, text);
}

void Table::print(const std::vector<std::size_t>& widths) {
  widths_.resize(std::max({widths_.size(), widths.size(), rows_.empty() ? 0 : rows_.front().size()}));
  for (std::size_t i = 0; i < widths.size(); ++i) widths_[i] = std::max(widths_[i], widths[i]);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], row[i].size());
  for (const auto& row : rows_) {
    fmt::print("{:<{}}", row[0], widths_[0]);
    for (std::size_t i = 1; i < row.size(); ++i) fmt::print("  {:>{}}", row[i], widths_[i]);
    fmt::print("\n");
  }
  rows_.clear();
}

std::string format_rate(double samples_per_second) {
  return samples_per_second >= 100 ? fmt::format("{:.0f} samples/s", samples_per_second)
                                   : fmt::format("{:.3g} samples/s", samples_per_second);
}

}  // namespace outsize::cli
