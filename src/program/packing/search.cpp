#include "program/packing/search.h"

#include <limits>

namespace outsize {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
// The lists of neighbours and of sections take at most so many entries, of four bytes each.
constexpr std::int64_t kMostEntries = 4'000'000;
// A dive goes as deep as there are blocks.
constexpr std::int64_t kMostBlocks = 6000;
// The nodes of the shortest dives, at least and for each block.
constexpr std::int64_t kNodes = 1000;
constexpr std::int64_t kNodesPerBlock = 2;
// Where a block is placed, floors are brought up to date in some sections before and after it: in so many over their number.
// Beyond, they may stay too low, which only refutes less.
constexpr std::int32_t kReach = 150'000;

// 1, 1, 2, 1, 1, 2, 4, 1, …: a series of restarts that is never much longer than the best (Luby, Sinclair and Zuckerman, 1993).
std::int64_t luby(std::int64_t k) {
  std::int64_t size = 1;
  while (size < k + 1) size = 2 * size + 1;
  while (size - 1 != k) {
    size = (size - 1) / 2;
    k %= size;
  }
  return (size + 1) / 2;
}

}  // namespace

PackingSearch::PackingSearch(std::span<const Lifetime> blocks, const Instants& instants) : blocks_(blocks), instants_(instants) {
  if (std::ssize(blocks) > kMostBlocks) return;
  n_ = static_cast<std::int32_t>(blocks.size());
  find_sections();
  reach_ = kReach / std::max(1, sections_);
  find_neighbours();
  if (!possible_) return;
  most_.assign(n_, 0);
  for (std::int32_t i = 0; i < n_; ++i)
    for (std::int32_t s = spans_[i].begin; s < spans_[i].end; ++s) most_[i] = std::max(most_[i], total_[s]);
  failures_.assign(n_, 0);
  count_.assign(sections_, 0);
  seen_.assign(sections_, 0);
}

// A section ends where a block ends, if one began in it: every set of blocks that live together is within one of a section.
void PackingSearch::find_sections() {
  Table<char> begins(instants_.count, 0), ends(instants_.count, 0);
  for (std::int32_t i = 0; i < n_; ++i) {
    begins[instants_.first[i]] = 1;
    ends[instants_.last[i]] = 1;
  }
  Table<std::int32_t> at(instants_.count), after(instants_.count);
  bool began = false;
  for (std::int32_t t = 0; t < instants_.count; ++t) {
    at[t] = sections_;
    began = began || begins[t];
    if (ends[t] && std::exchange(began, false)) ++sections_;
    after[t] = sections_;
  }
  origin_ = sorted_by(n_, [&](std::int64_t i) { return at[instants_.first[i]]; });
  for (const std::int32_t i : origin_) {
    spans_.push_back({at[instants_.first[i]], after[instants_.last[i]]});
    bytes_.push_back(blocks_[i].bytes);
  }
  total_.assign(sections_, 0);
  for (std::int32_t i = 0; i < n_; ++i)
    for (std::int32_t s = spans_[i].begin; s < spans_[i].end; ++s) total_[s] += bytes_[i];
}

void PackingSearch::find_neighbours() {
  std::int64_t entries = 0;
  members_begin_.assign(sections_ + 1, 0);
  neighbours_begin_.assign(n_ + 1, 0);
  // Those that begin no later than a block, and live when it does: it is their neighbour, and they are its.
  std::vector<std::int32_t> live;
  const auto each_pair = [&](auto what) {
    live.clear();
    for (std::int32_t i = 0; i < n_; ++i) {
      std::erase_if(live, [&](std::int32_t j) { return spans_[j].end <= spans_[i].begin; });
      if ((entries += std::ssize(live)) > kMostEntries) return false;
      for (const std::int32_t j : live) what(i, j);
      live.push_back(i);
    }
    return true;
  };
  for (std::int32_t i = 0; i < n_; ++i) entries += spans_[i].end - spans_[i].begin;
  const auto count = [&](std::int32_t i, std::int32_t j) {
    ++neighbours_begin_[i + 1];
    ++neighbours_begin_[j + 1];
  };
  if (entries > kMostEntries || !each_pair(count)) return;
  std::partial_sum(neighbours_begin_.begin(), neighbours_begin_.end(), neighbours_begin_.begin());
  neighbours_.resize(static_cast<std::size_t>(neighbours_begin_.back()));
  Table<std::int64_t> next = neighbours_begin_;
  entries = 0;
  each_pair([&](std::int32_t i, std::int32_t j) {
    neighbours_[static_cast<std::size_t>(next[i]++)] = j;
    neighbours_[static_cast<std::size_t>(next[j]++)] = i;
  });

  for (std::int32_t i = 0; i < n_; ++i)
    for (std::int32_t s = spans_[i].begin; s < spans_[i].end; ++s) ++members_begin_[s + 1];
  std::partial_sum(members_begin_.begin(), members_begin_.end(), members_begin_.begin());
  members_.resize(static_cast<std::size_t>(members_begin_.back()));
  next = members_begin_;
  for (std::int32_t i = 0; i < n_; ++i)
    for (std::int32_t s = spans_[i].begin; s < spans_[i].end; ++s) members_[static_cast<std::size_t>(next[s]++)] = i;
  possible_ = true;
}

