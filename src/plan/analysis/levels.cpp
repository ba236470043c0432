#include "plan/analysis/levels.h"

#include <algorithm>

namespace outsize {

namespace {

constexpr std::int64_t kBits = 64;

}  // namespace

LeveledGraph::LeveledGraph(const Graph& graph)
    : graph_(graph),
      levels_(graph.op_count(), 1),
      readers_(graph.op_count()),
      words_((graph.op_count() + kBits - 1) / kBits),
      ancestors_(graph.op_count() * words_, 0) {
  for (std::int64_t i = 0; i < graph.op_count(); ++i) {
    std::uint64_t* row = &ancestors_[i * words_];
    for (ValueId input : graph.op(OpId(i)).inputs) {
      const OpId producer = graph.value(input).producer;
      // What an update makes is a variable's new value, which counts as the variable.
      if (!producer || graph.value(input).version_of) continue;
      levels_[OpId(i)] = std::max(levels_[OpId(i)], levels_[producer] + 1);
      const std::uint64_t* other = &ancestors_[producer.index * words_];
      for (std::int64_t w = 0; w < words_; ++w) row[w] |= other[w];
      row[producer.index / kBits] |= std::uint64_t{1} << (producer.index % kBits);
      std::vector<OpId>& readers = readers_[producer];
      if (readers.empty() || readers.back() != OpId(i)) readers.push_back(OpId(i));
    }
    by_level_.resize(std::max<std::int64_t>(by_level_.size(), levels_[OpId(i)] + 1));
    by_level_[levels_[OpId(i)]].push_back(OpId(i));
  }
}

bool LeveledGraph::reaches(OpId from, OpId to) const {
  return (ancestors_[to.index * words_ + from.index / kBits] >> (from.index % kBits)) & 1;
}

OpId LeveledGraph::direct_order(OpId source, OpId target, std::int64_t lower, std::int64_t upper) const {
  const std::int64_t lowest = std::max<std::int64_t>(level(target) - upper, level(source) + 1);
  for (std::int64_t k = level(target) - lower; k >= lowest; --k)
    for (OpId op : by_level_[k])
      if (reaches(op, target)) return op;
  return {};
}

OpId LeveledGraph::chain_rule(OpId source, OpId target, std::int64_t lower, std::int64_t upper) const {
  std::vector<OpId> open{source}, next;                    // S₁ and S₂
  IdVector<OpId, bool> visited(graph_.op_count(), false);  // in either of them, or closed (S_c)
  visited[source] = true;
  while (!open.empty()) {
    if (upper == 0 || lower > upper) return {};
    for (OpId op : open) {
      for (OpId reader : readers(op)) {
        const bool backward = graph_.op(reader).phase == Phase::backward;
        if (lower <= 0 && backward && level(reader) > level(source) && level(reader) < level(target) && reaches(reader, target))
          return reader;
        if (graph_.op(reader).phase != Phase::forward || visited[reader]) continue;
        visited[reader] = true;
        next.push_back(reader);
      }
    }
    --lower;
    --upper;
    std::sort(next.begin(), next.end());
    open = std::move(next);
    next.clear();
  }
  return {};
}

}  // namespace outsize
