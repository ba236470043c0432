#pragma once

#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "program/packing/blocks.h"

namespace outsize {

// Searches for offsets below a given height: blocks are placed from the bottom up, each at the lowest place that those below it
// leave, and what cannot be completed is taken back. After MiniMalloc (Moffitt, "MiniMalloc: A Lightweight Memory Allocator for
// Hardware-Accelerated Machine Learning", ASPLOS 2023), whose canonical placements, bounds by section, decomposition in time and
// dominance these are; that restarts learn from what failed is after TelaMalloc (Maas et al., ASPLOS 2023).
class PackingSearch {
 public:
  PackingSearch(std::span<const Lifetime> blocks, const Instants& instants);

  // Whether the blocks are few enough: the search keeps a list of all pairs that share time.
  bool is_possible() const { return possible_; }

  // About the looks that placing all blocks takes, where hardly any is taken back.
  std::int64_t least_looks() const { return kLooksPerPair * std::ssize(neighbours_); }

  // Offsets of all blocks below `height`, or nothing where none are found with some `looks` at blocks and sections.
  std::optional<Offsets> find(std::int64_t height, std::int64_t looks);

  // The looks of all calls.
  std::int64_t looks() const { return looks_; }

 private:
  // A range of instants, found to be one: no other has more of the blocks that it has. A block spans `begin` to `end` - 1.
  struct Span {
    std::int32_t begin, end;
  };
  // What is undone when a block is taken back.
  struct Before {
    std::int32_t block;
    std::int64_t support, low;
  };
  struct FloorBefore {
    std::int32_t section;
    std::int64_t floor;
  };
  // Which of the blocks that could lie lowest is placed: the first by priority, or that which covers the section with the fewest
  // such blocks, with the least room left, or with the least product of both.
  enum class Rule : std::uint8_t { priority, fewest, tightest, both };
  // A part of `unplaced_`.
  struct Part {
    std::int64_t begin, end;
    std::int64_t size() const { return end - begin; }
  };
  enum class Answer : std::uint8_t { placed, impossible, gave_up };

  static constexpr std::int32_t kNone = -1;
  static constexpr std::int64_t kLooksPerPair = 60;

  void find_sections();
  void find_neighbours();
  void set_priorities(int round);
  Answer dive(std::int64_t height, std::int64_t nodes);

  Answer place_all(Part part);
  Answer place_connected(Part part);
  std::int32_t choose(Part part);
  std::int32_t cover_most_critical(std::int64_t lowest);
  bool has_wasted_room(Part part, std::int64_t lowest) const;
  bool place(std::int32_t block);
  void take_back(std::int32_t block);
  bool lift(std::int32_t block);
  void set(std::int32_t block, std::int64_t support, std::int64_t low);
  bool raise_floor(std::int32_t section, std::int64_t least);
  void undo(std::size_t changes, std::size_t floors);

  std::span<const std::int32_t> neighbours(std::int32_t block) const {
    return {neighbours_.data() + neighbours_begin_[block], neighbours_.data() + neighbours_begin_[block + 1]};
  }
  std::span<const std::int32_t> members(std::int32_t section) const {
    return {members_.data() + members_begin_[section], members_.data() + members_begin_[section + 1]};
  }

  std::span<const Lifetime> blocks_;
  const Instants& instants_;
  bool possible_ = false;

  // The problem. Blocks are numbered by the section that they begin in; `origin_` has their places in `blocks_`.
  std::int32_t n_ = 0;
  std::int32_t sections_ = 0;
  std::int32_t reach_ = 0;  // in sections
  Order origin_;
  Table<Span> spans_;
  Table<std::int64_t> bytes_;
  Table<std::int64_t> total_;                       // by section, the bytes of its blocks
  Table<std::int64_t> most_;                        // by block, the largest total of its sections
  std::vector<std::int32_t> neighbours_, members_;  // by block, those that share time with it; by section, its blocks
  Table<std::int64_t> neighbours_begin_, members_begin_;

  // The state. An unplaced block could lie at `support_`, on the blocks placed so far, but has to lie at `low_` or above; where
  // that is more, its place was tried, and it waits for another block to lie under it.
  std::int64_t height_ = 0;
  Table<std::int64_t> support_, low_, offset_;
  Table<char> placed_;
  Table<std::int64_t> rest_;   // by section, the bytes of its unplaced blocks
  Table<std::int64_t> floor_;  // by section, the least `low_` of its unplaced blocks
  std::vector<Before> changes_;
  std::vector<FloorBefore> floors_;
  std::vector<std::int32_t> unplaced_;  // lists of blocks, of the whole problem and of what is left of it behind each other

  Rule rule_ = Rule::priority;
  Table<std::int32_t> priority_;  // by block; the least first
  Table<double> failures_;        // by block, how often it was left over where a section had no more room
  std::mt19937_64 random_;

  std::int64_t looks_ = 0, most_looks_ = 0, nodes_ = 0, most_nodes_ = 0;
  std::vector<std::int32_t> candidates_, touched_;
  Table<std::int32_t> count_, seen_;
  std::int32_t stamp_ = 0;
};

}  // namespace outsize