std::optional<Offsets> PackingSearch::find(std::int64_t height, std::int64_t looks) {
  if (!possible_ || std::ranges::any_of(total_, [&](std::int64_t bytes) { return bytes > height; })) return std::nullopt;
  const std::int64_t shortest = std::max(kNodes, kNodesPerBlock * n_);
  most_looks_ = looks_ + looks;
  random_.seed(static_cast<std::uint64_t>(n_));  // the same answer every time
  failures_.assign(n_, 0);
  for (int round = 0; looks_ < most_looks_; ++round) {
    set_priorities(round);
    const Answer answer = dive(height, luby(round) * shortest);
    if (answer == Answer::impossible) return std::nullopt;
    if (answer == Answer::gave_up) continue;
    Offsets offsets(n_);
    for (std::int32_t i = 0; i < n_; ++i) offsets[origin_[i]] = offset_[i];
    return offsets;
  }
  return std::nullopt;
}

// What suits one network does not suit another: each round has an order and a rule of its own, and, every other one, goes by what
// failed before.
void PackingSearch::set_priorities(int round) {
  constexpr Rule kRules[] = {Rule::priority, Rule::fewest, Rule::tightest, Rule::both};
  constexpr int kOrders = 5;
  rule_ = kRules[(round / kOrders + round) % std::ssize(kRules)];
  const bool learned = round % 2 == 1;
  const double most_failures = std::max(1e-9, *std::max_element(failures_.begin(), failures_.end()));
  const double largest = static_cast<double>(*std::max_element(most_.begin(), most_.end()));
  Table<double> urgency(n_);
  for (std::int32_t i = 0; i < n_; ++i) {
    const double bytes = static_cast<double>(bytes_[i]);
    const double sections = spans_[i].end - spans_[i].begin;
    const double duration = static_cast<double>(blocks_[origin_[i]].last - blocks_[origin_[i]].first + 1);
    double contention = static_cast<double>(most_[i]) / largest;
    for (int squares = 0; squares < 3; ++squares) contention *= contention;
    switch (round % kOrders) {
      case 0: urgency[i] = sections; break;
      case 1: urgency[i] = contention * bytes * duration; break;
      case 2: urgency[i] = contention * sections; break;
      case 3: urgency[i] = bytes * duration; break;
      case 4: urgency[i] = bytes; break;
    }
    constexpr double kNoise = 0.7;
    const double random = static_cast<double>(random_() >> 11) * 0x1p-53;
    if (round >= kOrders) urgency[i] *= 1 + kNoise * (2 * random - 1);
    if (learned) urgency[i] *= 0.001 + failures_[i] / most_failures;
    failures_[i] *= 0.9 / most_failures;
  }
  const Order order = sorted_by(n_, [&](std::int64_t i) { return -urgency[i]; });
  priority_.resize(n_);
  for (std::int32_t k = 0; k < n_; ++k) priority_[order[k]] = k;
}

PackingSearch::Answer PackingSearch::dive(std::int64_t height, std::int64_t nodes) {
  height_ = height;
  support_.assign(n_, 0);
  low_.assign(n_, 0);
  offset_.assign(n_, 0);
  placed_.assign(n_, 0);
  rest_ = total_;
  floor_.assign(sections_, 0);
  changes_.clear();
  floors_.clear();
  nodes_ = 0;
  most_nodes_ = nodes;
  unplaced_.resize(static_cast<std::size_t>(n_));
  std::iota(unplaced_.begin(), unplaced_.end(), 0);
  return place_all({0, n_});
}

