#pragma once

#include "base/table.h"
#include "plan/planner.h"

namespace outsize {

// A value that may be away during the runs between two of its uses.
struct Absence {
  std::int64_t bytes = 0;
  std::int32_t after = 0, before = 0;
};

// What AutoSwap chooses from.
struct AbsenceChoice {
  Table<double> seconds;     // of each run
  Table<std::int64_t> load;  // bytes on the device during each run, if nothing is away
  std::int64_t limit = 0;    // that the load may be
  Table<Absence> absences;
  double out_rate = 1, in_rate = 1;  // of the link, bytes a second
};

// The weights of AutoSwap's four priority scores (Zhang et al. 2019). Of an absence over runs of t_p seconds with load m_p:
//   DOA    duration of absence: Σ t_p less the time of its copies out and in
//   AOA    area of absence: DOA · bytes
//   WDOA   weighted duration of absence: Σ t_p · max(0, m_p − limit)
//   SWDOA  submodular WDOA: the same with the load that what is chosen already has left
// Each is divided by the largest magnitude that it has among all absences, so that weights compare.
struct ScoreWeights {
  double doa = 0, aoa = 0, wdoa = 0, swdoa = 0;
  bool operator==(const ScoreWeights&) const = default;
};

// The absences to choose, in their order: while the load is above the limit, of those that cover the run where it is highest, the
// one with the highest weighted score, or the first of several. Ends early where none covers it.
std::vector<std::int64_t> choose_absences(const AbsenceChoice& choice, const ScoreWeights& weights);

}  // namespace outsize
