#pragma once

#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <vector>

#include "base/id_vector.h"
#include "graph/graph.h"
#include "program/check_order.h"

namespace outsize {

// An operand. Its boxes move with the iteration of the moment it is taken in, and outlive the check.
struct Access {
  PieceId piece;
  const MovingBox* holds = nullptr;
  const MovingBox* box = nullptr;
};

// Two boxes are the same in an iteration.
inline bool same(const MovingBox& a, const MovingBox& b, std::int64_t iteration) {
  return &a == &b || a.at(iteration) == b.at(iteration);
}

// A part of a piece and the access it had.
struct Part {
  Box box;
  PieceId piece;  // that was written, or read: of those that hold parts of the same bytes, one
  ValueId value;  // what was written; none for reads
  Lane lane = Lane::compute;
  std::int64_t ordinal = 0;
};

// Disjoint (writes) or any (reads) parts of one piece, found by one dimension in which they are short beside the whole.
class Parts {
 public:
  void clear();
  // `whole` contains all parts until clear().
  void add(const Part& part, const Box& whole);
  // Calls `visit` with every part that meets `box`.
  template <class Visit>
  void each(const Box& box, Visit visit) const;
  // Cuts `box` out of every part that meets it and that `select` agrees to.
  template <class Select>
  void take(const Box& box, const Box& whole, Select select);

 private:
  static constexpr std::size_t kFew = 16;  // as many long parts as are searched one by one
  void reach_further();

  int dim_ = -1;                             // the searched dimension; -1: not chosen yet
  std::int64_t reach_ = 0;                   // the longest extent in `short_`
  std::multimap<std::int64_t, Part> short_;  // by lo[dim_]
  std::vector<Part> long_;
  std::vector<Part> remains_;  // scratch of take()
};

// What every byte of every arena holds while a program runs: who wrote it last, as which part of which value, and who has read it
// since. Accesses come in issue order, each with what happens before it; the first one that nothing orders, or that reads what was
// not written or was overwritten, throws InternalError.
class Contents {
 public:
  Contents(const Graph& graph, const Program& program);

  // Pieces that take over others part by part share one content with them. To be told first, of a program whose pieces are there
  // and whose shares do not run in circles.
  void join_pieces();
  // What is there before the step starts: the whole of `value` in `piece`.
  void place(ValueId value, PieceId piece);
  // Checks a read and returns the value that was written there. Does not record it: an instruction's reads are recorded after its
  // writes, so that it may overwrite what it reads.
  ValueId read(const Moment& moment, const Access& access) const;
  void record_read(const Moment& moment, const Access& access);
  void write(const Moment& moment, const Access& access, ValueId value);
  // Scratch: written and read by this instruction alone.
  void scratch(const Moment& moment, PieceId piece);
  // The whole of `value`, or of its newest version, is in `piece` at the end of the step.
  void expect_at_end(ValueId value, PieceId piece) const;

  // "instruction 12 (kernel conv1, compute lane, iteration 3)"
  std::string describe(const Moment& moment) const;
  std::string describe(std::int32_t instruction, std::int64_t iteration) const;

 private:
  // The parts of a piece's content that were written or read apart from the rest.
  struct InParts {
    Parts written;
    Parts read;
    // The accesses that every write of a part follows: those to the whole, and those to these bytes before this content began.
    Ordinals whole{};
  };
  // A piece's content. Most are written and read whole; only the others pay for parts.
  struct Store {
    const MovingBox* holds = nullptr;  // none: scratch, or the whole of the value that was placed here
    std::int64_t iteration = 0;        // of `holds`
    bool owns = false;                 // its bytes are its own: no other piece has been written there since
    bool complete = false;             // written whole by one instruction: `piece`, `value` and `written` say which
    Lane lane = Lane::compute;
    PieceId piece;
    ValueId value;
    PieceId destroyed_by;
    std::int64_t written = 0;
    Ordinals accesses{};  // the latest of each lane, ever
    std::unique_ptr<InParts> parts;
  };
  struct Range {
    std::int64_t end;
    PieceId piece;
  };

  // The piece whose content an access of this one takes.
  PieceId content_of(PieceId id) const { return contents_of_[id]; }
  Store& store(PieceId id) { return stores_[content_of(id)]; }
  const Store& store(PieceId id) const { return stores_[content_of(id)]; }
  std::string label(PieceId id) const { return label_of(graph_, program_.piece(id)); }
  Box held_box(PieceId piece) const;
  bool holds(PieceId piece, const MovingBox& box, std::int64_t iteration) const;
  bool took_over(PieceId piece, PieceId other) const;
  // What a piece has in parts, which it has from now on if it had nothing.
  static InParts& parts_of(Store& store);
  // Both return a piece whose content this has destroyed, or none.
  PieceId begin(const Moment& moment, PieceId piece, const MovingBox* holds, bool in_parts);
  PieceId claim(const Moment& moment, PieceId piece, Ordinals& earlier);
  void write_part(const Moment& moment, const Access& access, ValueId value);
  void expect_order(const Moment& moment, const Ordinals& accesses, const char* what, PieceId mine, PieceId theirs) const;
  void expect_order(const Moment& moment, const Part& part, const char* what, PieceId mine) const;
  [[noreturn]] void fail_order(const Moment& moment, Lane lane, std::int64_t ordinal, const char* what, PieceId mine,
                               PieceId theirs) const;

  const Graph& graph_;
  const Program& program_;
  IdVector<PieceId, PieceId> contents_of_;  // itself, or the one that it takes over part by part
  IdVector<PieceId, Store> stores_;
  std::pmr::unsynchronized_pool_resource memory_;
  using Owners = std::pmr::map<std::int64_t, Range>;  // whose content lies where, by begin
  ByTier<Owners> owners_{Owners(&memory_), Owners(&memory_), Owners(&memory_)};
};

}  // namespace outsize
