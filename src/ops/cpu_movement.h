#pragma once

#include "ops/cpu_support.h"
#include "ops/movement.h"

// Moves of boxes between pieces. All that this backend moves are words of four bytes: f32 and i32.
namespace outsize {

using Word = std::uint32_t;

// Throws InternalError naming the op unless all values are of four-byte words, and maps in blocks this backend knows.
void require_words(const Call& call, const StorageRule& storage);

inline const Word* words(const std::byte* data) { return reinterpret_cast<const Word*>(data); }
inline Word* words(std::byte* data) { return reinterpret_cast<Word*>(data); }

// A piece: the box it holds, and how.
template <class T>
struct PieceOf {
  T* data;
  Box box;
  Format format;
};

// to[p] = from[q] for every p that `to` holds where `from` holds q, with q[order[i]] = p[i]. Other elements of `to` are left as
// they are, except that the channels that pad its last block are set to zero where the block is written.
void move_box(const StorageRule& storage, const PieceOf<const Word>& from, const PieceOf<Word>& to, const Dims& order);

// The same without a permutation.
void move_box(const StorageRule& storage, const PieceOf<const Word>& from, const PieceOf<Word>& to);

// `value` in every element of a piece outside `region`, a box of it, zeros in the channels that pad it. A channel block that the
// region covers in part is filled as a whole: what lies in the region is to be written afterwards.
void fill_outside(const StorageRule& storage, const PieceOf<Word>& to, const Box& region, Word value);

}  // namespace outsize
