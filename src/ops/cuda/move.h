#pragma once

#include <array>

#include "ops/cuda/support.h"

// The move family: a box copied from one dense piece to another, in whatever order their dimensions lie in memory. Where both have
// the same fast dimension, it is a copy of runs, in vectors if they fit; where they have not, tiles are turned in shared memory, so
// that both sides are read and written in runs.
namespace outsize::OUTSIZE_PLACE {

// What is moved: f32 and i32. As an integer, so that a NaN keeps its bits.
using Word = std::uint32_t;

// Throws InternalError naming op and value unless maps are stored channels-last and all values of the call are of four-byte words.
void expect_words(const Call& call, const StorageRule& storage);

// A piece: the box it holds, and how.
template <class T>
struct PieceOf {
  T* data;
  Box box;
  Format format;
};

// Words from one index to the next along each dimension of a piece that holds `box`.
Dims steps_of(const StorageRule& storage, Format format, const Box& box);

// One loop of a move: steps of so many words in source and target. The source has the steps `held` of them, from the first of which
// on `from` counts.
struct MoveAxis {
  std::int64_t extent = 1;
  std::int64_t from = 0;
  std::int64_t to = 0;
  Interval held{0, extent};

  bool all_held() const { return held.lo <= 0 && held.hi >= extent; }
};

// The loops of a move, in any order.
struct Move {
  static constexpr int kMost = 8;

  std::array<MoveAxis, kMost> axes;
  int count = 0;

  void add(const MoveAxis& axis) {
    OUTSIZE_CHECK(count < kMost);
    axes[static_cast<std::size_t>(count++)] = axis;
  }
  MoveAxis& operator[](int i) { return axes[static_cast<std::size_t>(i)]; }
  const MoveAxis& operator[](int i) const { return axes[static_cast<std::size_t>(i)]; }
  std::int64_t elements() const {
    std::int64_t total = 1;
    for (int i = 0; i < count; ++i) total *= (*this)[i].extent;
    return total;
  }
};

// Puts a move into the stream: to[Σ i · axis.to] = from[Σ (i − held.lo) · axis.from] for the steps that the source has, `value` for
// all others. At most `most` words a launch.
void run_move(const Word* from, Word* to, Move move, Word value, void* queue, std::int64_t most = most_positions());

// to[p] = from[q] for every p that `to` holds where `from` holds q, with q[order[i]] = p[i]. Other elements of `to` are left as
// they are.
void move_box(const StorageRule& storage, const PieceOf<const Word>& from, const PieceOf<Word>& to, const Dims& order, void* queue);

// The same without a permutation.
void move_box(const StorageRule& storage, const PieceOf<const Word>& from, const PieceOf<Word>& to, void* queue);

// to[p] = from[p] for every p that `to` holds where `from` holds it too, `value` for all others. Both are of one format.
void pad_box(const StorageRule& storage, const PieceOf<const Word>& from, const PieceOf<Word>& to, Word value, void* queue);

// Input (output) i of a run as a piece that lies `shift` further.
PieceOf<const Word> input_piece(const KernelRun& run, int i, Format format, const Dims& shift);
PieceOf<Word> output_piece(const KernelRun& run, int i, Format format, const Dims& shift);

}  // namespace outsize::OUTSIZE_PLACE
