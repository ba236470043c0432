#pragma once

#include <span>
#include <utility>
#include <vector>

#include "plan/remaking/load_tree.h"
#include "plan/remaking/problem.h"

namespace outsize {

// A sequence of runs that is changed run by run, and what it takes: seconds, and bytes during each run. It holds one base run of
// every op, in an order that is valid, and any further runs of ops that may run again. A read takes what the last run before it has
// made, so that every further run behind the base run of its op is valid, and every one can be taken out. A change costs time with
// the logarithm of the sequence's length.
//
// Changes come in moves: any number of insert(), erase() and reorder(), then settle(); the move is then undone or kept.
class RunSequence {
 public:
  // A run is a number: the base runs have the numbers of their ops.
  using Id = std::int32_t;
  static constexpr Id kNone = -1;

  // `sequence`: ops; the first time that one stands there is its base run.
  RunSequence(const RemakeProblem& problem, const std::vector<std::int32_t>& sequence);

  std::vector<std::int32_t> sequence() const;
  double seconds() const { return seconds_; }
  std::int64_t peak() const { return load_.most(); }
  // A run during which the peak is reached.
  Id at_peak() const { return run_at_[load_.fullest()]; }
  // The sum of the bytes above `limit` over all runs, or over so many of them.
  double excess(std::int64_t limit, int runs) const { return load_.excess(limit, runs); }

  // The further runs, in no order.
  const std::vector<Id>& further() const { return further_; }
  std::int32_t op_of(Id run) const { return runs_[run].op; }
  bool is_base(Id run) const { return run < problem_->ops.size(); }
  Id next(Id run) const { return runs_[run].next; }
  Id previous(Id run) const { return runs_[run].previous; }
  bool before(Id a, Id b) const { return runs_[a].place < runs_[b].place; }
  // The run that stands such a part of the places behind this one, from 0 to 1; kNone behind the last.
  Id behind(Id run, double part) const;
  // The last run before this one that makes or reads a value, or kNone.
  Id touched_before(std::int32_t value, Id run) const;
  // Whether what this run finds of a value is there for another run behind it too.
  bool read_behind(std::int32_t value, Id run) const;

  // Inserts a further run of an op right before a run; the op's base run must stand before that.
  Id insert(std::int32_t op, Id before_run);
  // Takes out a further run.
  void erase(Id run);
  // Moves a base run right before another run, where that is valid. Returns whether it is.
  bool reorder(Id run, Id before_run);
  // Ends a move: takes out further runs whose results nothing reads, and reckons anew what has changed.
  void settle();
  void keep() { log_.clear(); }
  void undo();

 private:
  struct Run {
    std::int32_t op = 0;
    std::int64_t place = 0;
    Id previous = kNone, next = kNone;
    std::uint32_t takes_over = 0;        // by output of the op: whether it takes the bytes of an input
    std::int32_t among_further = kNone;  // where it stands in further_
  };
  struct Stay {
    std::int64_t first = 0, last = 0;  // places
    auto operator<=>(const Stay&) const = default;
  };
  struct Change {
    enum class Kind : std::uint8_t { inserted, erased, moved } kind;
    Id run;
    std::int32_t op;
    Id before_run;  // where it stood
  };

  bool makes(Id run, std::int32_t value) const { return runs_[run].op == problem_->values[value].producer; }
  Id new_run(std::int32_t op);
  void place(Id run, Id before_run);
  void take_out(Id run);
  void spread();
  void spread_around(Id run);
  void attach(Id run);
  void detach(Id run);
  void insert_touch(std::int32_t value, Id run);
  void erase_touch(std::int32_t value, Id run);
  void mark(std::int32_t value);
  void drop_unread();
  void reckon_changed();
  bool unread(Id run) const;
  std::uint32_t takeovers(Id run) const;
  Id releasing(std::int32_t update) const;
  void stays_of(std::int32_t value, std::vector<Stay>& stays) const;
  void replace_stays(std::int32_t value);

  const RemakeProblem* problem_;
  std::vector<Run> runs_;  // by number; those that are taken out wait in unused_
  std::vector<Id> unused_;
  std::vector<Id> further_;
  std::vector<Id> run_at_;  // by place
  Id first_ = kNone, last_ = kNone;
  Table<std::vector<Id>> touched_by_;  // by value: the runs that make or read it, in their order
  Table<std::vector<Id>> runs_of_op_;  // by op, in their order
  Table<std::vector<Stay>> stays_;     // by value, as they are in load_
  Table<Id> releasing_;                // by update: the run behind which it may run; kNone: not known
  std::vector<std::int32_t> changed_;  // values since the last settle()
  std::vector<bool> is_changed_;
  std::vector<Id> maybe_unread_;
  std::vector<Change> log_;
  std::vector<Stay> reckoned_;
  std::vector<Id> crowd_;
  LoadTree load_;
  double seconds_ = 0;
};

}  // namespace outsize
