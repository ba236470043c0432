#include "plan/analysis/min_cut.h"

#include <algorithm>
#include <limits>

namespace outsize {

namespace {

// What is left of an arc after rounding, as part of the largest finite capacity.
constexpr double kRounding = 1e-12;

}  // namespace

void MinCut::add(std::int32_t from, std::int32_t to, double capacity) {
  arcs_of_[from].push_back(static_cast<std::int32_t>(arcs_.size()));
  arcs_.push_back({to, capacity});
  arcs_of_[to].push_back(static_cast<std::int32_t>(arcs_.size()));
  arcs_.push_back({from, 0});
  if (capacity < std::numeric_limits<double>::infinity()) least_ = std::max(least_, capacity * kRounding);
}

double MinCut::run(std::int32_t source, std::int32_t sink) {
  double sum = 0;
  while (find_levels(source, sink)) {
    next_arc_.assign(arcs_of_.size(), 0);
    sum += push(source, sink, std::numeric_limits<double>::infinity());
  }
  return sum;
}

bool MinCut::find_levels(std::int32_t source, std::int32_t sink) {
  level_.assign(arcs_of_.size(), -1);
  level_[source] = 0;
  std::vector<std::int32_t> queue{source};
  for (std::size_t k = 0; k < queue.size(); ++k)
    for (const std::int32_t arc : arcs_of_[queue[k]]) {
      const auto [to, left] = arcs_[arc];
      if (left <= least_ || level_[to] >= 0) continue;
      level_[to] = level_[queue[k]] + 1;
      queue.push_back(to);
    }
  return level_[sink] >= 0;
}

double MinCut::push(std::int32_t node, std::int32_t sink, double most) {
  if (node == sink) return most;
  double pushed = 0;
  for (std::int32_t& at = next_arc_[node]; at < std::ssize(arcs_of_[node]); ++at) {
    const std::int32_t arc = arcs_of_[node][at];
    const auto [to, left] = arcs_[arc];
    if (left <= least_ || level_[to] != level_[node] + 1) continue;
    const double through = push(to, sink, std::min(most - pushed, left));
    arcs_[arc].left -= through;
    arcs_[arc % 2 == 0 ? arc + 1 : arc - 1].left += through;
    pushed += through;
    if (most - pushed <= least_) return pushed;
  }
  return pushed;
}

}  // namespace outsize
