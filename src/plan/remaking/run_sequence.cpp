#include "plan/remaking/run_sequence.h"

#include <algorithm>

#include "outsize/error.h"

namespace outsize {

namespace {

// Places for each run: further runs go to those between.
constexpr std::int64_t kPlaces = 8;

}  // namespace

RunSequence::RunSequence(const RemakeProblem& problem, const std::vector<std::int32_t>& sequence)
    : problem_(&problem),
      runs_(static_cast<std::size_t>(problem.ops.size())),
      touched_by_(problem.values.size()),
      runs_of_op_(problem.ops.size()),
      stays_(problem.values.size()),
      releasing_(problem.updates.size(), kNone),
      is_changed_(static_cast<std::size_t>(problem.values.size()), false),
      seconds_(problem.update_seconds) {
  std::vector<bool> stood(runs_.size(), false);
  for (const std::int32_t op : sequence) {
    const Id run = stood[op] ? new_run(op) : op;
    stood[op] = true;
    runs_[run].op = op;
    runs_[run].previous = last_;
    (last_ == kNone ? first_ : runs_[last_].next) = run;
    last_ = run;
    runs_of_op_[op].push_back(run);
    for (const std::int32_t value : problem_->ops[op].inputs) touched_by_[value].push_back(run);
    for (const std::int32_t value : problem_->ops[op].outputs) touched_by_[value].push_back(run);
    seconds_ += problem_->ops[op].seconds;
  }
  spread();
  for (std::int32_t value = 0; value < problem_->values.size(); ++value) mark(value);
  for (const Id run : further_) maybe_unread_.push_back(run);
  settle();
  keep();
}

std::vector<std::int32_t> RunSequence::sequence() const {
  std::vector<std::int32_t> ops;
  for (Id run = first_; run != kNone; run = runs_[run].next) ops.push_back(runs_[run].op);
  return ops;
}

RunSequence::Id RunSequence::behind(Id run, double part) const {
  const std::int64_t at = runs_[run].place;
  auto place = at + 1 + static_cast<std::int64_t>(part * static_cast<double>(load_.places() - at - 1));
  while (place < load_.places() && run_at_[place] == kNone) ++place;
  return place < load_.places() ? run_at_[place] : kNone;
}

RunSequence::Id RunSequence::touched_before(std::int32_t value, Id run) const {
  const std::vector<Id>& touching = touched_by_[value];
  const auto at = std::ranges::lower_bound(touching, runs_[run].place, {}, [&](Id other) { return runs_[other].place; });
  return at == touching.begin() ? kNone : *(at - 1);
}

bool RunSequence::read_behind(std::int32_t value, Id run) const {
  const std::vector<Id>& touching = touched_by_[value];
  const auto at = std::ranges::upper_bound(touching, runs_[run].place, {}, [&](Id other) { return runs_[other].place; });
  return at == touching.end() ? problem_->values[value].lasts : !makes(*at, value);
}

RunSequence::Id RunSequence::insert(std::int32_t op, Id before_run) {
  const Id run = new_run(op);
  place(run, before_run);
  attach(run);
  log_.push_back({Change::Kind::inserted, run, op, kNone});
  return run;
}

void RunSequence::erase(Id run) {
  log_.push_back({Change::Kind::erased, run, runs_[run].op, runs_[run].next});
  detach(run);
  take_out(run);
}

bool RunSequence::reorder(Id run, Id before_run) {
  const RemakeProblem::Op& op = problem_->ops[runs_[run].op];
  if (run == before_run || runs_[run].next == before_run) return false;
  const std::int64_t at = runs_[before_run].place;
  for (const std::int32_t input : op.inputs)
    if (const std::int32_t producer = problem_->values[input].producer; producer >= 0 && runs_[producer].place >= at) return false;
  for (const std::int32_t output : op.outputs) {
    const std::vector<Id>& touching = touched_by_[output];
    if (touching.size() > 1 && runs_[touching[1]].place < at) return false;
  }
  log_.push_back({Change::Kind::moved, run, runs_[run].op, runs_[run].next});
  detach(run);
  take_out(run);
  place(run, before_run);
  attach(run);
  return true;
}

void RunSequence::settle() {
  drop_unread();
  reckon_changed();
}

void RunSequence::undo() {
  while (!log_.empty()) {
    const Change change = log_.back();
    log_.pop_back();
    if (change.kind != Change::Kind::erased) {
      detach(change.run);
      take_out(change.run);
    }
    if (change.kind == Change::Kind::inserted) continue;
    const Id run = change.kind == Change::Kind::erased ? new_run(change.op) : change.run;
    OUTSIZE_CHECK(run == change.run);
    place(run, change.before_run);
    attach(run);
  }
  maybe_unread_.clear();
  reckon_changed();
}

// A number for a further run of an op.
RunSequence::Id RunSequence::new_run(std::int32_t op) {
  Id run = static_cast<Id>(runs_.size());
  if (unused_.empty()) {
    runs_.emplace_back();
  } else {
    run = unused_.back();
    unused_.pop_back();
  }
  runs_[run] = {.op = op, .among_further = static_cast<std::int32_t>(further_.size())};
  further_.push_back(run);
  return run;
}

// Puts a run that is nowhere right before another, or at the end.
void RunSequence::place(Id run, Id before_run) {
  const Id previous = before_run == kNone ? last_ : runs_[before_run].previous;
  runs_[run].previous = previous;
  runs_[run].next = before_run;
  (previous == kNone ? first_ : runs_[previous].next) = run;
  (before_run == kNone ? last_ : runs_[before_run].previous) = run;
  const std::int64_t low = previous == kNone ? -1 : runs_[previous].place;
  const std::int64_t high = before_run == kNone ? load_.places() : runs_[before_run].place;
  if (high - low < 2) return spread_around(run);
  runs_[run].place = low + (high - low) / 2;
  run_at_[runs_[run].place] = run;
  load_.take(runs_[run].place, problem_->ops[runs_[run].op].workspace);
}

void RunSequence::take_out(Id run) {
  const Run& gone = runs_[run];
  load_.free(gone.place, problem_->ops[gone.op].workspace);
  run_at_[gone.place] = kNone;
  (gone.previous == kNone ? first_ : runs_[gone.previous].next) = gone.next;
  (gone.next == kNone ? last_ : runs_[gone.next].previous) = gone.previous;
  if (is_base(run)) return;
  further_[gone.among_further] = further_.back();
  runs_[further_.back()].among_further = gone.among_further;
  further_.pop_back();
  unused_.push_back(run);
}

// Gives all runs places with the same room between them, and puts the stays of all values there.
void RunSequence::spread() {
  std::int64_t count = 0;
  for (Id run = first_; run != kNone; run = runs_[run].next) ++count;
  load_.reset(count * kPlaces);
  load_.add(0, load_.places() - 1, problem_->persistent);
  run_at_.assign(static_cast<std::size_t>(load_.places()), kNone);
  std::int64_t k = 0;
  for (Id run = first_; run != kNone; run = runs_[run].next, ++k) {
    runs_[run].place = (2 * k + 1) * load_.places() / (2 * count);
    run_at_[runs_[run].place] = run;
    load_.take(runs_[run].place, problem_->ops[runs_[run].op].workspace);
  }
  for (std::int32_t value = 0; value < problem_->values.size(); ++value) {
    stays_of(value, stays_[value]);
    for (const Stay& stay : stays_[value]) load_.add(stay.first, stay.last, problem_->values[value].bytes);
  }
}

// Gives a run that has no place one, and the runs around it others, as few as there is room between.
void RunSequence::spread_around(Id run) {
  constexpr std::int64_t kRoom = 4;  // places for each of them
  crowd_.assign(1, run);
  Id left = runs_[run].previous, right = runs_[run].next;
  std::int64_t low = -1, high = load_.places();
  for (;;) {
    low = left == kNone ? -1 : runs_[left].place;
    high = right == kNone ? load_.places() : runs_[right].place;
    if (high - low > kRoom * (std::ssize(crowd_) + 1)) break;
    if (left == kNone && right == kNone) return spread();
    for (Id* next : {&left, &right}) {
      if (*next == kNone) continue;
      crowd_.push_back(*next);
      *next = next == &left ? runs_[*next].previous : runs_[*next].next;
    }
  }
  for (const Id other : crowd_) {
    if (other == run) continue;
    const Run& moved = runs_[other];
    load_.free(moved.place, problem_->ops[moved.op].workspace);
    run_at_[moved.place] = kNone;
  }
  const std::int64_t count = std::ssize(crowd_);
  std::int64_t k = 0;
  for (Id other = left == kNone ? first_ : runs_[left].next; other != right; other = runs_[other].next, ++k) {
    Run& moved = runs_[other];
    moved.place = low + 1 + (2 * k + 1) * (high - low - 1) / (2 * count);
    run_at_[moved.place] = other;
    const RemakeProblem::Op& op = problem_->ops[moved.op];
    load_.take(moved.place, op.workspace);
    for (const auto* values : {&op.inputs, &op.outputs})
      for (const std::int32_t value : *values) mark(value);
    for (const std::int32_t update : op.updates)
      if (releasing_[update] == other)
        for (const std::int32_t value : problem_->updates[update].reads) mark(value);
  }
}

// Makes a run that has a place known to the values that it touches.
void RunSequence::attach(Id run) {
  const std::int32_t op = runs_[run].op;
  seconds_ += problem_->ops[op].seconds;
  for (const std::int32_t value : problem_->ops[op].inputs) insert_touch(value, run);
  for (const std::int32_t value : problem_->ops[op].outputs) insert_touch(value, run);
  std::vector<Id>& of_op = runs_of_op_[op];
  of_op.insert(std::ranges::upper_bound(of_op, runs_[run].place, {}, [&](Id other) { return runs_[other].place; }), run);
  maybe_unread_.push_back(run);
  for (const std::int32_t update : problem_->ops[op].updates) {
    if (releasing_[update] == kNone || !before(releasing_[update], run)) continue;
    releasing_[update] = kNone;
    for (const std::int32_t value : problem_->updates[update].reads) mark(value);
  }
}

void RunSequence::detach(Id run) {
  const std::int32_t op = runs_[run].op;
  seconds_ -= problem_->ops[op].seconds;
  for (const std::int32_t value : problem_->ops[op].inputs) erase_touch(value, run);
  for (const std::int32_t value : problem_->ops[op].outputs) erase_touch(value, run);
  std::erase(runs_of_op_[op], run);
  runs_[run].takes_over = 0;
  for (const std::int32_t update : problem_->ops[op].updates) {
    if (releasing_[update] != run) continue;
    releasing_[update] = kNone;
    for (const std::int32_t value : problem_->updates[update].reads) mark(value);
  }
}

void RunSequence::insert_touch(std::int32_t value, Id run) {
  std::vector<Id>& touching = touched_by_[value];
  const auto at = std::ranges::upper_bound(touching, runs_[run].place, {}, [&](Id other) { return runs_[other].place; });
  // What the maker before this one made may have no reader left.
  if (makes(run, value))
    for (auto before = at; before != touching.begin(); --before)
      if (makes(*(before - 1), value)) {
        maybe_unread_.push_back(*(before - 1));
        break;
      }
  touching.insert(at, run);
  mark(value);
}

void RunSequence::erase_touch(std::int32_t value, Id run) {
  std::vector<Id>& touching = touched_by_[value];
  auto at = std::ranges::find(touching, run);
  if (!makes(run, value))
    for (auto before = at; before != touching.begin(); --before)
      if (makes(*(before - 1), value)) {
        maybe_unread_.push_back(*(before - 1));
        break;
      }
  touching.erase(at);
  mark(value);
}

void RunSequence::mark(std::int32_t value) {
  if (is_changed_[value]) return;
  is_changed_[value] = true;
  changed_.push_back(value);
}

void RunSequence::drop_unread() {
  while (!maybe_unread_.empty()) {
    const Id run = maybe_unread_.back();
    maybe_unread_.pop_back();
    const bool is_further =
        !is_base(run) && runs_[run].among_further < std::ssize(further_) && further_[runs_[run].among_further] == run;
    if (is_further && unread(run)) erase(run);
  }
}

bool RunSequence::unread(Id run) const {
  return std::ranges::none_of(problem_->ops[runs_[run].op].outputs, [&](std::int32_t output) { return read_behind(output, run); });
}

void RunSequence::reckon_changed() {
  const std::size_t touched = changed_.size();
  for (std::size_t k = 0; k < touched; ++k)
    for (const Id run : touched_by_[changed_[k]]) {
      const RemakeProblem::Op& op = problem_->ops[runs_[run].op];
      if (op.overwrites.empty() || makes(run, changed_[k])) continue;
      const std::uint32_t now = takeovers(run);
      if (now == runs_[run].takes_over) continue;
      runs_[run].takes_over = now;
      for (const std::int32_t output : op.outputs) mark(output);
    }
  for (const std::int32_t value : changed_) {
    for (const std::int32_t update : problem_->values[value].updates)
      if (releasing_[update] == kNone) releasing_[update] = releasing(update);
    replace_stays(value);
    is_changed_[value] = false;
  }
  changed_.clear();
}

// Which outputs of a run take over the bytes of an input: one that ends with it.
std::uint32_t RunSequence::takeovers(Id run) const {
  const RemakeProblem::Op& op = problem_->ops[runs_[run].op];
  const auto ends_here = [&](std::int32_t value) {
    const std::vector<Id>& touching = touched_by_[value];
    const auto at = std::ranges::upper_bound(touching, runs_[run].place, {}, [&](Id other) { return runs_[other].place; });
    const RemakeProblem::Value& of = problem_->values[value];
    if (!of.updates.empty()) return false;
    return at == touching.end() ? !of.lasts : makes(*at, value);
  };
  std::uint32_t taking = 0;
  for (std::size_t k = 0; k < op.overwrites.size(); ++k) {
    const RemakeProblem::Overwrite& pair = op.overwrites[k];
    const auto output = std::ranges::find(op.outputs, pair.output) - op.outputs.begin();
    const bool given = std::any_of(op.overwrites.begin(), op.overwrites.begin() + static_cast<std::ptrdiff_t>(k),
                                   [&](const RemakeProblem::Overwrite& before) {
                                     const auto to = std::ranges::find(op.outputs, before.output) - op.outputs.begin();
                                     return before.input == pair.input && (taking >> to & 1) != 0;
                                   });
    if (output < 32 && (taking >> output & 1) == 0 && !given && ends_here(pair.input)) taking |= 1U << output;
  }
  return taking;
}

// The run behind which an update may run; kNone: it waits for none.
RunSequence::Id RunSequence::releasing(std::int32_t index) const {
  const RemakeProblem::Update& update = problem_->updates[index];
  Id last = kNone;
  const auto wait_for = [&](Id run) {
    if (last == kNone || before(last, run)) last = run;
  };
  for (const std::int32_t op : update.after_first) wait_for(op);
  for (const std::int32_t op : update.after_all)
    if (!runs_of_op_[op].empty()) wait_for(runs_of_op_[op].back());
  return last;
}

void RunSequence::stays_of(std::int32_t index, std::vector<Stay>& stays) const {
  const RemakeProblem::Value& value = problem_->values[index];
  stays.clear();
  if (value.producer < 0) stays.push_back({0, 0});
  for (const Id run : touched_by_[index]) {
    const Run& touching = runs_[run];
    if (makes(run, index)) {
      const auto& outputs = problem_->ops[touching.op].outputs;
      const auto output = std::ranges::find(outputs, index) - outputs.begin();
      const bool takes_over = output < 32 && (touching.takes_over >> output & 1) != 0;
      stays.push_back({touching.place + takes_over, touching.place});

    } else if (!stays.empty()) {
      stays.back().last = touching.place;
    }
  }
  if (stays.empty()) return;
  if (value.lasts) stays.back().last = load_.places() - 1;
  for (const std::int32_t update : value.updates) {
    const Id run = releasing_[update] == kNone ? releasing(update) : releasing_[update];
    const std::int64_t until = run == kNone ? 0 : runs_[run].place;
    for (std::size_t k = stays.size(); k-- > 0;)
      if (stays[k].first <= until || k == 0) {
        stays[k].last = std::max(stays[k].last, until);
        break;
      }
  }
  std::erase_if(stays, [](const Stay& stay) { return stay.first > stay.last; });
}

void RunSequence::replace_stays(std::int32_t value) {
  stays_of(value, reckoned_);
  std::vector<Stay>& old = stays_[value];
  const std::int64_t bytes = problem_->values[value].bytes;
  std::size_t same = 0, same_end = 0;
  while (same < old.size() && same < reckoned_.size() && old[same] == reckoned_[same]) ++same;
  const auto left = [&](const std::vector<Stay>& stays) { return stays.size() - same; };
  while (same_end < left(old) && same_end < left(reckoned_) &&
         old[old.size() - 1 - same_end] == reckoned_[reckoned_.size() - 1 - same_end])
    ++same_end;
  if (left(old) - same_end == 1 && left(reckoned_) - same_end == 1 && old[same].first == reckoned_[same].first) {
    const std::int64_t was = old[same].last, is = reckoned_[same].last;
    if (is > was)
      load_.add(was + 1, is, bytes);
    else
      load_.add(is + 1, was, -bytes);
  } else {
    for (std::size_t k = same; k + same_end < old.size(); ++k) load_.add(old[k].first, old[k].last, -bytes);
    for (std::size_t k = same; k + same_end < reckoned_.size(); ++k) load_.add(reckoned_[k].first, reckoned_[k].last, bytes);
  }
  old = reckoned_;
}

}  // namespace outsize
