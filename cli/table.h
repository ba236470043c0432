#pragma once

#include <string>
#include <utility>
#include <vector>

namespace outsize::cli {

// Rows of a name and what there is to say of it, printed with the second column aligned.
class Summary {
 public:
  void row(std::string name, std::string text) { rows_.emplace_back(std::move(name), std::move(text)); }
  void print() const;

 private:
  std::vector<std::pair<std::string, std::string>> rows_;
};

// Rows of as many cells as there are columns, under their titles; the first column to the left, the others to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> titles) : rows_{std::move(titles)} {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // The rows since the last time. Columns become wider where they must, never narrower, and begin with `widths`.
  void print(const std::vector<std::size_t>& widths = {});

 private:
  std::vector<std::vector<std::string>> rows_;  // the titles first
  std::vector<std::size_t> widths_;
};

// "1234 samples/s", "5.67 samples/s"
std::string format_rate(double samples_per_second);

}  // namespace outsize::cli