// Places the blocks of a list, by parts that share no time: where one of them fails, the others need no second look. The smallest
// goes first.
PackingSearch::Answer PackingSearch::place_all(Part part) {
  std::vector<Part> parts;
  std::int32_t end = -1;
  for (std::int64_t k = part.begin; k < part.end; ++k) {
    const Span span = spans_[unplaced_[static_cast<std::size_t>(k)]];
    if (span.begin >= end) parts.push_back({k, k});
    parts.back().end = k + 1;
    end = std::max(end, span.end);
  }
  if (parts.size() == 1) return place_connected(parts[0]);
  std::ranges::stable_sort(parts, {}, &Part::size);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const Answer answer = place_connected(parts[k]);
    if (answer == Answer::placed) continue;
    for (std::size_t done = 0; done < k; ++done)
      for (std::int64_t b = parts[done].begin; b < parts[done].end; ++b) take_back(unplaced_[static_cast<std::size_t>(b)]);
    return answer;
  }
  return Answer::placed;
}

// Places a block at the lowest place that any has, and then all others; where that fails, the block has to lie higher, on a block
// that is not placed yet, and another is tried.
PackingSearch::Answer PackingSearch::place_connected(Part part) {
  const std::size_t changes = changes_.size(), floors = floors_.size();
  const auto fails = [&](Answer answer) {
    undo(changes, floors);
    return answer;
  };
  for (;;) {
    if (++nodes_ > most_nodes_ || looks_ > most_looks_) return fails(Answer::gave_up);
    const std::int32_t block = choose(part);
    if (block == kNone || has_wasted_room(part, support_[block])) return fails(Answer::impossible);
    const std::size_t changes_before = changes_.size(), floors_before = floors_.size();
    Answer answer = Answer::impossible;
    if (place(block)) {
      const std::int64_t rest = std::ssize(unplaced_);
      for (std::int64_t k = part.begin; k < part.end; ++k)
        if (const std::int32_t other = unplaced_[static_cast<std::size_t>(k)]; other != block) unplaced_.push_back(other);
      answer = rest == std::ssize(unplaced_) ? Answer::placed : place_all({rest, std::ssize(unplaced_)});
      unplaced_.resize(static_cast<std::size_t>(rest));
      if (answer == Answer::placed) return answer;
    }
    take_back(block);
    undo(changes_before, floors_before);
    if (answer == Answer::gave_up || !lift(block)) return fails(answer);
  }
}

// The next block of a list to be placed, or none.
std::int32_t PackingSearch::choose(Part part) {
  std::int64_t lowest = kUnlimited;
  candidates_.clear();
  for (std::int64_t k = part.begin; k < part.end; ++k) {
    const std::int32_t i = unplaced_[static_cast<std::size_t>(k)];
    if (low_[i] != support_[i] || support_[i] > lowest) continue;
    if (support_[i] < lowest) candidates_.clear();
    lowest = support_[i];
    candidates_.push_back(i);
  }
  looks_ += part.size();
  if (candidates_.size() <= 1) return candidates_.empty() ? kNone : candidates_[0];
  const std::int32_t section = rule_ == Rule::priority ? kNone : cover_most_critical(lowest);
  std::int32_t best = kNone;
  for (const std::int32_t i : candidates_) {
    if (section != kNone && (section < spans_[i].begin || section >= spans_[i].end)) continue;
    if (best == kNone || priority_[i] < priority_[best]) best = i;
  }
  return best;
}

// Of the sections that the candidates could cover, that which the rule puts first.
std::int32_t PackingSearch::cover_most_critical(std::int64_t lowest) {
  ++stamp_;
  touched_.clear();
  for (const std::int32_t i : candidates_)
    for (std::int32_t s = spans_[i].begin; s < spans_[i].end; ++s) {
      if (std::exchange(seen_[s], stamp_) != stamp_) {
        count_[s] = 0;
        touched_.push_back(s);
      }
      ++count_[s];
    }
  looks_ += std::ssize(touched_);
  std::int32_t best = kNone;
  std::pair<double, std::int32_t> least;
  for (const std::int32_t s : touched_) {
    const auto room = static_cast<double>(height_ - lowest - rest_[s]);
    const double measure = rule_ == Rule::fewest ? count_[s] : rule_ == Rule::tightest ? room : room * count_[s];
    const std::pair<double, std::int32_t> value{measure, count_[s]};
    if (best != kNone && value >= least) continue;
    best = s;
    least = value;
  }
  return best;
}

