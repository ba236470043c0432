#pragma once

#include <cstdint>
#include <vector>

#include "base/table.h"

namespace outsize {

// A directed graph whose arcs have capacities, and its cheapest cut between two nodes (Dinic's algorithm).
class MinCut {
 public:
  explicit MinCut(std::int64_t nodes) : arcs_of_(nodes) {}

  // A capacity may be infinite, as long as some cut has a finite sum.
  void add(std::int32_t from, std::int32_t to, double capacity);
  // The least sum of capacities that separates the sink from the source.
  double run(std::int32_t source, std::int32_t sink);
  // Whether a node is on the source's side of that cut: of several, the one nearest to the source.
  bool with_source(std::int32_t node) const { return level_[node] >= 0; }

 private:
  struct Arc {
    std::int32_t to = 0;
    double left = 0;
  };

  bool find_levels(std::int32_t source, std::int32_t sink);
  double push(std::int32_t node, std::int32_t sink, double most);

  Table<Arc> arcs_;                           // each beside its reverse
  Table<std::vector<std::int32_t>> arcs_of_;  // by node
  Table<std::int32_t> level_, next_arc_;      // by node
  double least_ = 0;                          // capacities up to here count as none
};

}  // namespace outsize
