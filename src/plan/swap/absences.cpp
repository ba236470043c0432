#include "plan/swap/absences.h"

#include <algorithm>
#include <array>
#include <queue>

#include "plan/swap/visits.h"

namespace outsize {

namespace {

// Copies of less than this share of the limit are not worth their launch while there are larger ones.
constexpr std::int64_t kSmallParts = 4096;
constexpr std::int64_t kNever = -1;

// Between two uses of a value.
struct Gap {
  std::int32_t after = 0, before = 0;  // runs that use it
  std::int64_t bytes = 0;
  std::int32_t life = kNever;  // index into Lives::all, or
  ValueId value;               // a persistent value that lives in a lower tier

  bool operator<(const Gap& other) const { return before < other.before; }
};

}  // namespace

Absences choose_absences(const PlanRequest& request, const Lives& lives, SpillChoice& choice, std::int64_t limit) {
  choice.near = 1;
  const Table<Visit> visits = visits_of(request, choice);
  const Table<std::int64_t> load = tightest_bytes(request, lives, choice, visits);
  const auto runs = static_cast<std::int32_t>(load.size());
  Table<std::vector<Gap>> begins(runs + 1);  // by their first run
  Absences made;
  if (request.has_lower_tier())
    for (std::int32_t k = 0; k < lives.all.size(); ++k) {
      const Life& life = lives.all[k];
      std::int32_t after = life.made;
      if (after < 0) continue;
      for (const std::int32_t use : life.uses) {
        if (use - after >= 2) begins[after + 1].push_back({after, use, life.bytes, k, {}});
        after = use;
      }
    }
  Table<std::int64_t> change(runs + 1, 0);
  IdVector<ValueId, std::int32_t> seen(request.graph.value_count(), kNever);  // the last run of the visit before
  for (const Visit& visit : visits) {
    const std::int32_t before = seen[visit.value];
    seen[visit.value] = visit.last;
    made.in_bytes += visit.bytes;
    if (visit.next) made.out_bytes += visit.bytes;
    if (before == kNever) continue;
    begins[before + 1].push_back({before, visit.first, visit.bytes, kNever, visit.value});
    choice.stays.insert({visit.value, visit.first});
    made.in_bytes -= visit.bytes;
    change[before + 1] += visit.bytes;
    change[visit.first] -= visit.bytes;
  }

  const std::int64_t small = limit / kSmallParts;
  std::array<std::priority_queue<Gap>, 2> waiting;  // large ones, small ones
  std::int64_t sum = 0;
  Table<bool> copied(lives.all.size(), false);
  for (std::int32_t p = 0; p < runs; ++p) {
    for (Gap& gap : begins[p]) waiting[gap.bytes < small ? 1 : 0].push(gap);
    sum += change[p];
    for (std::priority_queue<Gap>& gaps : waiting)
      while (load[p] + sum > limit && !gaps.empty()) {
        const Gap gap = gaps.top();
        gaps.pop();
        if (gap.before <= p) continue;
        sum -= gap.bytes;
        change[gap.before] += gap.bytes;
        made.in_bytes += gap.bytes;
        if (gap.life == kNever) {
          choice.stays.erase({gap.value, gap.before});
          continue;
        }
        choice.swaps.push_back({gap.life, gap.after, gap.before, Tier::host});
        if (!copied[gap.life]) made.out_bytes += gap.bytes;
        copied[gap.life] = true;
      }
    if (load[p] + sum > made.needed) made.needed = load[p] + sum, made.at = p;
  }
  // What leaves does so in the order it is made.
  std::ranges::sort(choice.swaps,
                    [](const Swap& a, const Swap& b) { return std::pair(a.life, a.after) < std::pair(b.life, b.after); });
  return made;
}

}  // namespace outsize
