#pragma once

#include <vector>

#include "plan/remaking/problem.h"

namespace outsize {

// What decides which value goes where room lacks: the least of
//   key · chain^cost_power / (bytes · distance^distance_power),
// where `chain` are the seconds of making the value again with all its ancestors that are not there, and `distance` is how far its
// next use is. What is never used again goes first.
struct EvictionRule {
  double cost_power = 1;
  double distance_power = 1;
  bool distance_in_seconds = false;  // else in ops
  Table<double> keys = {};           // by value; empty: 1
};

// What came of one walk over the ops.
struct Eviction {
  bool fits = false;
  std::vector<std::int32_t> sequence;  // as far as it came
  std::int32_t reached = 0;            // base ops that ran
  // Where it came to nothing: the values that, had they been there, would have spared the run that did not fit.
  std::vector<std::int32_t> blamed;
};

// Runs the ops of the problem in their order within `limit` bytes, with the next uses of all values known: where room lacks,
// results of forward go, and are made again when they are read next, all that lacks for it in the order of forward.
class Evictor {
 public:
  explicit Evictor(const RemakeProblem& problem);
  Eviction run(std::int64_t limit, const EvictionRule& rule);

 private:
  // A use that never comes.
  static constexpr std::int32_t kNever = 1 << 29;
  // No walk is longer than so many times the ops, nor tries to bring an op's inputs together more often than so.
  static constexpr std::int64_t kLongest = 6;
  static constexpr int kTries = 60;

  std::int32_t next_use(std::int32_t value);
  std::int32_t use_after(std::int32_t value) const;
  void find_needs();
  void pass_need_on(std::int32_t value);
  double chain(std::int32_t value, double most);
  double score(std::int32_t value, double least);
  void drop(std::int32_t value);
  bool make_room(std::int64_t wanted);
  void find_overwritten(std::int32_t op, bool base, std::int64_t& wanted);
  bool execute(std::int32_t op, bool base);
  bool bring_inputs(std::int32_t op);
  std::vector<std::int32_t> lacking_ops(std::int32_t op);
  void want_soon(std::int32_t value);
  void forget_wants();
  void end_behind(std::int32_t op);
  void blame(std::int32_t op, std::int32_t failed);
  bool lacks_input(std::int32_t op) const;

  const RemakeProblem& problem_;
  Table<std::vector<std::int32_t>> uses_;  // by value: the base ops that read it; one behind the last where it lasts
  Table<double> begins_;                   // by base op: the seconds of all before it
  double all_seconds_ = 0;

  // Of one walk.
  std::int64_t limit_ = 0, live_ = 0;
  const EvictionRule* rule_ = nullptr;
  std::int32_t now_ = 0;                    // the base op at hand
  Table<std::int32_t> use_at_;              // by value: how many of its uses are over
  Table<std::int8_t> there_, made_, held_;  // by value; held: an input of the op that runs
  Table<std::int32_t> wanted_soon_;         // by value: how many ops that are about to run read it
  std::vector<std::int32_t> wants_;         // those of wanted_soon_
  bool lost_wanted_ = false;
  Table<std::int32_t> need_;   // by value: the base op that needs it next, itself or to make another
  Table<std::int32_t> stamp_;  // by op
  std::int32_t stamped_ = 0;
  std::vector<std::int32_t> stack_, candidates_;
  std::vector<std::int32_t> overwritten_, may_be_overwritten_;
  Eviction result_;
};

}  // namespace outsize