// Whether a block that was to lie higher would still find its old place free: then the search has been here.
bool PackingSearch::has_wasted_room(Part part, std::int64_t lowest) const {
  for (std::int64_t k = part.begin; k < part.end; ++k) {
    const std::int32_t i = unplaced_[static_cast<std::size_t>(k)];
    if (low_[i] != support_[i] && support_[i] + bytes_[i] <= lowest) return true;
  }
  return false;
}

// Places a block where it is supported. False where a section has no room left for its other blocks.
bool PackingSearch::place(std::int32_t block) {
  placed_[block] = 1;
  offset_[block] = support_[block];
  const std::int64_t top = support_[block] + bytes_[block];
  const auto span = spans_[block];
  for (std::int32_t s = span.begin; s < span.end; ++s) rest_[s] -= bytes_[block];
  const std::size_t before = changes_.size();
  for (const std::int32_t other : neighbours(block))
    if (!placed_[other] && support_[other] < top) set(other, top, std::max(top, low_[other]));
  looks_ += std::ssize(neighbours(block));

  ++stamp_;
  for (std::int32_t s = span.begin; s < span.end; ++s) {
    seen_[s] = stamp_;
    if (!raise_floor(s, top)) return false;  // all blocks of the section are neighbours
  }
  for (std::size_t k = before; k < changes_.size(); ++k) {
    const Before& change = changes_[k];
    if (low_[change.block] == change.low) continue;
    const Span other{std::max(spans_[change.block].begin, span.begin - reach_),
                     std::min(spans_[change.block].end, span.end + reach_)};
    for (std::int32_t s = other.begin; s < other.end; ++s)
      if (floor_[s] == change.low && std::exchange(seen_[s], stamp_) != stamp_ && !raise_floor(s, change.low)) return false;
    looks_ += other.end - other.begin;
  }
  return true;
}

void PackingSearch::take_back(std::int32_t block) {
  placed_[block] = 0;
  for (std::int32_t s = spans_[block].begin; s < spans_[block].end; ++s) rest_[s] += bytes_[block];
}

// A block has to lie on one of its unplaced neighbours. False where none can lie under it, so that its place would stay empty, or a
// section has no room for that.
bool PackingSearch::lift(std::int32_t block) {
  const std::int64_t here = support_[block];
  std::int64_t lowest = kUnlimited, low = kUnlimited;
  for (const std::int32_t other : neighbours(block)) {
    if (placed_[other]) continue;
    const std::int64_t at = std::max(low_[other], here);
    lowest = std::min(lowest, at);
    low = std::min(low, at + bytes_[other]);
  }
  looks_ += std::ssize(neighbours(block));
  if (lowest == kUnlimited || lowest >= here + bytes_[block]) return false;
  set(block, here, low);
  for (std::int32_t s = spans_[block].begin; s < spans_[block].end; ++s)
    if (!raise_floor(s, floor_[s])) return false;
  return true;
}

void PackingSearch::set(std::int32_t block, std::int64_t support, std::int64_t low) {
  changes_.push_back({block, support_[block], low_[block]});
  support_[block] = support;
  low_[block] = low;
}

// Brings a section's floor up to date, which is known to be at `least` or above. False where its unplaced blocks do not fit above
// it.
bool PackingSearch::raise_floor(std::int32_t section, std::int64_t least) {
  if (rest_[section] == 0) return true;
  std::int64_t floor = kUnlimited;
  for (const std::int32_t i : members(section)) {
    ++looks_;
    if (!placed_[i]) floor = std::min(floor, low_[i]);
    if (floor == least) break;
  }
  if (floor != floor_[section]) {
    floors_.push_back({section, floor_[section]});
    floor_[section] = floor;
  }
  if (floor + rest_[section] <= height_) return true;
  for (const std::int32_t i : members(section))
    if (!placed_[i]) ++failures_[i];
  return false;
}

void PackingSearch::undo(std::size_t changes, std::size_t floors) {
  for (; changes_.size() > changes; changes_.pop_back()) {
    const Before& change = changes_.back();
    support_[change.block] = change.support;
    low_[change.block] = change.low;
  }
  for (; floors_.size() > floors; floors_.pop_back()) floor_[floors_.back().section] = floors_.back().floor;
}

}  // namespace outsize
