#pragma once

#include "ops/cuda/block.h"

// Small matrices that a warp multiplies on the card's tensor cores, in TF32: factors are rounded to 10 bits, to the nearest and
// ties away from 0; products are added up in f32.
//
//   Fragment<kRows, kColumns>   a matrix of f32 that a warp holds: sums of products, and what is done to them element by element
//   Factor<kRows, kInner>       a matrix that was rounded and may stand on the left of a product; rounded(fragment) makes one
//   TurnedFragment<kRows, kColumns>   sums of products that are scaled and stored, but not looked at
//   SharedFactor<kRows, kInner>       a factor that a warp keeps in shared memory: keep(warp, shared, factor)
//   RowValues<kRows>            a number for every row of a fragment
//   SharedTile<kColumns, kRounded>   rows of kColumns floats in shared memory, which the warps of a block read as factors; each
//   warp
//                                    rounds what it reads, unless all was rounded where it lies, which costs a block less where it
//                                    has many warps
//
//   multiply(warp, sum, left, across(tile))            sum += left · tileᵀ     sum is a Fragment
//   multiply(warp, sum, left, straight(tile))          sum += left · tile      sum is a TurnedFragment
//   row_maximum(warp, values), row_sum(warp, values)   of what the lanes of a warp have found for each row
//
// On the card a warp's 32 threads, its lanes, hold a fragment together, in registers. Emulated one call has all of it. Code is the
// same for both: it goes over what it holds, in quads of four neighbouring columns,
//
//   each_quad(x, [&](int i, int j, Vector<float, 4>& quad) { … });   // row held_row(warp, i), columns held_column(warp, j) to + 3
//
// On the card that is unrolled, since a register has no number that could be computed: an index into a fragment that the compiler
// does not know sends it to memory.
//
// How the lanes hold a fragment: it consists of parts of 16 × 16. Lane 4g + t has of each the rows g and g + 8 and the columns
// 4t … 4t + 3. The instruction (mma.sync.m16n8k8) has other columns in mind: it multiplies 16 × 8 by 8 × 8, where lane 4g + t has
//   of the left matrix   (row, column): (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)     in registers that follow each other
//   of the right matrix  (t, g), (t + 4, g)                                                likewise
//   of the sums          (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)                likewise
// Two orders are free, though: in which the terms of a sum are taken, and in which the rows and columns of the sums stand.
// - across: a product of depth 16 is two of depth 8, the first with columns 4t and 4t + 1 of the left matrix, the second with the
// next
//   two, and one of 16 columns is two of 8, for which a lane gives columns 2g and 2g + 1 of the right matrix. Whereby it gets
//   columns (4t, 4t + 2) and (4t + 1, 4t + 3) of the sums: sums are held as left factors are, and all is read in vectors.
// - straight: the tile's columns are the instruction's rows, sums are those of sumᵀ += tileᵀ · leftᵀ. For columns 2g and 2g + 1
// instead
//   of rows g and g + 8 both halves of a vector are where the instruction has them, and so are the sums that `left` was made of.
//   The result is a TurnedFragment.
namespace outsize::OUTSIZE_PLACE {

#if defined(__CUDACC__)
inline constexpr int kRowsApart = 8;      // from a row that a lane holds to the next
inline constexpr int kColumnsApart = 16;  // from a quad that a lane holds to the next
inline OUTSIZE_BOTH int held_row(Warp warp, int i) { return kRowsApart * i + warp.lane() / 4; }
inline OUTSIZE_BOTH int held_column(Warp warp, int j) { return kColumnsApart * j + 4 * (warp.lane() % 4); }
// Whether this lane speaks for the rows that it holds: four lanes hold the same.
inline OUTSIZE_BOTH bool speaks_for_rows(Warp warp) { return warp.lane() % 4 == 0; }
#else
inline constexpr int kRowsApart = 1;
inline constexpr int kColumnsApart = 4;
inline int held_row(Warp, int i) { return i; }
inline int held_column(Warp, int j) { return 4 * j; }
inline bool speaks_for_rows(Warp) { return true; }
#endif

template <int kRows, int kColumns>
struct Fragment {
  static_assert(kRows % 16 == 0 && kColumns % 16 == 0);
  static constexpr int kHeldRows = kRows / kRowsApart;
  static constexpr int kHeldQuads = kColumns / kColumnsApart;
  Vector<float, 4> of[kHeldRows][kHeldQuads];

  OUTSIZE_BOTH void clear() {
    OUTSIZE_UNROLL
    for (int i = 0; i < kHeldRows; ++i) {
      OUTSIZE_UNROLL
      for (int j = 0; j < kHeldQuads; ++j) of[i][j] = {};
    }
  }
};

template <int kRows>
struct RowValues {
  static constexpr int kHeldRows = kRows / kRowsApart;
  float of[kHeldRows];
};

template <int kRows, int kInner>
struct Factor {
  Fragment<kRows, kInner> rounded;
};

// Calls f(i, j, quad) for all that is held of a fragment.
template <int kRows, int kColumns, class F>
OUTSIZE_BOTH void each_quad(Fragment<kRows, kColumns>& fragment, const F& f) {
  OUTSIZE_UNROLL
  for (int i = 0; i < fragment.kHeldRows; ++i) {
    OUTSIZE_UNROLL
    for (int j = 0; j < fragment.kHeldQuads; ++j) f(i, j, fragment.of[i][j]);
  }
}

// The nearest number of TF32, which has 10 bits behind the point; of two as near the one that is farther from 0.
inline OUTSIZE_BOTH float round_to_tf32(float x) {
#if defined(__CUDA_ARCH__)
  std::uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
#else
  if (!std::isfinite(x)) return x;
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  bits = (bits + 0x1000) & ~std::uint32_t{0x1FFF};
  std::memcpy(&x, &bits, sizeof(bits));
  return x;
#endif
}

// A fragment, times `factor`, as the left factor of a product.
template <int kRows, int kColumns>
OUTSIZE_BOTH Factor<kRows, kColumns> rounded(const Fragment<kRows, kColumns>& fragment, float factor = 1) {
  Factor<kRows, kColumns> result;
  OUTSIZE_UNROLL
  for (int i = 0; i < fragment.kHeldRows; ++i) {
    OUTSIZE_UNROLL
    for (int j = 0; j < fragment.kHeldQuads; ++j) {
      OUTSIZE_UNROLL
      for (int c = 0; c < 4; ++c) result.rounded.of[i][j].of[c] = round_to_tf32(fragment.of[i][j].of[c] * factor);
    }
  }
  return result;
}

// Loads a fragment from rows of memory that are `stride` floats apart; zeros from row `rows` and column `columns` on, which is a
// multiple of 4. All quads are aligned.
template <int kRows, int kColumns>
OUTSIZE_BOTH void load_rows(Warp warp, Fragment<kRows, kColumns>& fragment, const float* from, std::int64_t stride, int rows,
                            int columns) {
  OUTSIZE_UNROLL
  for (int i = 0; i < fragment.kHeldRows; ++i) {
    OUTSIZE_UNROLL
    for (int j = 0; j < fragment.kHeldQuads; ++j) {
      const int row = held_row(warp, i), column = held_column(warp, j);
      if (row < rows && column < columns)
        fragment.of[i][j] = load<4>(from + row * stride + column);
      else
        fragment.of[i][j] = {};
    }
  }
}

// Rows in shared memory. The quads of a row stand in an order that depends on the row, so that all ways in which lanes read a tile
// take each bank equally often.
template <int kColumns, bool kRounded = false>
struct SharedTile {
  static_assert(kColumns % 32 == 0);
  float* at;  // a multiple of 128 bytes

  // What the number of a quad is combined with, by exclusive or.
  OUTSIZE_BOTH static constexpr int turn(int row) { return 4 * ((row ^ (row >> 1) ^ (row >> 2)) & 1) + 2 * ((row >> 3) & 1); }
  // Where element (row, column) is.
  OUTSIZE_BOTH static constexpr int place(int row, int column) {
    return row * kColumns + ((column / 4) ^ turn(row)) * 4 + column % 4;
  }
  OUTSIZE_BOTH float& operator()(int row, int column) const { return at[place(row, column)]; }
};

// The right factor of a product: a tile (straight), or its columns as rows (across).
template <int kStored, bool kRounded>
struct Straight {
  SharedTile<kStored, kRounded> tile;
};
template <int kStored, bool kRounded>
struct Across {
  SharedTile<kStored, kRounded> tile;
};
template <int kStored, bool kRounded>
OUTSIZE_BOTH Straight<kStored, kRounded> straight(SharedTile<kStored, kRounded> tile) {
  return {tile};
}
template <int kStored, bool kRounded>
OUTSIZE_BOTH Across<kStored, kRounded> across(SharedTile<kStored, kRounded> tile) {
  return {tile};
}
// A left factor that a warp keeps in shared memory, in kRows · kInner floats of its own, where it has no registers for it.
template <int kRows, int kInner>
struct SharedFactor {
  float* at;  // a multiple of 16 bytes
};

// Calls f(row, column) for the quads of a tile of kRows that belong to a thread of kThreads: those that it fetches.
template <int kRows, int kColumns, int kThreads, class F>
OUTSIZE_BOTH void each_own_quad(int thread, const F& f) {
  constexpr int kQuads = kColumns / 4;
  OUTSIZE_UNROLL
  for (int at = 0; at < kRows * kQuads; at += kThreads) {
    const int quad = at + thread;
    if (kRows * kQuads % kThreads != 0 && quad >= kRows * kQuads) continue;
    f(quad / kQuads, quad % kQuads * 4);
  }
}

// Starts copies of rows from memory, `stride` floats apart, to a tile of kRows; zeros from row `rows` and column `columns` on,
// which is a multiple of 4.
template <int kRows, int kThreads, int kColumns, bool kRounded>
OUTSIZE_BOTH void fetch_rows(Copies& copies, int thread, SharedTile<kColumns, kRounded> tile, const float* from,
                             std::int64_t stride, int rows, int columns) {
  each_own_quad<kRows, kColumns, kThreads>(thread, [&](int row, int column) {
    const bool there = row < rows && column < columns;
    copies.template floats<4>(&tile(row, column), there ? from + row * stride + column : from, there);
  });
}

// Rounds what the thread fetched of a tile.
template <int kRows, int kThreads, int kColumns>
OUTSIZE_BOTH void round_rows(int thread, SharedTile<kColumns, true> tile) {
  each_own_quad<kRows, kColumns, kThreads>(thread, [&](int row, int column) {
    Vector<float, 4> quad = load<4>(&tile(row, column));
    OUTSIZE_UNROLL
    for (int c = 0; c < 4; ++c) quad.of[c] = round_to_tf32(quad.of[c]);
    store(&tile(row, column), quad);
  });
}

// Where lane 4g + t finds its elements of a part of 16 × 16, in floats from the tile's begin: the place for part (0, 0) combined
// with a constant by exclusive or, plus a constant. The checks below hold them against SharedTile::place().
template <int kColumns>
struct LanePlaces {
  // Row 2g + j, columns 16 · part to + 3 behind 4t, of rows from 16 · block on.
  OUTSIZE_BOTH static constexpr int across_base(int lane) { return SharedTile<kColumns>::place(2 * (lane / 4), 4 * (lane % 4)); }
  OUTSIZE_BOTH static constexpr int across(int base, int block, int part, int j) {
    return (base ^ (16 * ((j ^ part) & 1))) + (16 * block + j) * kColumns + part / 2 * 32;
  }
  // Row 4t + i, columns 2g and 2g + 1.
  OUTSIZE_BOTH static constexpr int straight_base(int lane) { return SharedTile<kColumns>::place(4 * (lane % 4), 2 * (lane / 4)); }
  OUTSIZE_BOTH static constexpr int straight(int base, int block, int part, int i) {
    return (base ^ (16 * ((i ^ (i >> 1) ^ part) & 1))) + (16 * block + i) * kColumns + part / 2 * 32;
  }

  static constexpr bool right() {
    for (int lane = 0; lane < 32; ++lane)
      for (int block = 0; block < 3; ++block)
        for (int part = 0; part < kColumns / 16; ++part) {
          const int g = lane / 4, t = lane % 4, row = 16 * block, column = 16 * part;
          for (int j = 0; j < 2; ++j)
            if (across(across_base(lane), block, part, j) != SharedTile<kColumns>::place(row + 2 * g + j, column + 4 * t))
              return false;
          for (int i = 0; i < 4; ++i)
            if (straight(straight_base(lane), block, part, i) != SharedTile<kColumns>::place(row + 4 * t + i, column + 2 * g))
              return false;
        }
    return true;
  }
};
static_assert(LanePlaces<32>::right() && LanePlaces<64>::right() && LanePlaces<96>::right() && LanePlaces<128>::right());

#if defined(__CUDACC__)

// sums += left · right, 16 × 8 by 8 × 8.
inline __device__ void multiply_part(float& sum0, float& sum1, float& sum2, float& sum3, float left0, float left1, float left2,
                                     float left3, float right0, float right1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum0), "+f"(sum1), "+f"(sum2), "+f"(sum3)
      : "r"(__float_as_uint(left0)), "r"(__float_as_uint(left1)), "r"(__float_as_uint(left2)), "r"(__float_as_uint(left3)),
        "r"(__float_as_uint(right0)), "r"(__float_as_uint(right1)));
}

template <bool kRounded, int V>
__device__ Vector<float, V> load_factor(const float* from) {
  Vector<float, V> loaded = load<V>(from);
  OUTSIZE_UNROLL
  for (int i = 0; i < V; ++i) loaded.of[i] = kRounded ? loaded.of[i] : round_to_tf32(loaded.of[i]);
  return loaded;
}

// Adds the part of depth 16 · inner: `left` has its columns as those from 16 · part on.
template <int kRows, int kColumns, int kInner, int kStored, bool kRounded>
__device__ void multiply_depth(Warp warp, Fragment<kRows, kColumns>& sum, const Fragment<kRows, kInner>& left, int part,
                               const Across<kStored, kRounded>& right, int inner) {
  using Places = LanePlaces<kStored>;
  const int base = Places::across_base(warp.lane());
  OUTSIZE_UNROLL
  for (int n = 0; n < kColumns / 16; ++n) {
    OUTSIZE_UNROLL
    for (int j = 0; j < 2; ++j) {
      const Vector<float, 4> column = load_factor<kRounded, 4>(right.tile.at + Places::across(base, n, inner, j));
      OUTSIZE_UNROLL
      for (int m = 0; m < kRows / 16; ++m) {
        Vector<float, 4>&upper = sum.of[2 * m][n], &lower = sum.of[2 * m + 1][n];
        const Vector<float, 4>&left_upper = left.of[2 * m][part], &left_lower = left.of[2 * m + 1][part];
        OUTSIZE_UNROLL
        for (int step = 0; step < 2; ++step)
          multiply_part(upper.of[j], upper.of[2 + j], lower.of[j], lower.of[2 + j], left_upper.of[2 * step],
                        left_lower.of[2 * step], left_upper.of[2 * step + 1], left_lower.of[2 * step + 1], column.of[2 * step],
                        column.of[2 * step + 1]);
      }
    }
  }
}

template <int kRows, int kColumns, int kInner, int kStored, bool kRounded>
__device__ void multiply(Warp warp, Fragment<kRows, kColumns>& sum, const Factor<kRows, kInner>& left,
                         const Across<kStored, kRounded>& right) {
  OUTSIZE_UNROLL
  for (int inner = 0; inner < kInner / 16; ++inner) multiply_depth(warp, sum, left.rounded, inner, right, inner);
}

// Where a lane has its part of rows from 16 · m on and depth 8 · step, in the order of the instruction.
template <int kRows, int kInner>
__device__ float* place_of(Warp warp, const SharedFactor<kRows, kInner>& factor, int m, int step) {
  return factor.at + ((m * (kInner / 8) + step) * 32 + warp.lane()) * 4;
}

template <int kRows, int kInner>
__device__ void keep(Warp warp, const SharedFactor<kRows, kInner>& to, const Factor<kRows, kInner>& factor) {
  OUTSIZE_UNROLL
  for (int m = 0; m < kRows / 16; ++m) {
    OUTSIZE_UNROLL
    for (int step = 0; step < kInner / 8; ++step) {
      const Vector<float, 4>&upper = factor.rounded.of[2 * m][step / 2], &lower = factor.rounded.of[2 * m + 1][step / 2];
      const int c = step % 2 * 2;
      store(place_of(warp, to, m, step), Vector<float, 4>{{upper.of[c], lower.of[c], upper.of[c + 1], lower.of[c + 1]}});
    }
  }
}

template <int kRows, int kColumns, int kInner, int kStored, bool kRounded>
__device__ void multiply(Warp warp, Fragment<kRows, kColumns>& sum, const SharedFactor<kRows, kInner>& left,
                         const Across<kStored, kRounded>& right) {
  OUTSIZE_UNROLL
  for (int inner = 0; inner < kInner / 16; ++inner) {
    Fragment<kRows, 16> part;
    OUTSIZE_UNROLL
    for (int m = 0; m < kRows / 16; ++m) {
      OUTSIZE_UNROLL
      for (int step = 0; step < 2; ++step) {
        const Vector<float, 4> own = load<4>(place_of(warp, left, m, 2 * inner + step));
        part.of[2 * m][0].of[2 * step] = own.of[0];
        part.of[2 * m + 1][0].of[2 * step] = own.of[1];
        part.of[2 * m][0].of[2 * step + 1] = own.of[2];
        part.of[2 * m + 1][0].of[2 * step + 1] = own.of[3];
      }
    }
    multiply_depth(warp, sum, part, 0, right, inner);
  }
}

// of[n][m].of[c] is row 8m + 2t + c % 2 and column 16n + 2g + c / 2.
template <int kRows, int kColumns>
struct TurnedFragment {
  Vector<float, 4> of[kColumns / 16][kRows / 8];

  __device__ void clear() {
    OUTSIZE_UNROLL
    for (int n = 0; n < kColumns / 16; ++n) {
      OUTSIZE_UNROLL
      for (int m = 0; m < kRows / 8; ++m) of[n][m] = {};
    }
  }
  // Multiplies each row by its own factor, or all by one.
  __device__ void scale(Warp warp, const RowValues<kRows>& factors) {
    const int t = warp.lane() % 4;
    OUTSIZE_UNROLL
    for (int m = 0; m < kRows / 8; ++m) {
      const float even = __shfl_sync(0xFFFFFFFF, factors.of[m], 8 * t), odd = __shfl_sync(0xFFFFFFFF, factors.of[m], 8 * t + 4);
      OUTSIZE_UNROLL
      for (int n = 0; n < kColumns / 16; ++n) {
        OUTSIZE_UNROLL
        for (int c = 0; c < 4; ++c) of[n][m].of[c] *= c % 2 == 0 ? even : odd;
      }
    }
  }
  __device__ void scale(Warp, float factor) {
    OUTSIZE_UNROLL
    for (int n = 0; n < kColumns / 16; ++n) {
      OUTSIZE_UNROLL
      for (int m = 0; m < kRows / 8; ++m) {
        OUTSIZE_UNROLL
        for (int c = 0; c < 4; ++c) of[n][m].of[c] *= factor;
      }
    }
  }
  // Stores what lies in the first `rows` rows and `columns` columns, a multiple of 4, to rows that are `stride` floats apart.
  __device__ void store_rows(Warp warp, float* to, std::int64_t stride, int rows, int columns) const {
    const int g = warp.lane() / 4, t = warp.lane() % 4;
    OUTSIZE_UNROLL
    for (int m = 0; m < kRows / 8; ++m) {
      OUTSIZE_UNROLL
      for (int c = 0; c < 2; ++c) {
        const int row = 8 * m + 2 * t + c;
        OUTSIZE_UNROLL
        for (int n = 0; n < kColumns / 16; ++n)
          if (row < rows && 16 * n + 2 * g < columns)
            store(to + row * stride + 16 * n + 2 * g, Vector<float, 2>{{of[n][m].of[c], of[n][m].of[2 + c]}});
      }
    }
  }
};

template <int kRows, int kColumns, int kInner, int kStored, bool kRounded>
__device__ void multiply(Warp warp, TurnedFragment<kRows, kColumns>& sum, const Factor<kRows, kInner>& left,
                         const Straight<kStored, kRounded>& right) {
  using Places = LanePlaces<kStored>;
  const int base = Places::straight_base(warp.lane());
  OUTSIZE_UNROLL
  for (int inner = 0; inner < kInner / 16; ++inner) {
    OUTSIZE_UNROLL
    for (int n = 0; n < kColumns / 16; ++n) {
      OUTSIZE_UNROLL
      for (int j = 0; j < 2; ++j) {
        // Rows 4t + j and 4t + 2 + j of the tile, columns 2g and 2g + 1.
        const Vector<float, 2> first = load_factor<kRounded, 2>(right.tile.at + Places::straight(base, inner, n, j)),
                               second = load_factor<kRounded, 2>(right.tile.at + Places::straight(base, inner, n, 2 + j));
        OUTSIZE_UNROLL
        for (int m = 0; m < kRows / 8; ++m) {
          const Vector<float, 4>& own = left.rounded.of[m][inner];
          Vector<float, 4>& to = sum.of[n][m];
          multiply_part(to.of[0], to.of[1], to.of[2], to.of[3], first.of[0], first.of[1], second.of[0], second.of[1], own.of[j],
                        own.of[2 + j]);
        }
      }
    }
  }
}

// Combines what the four lanes of each row have.
template <int kRows>
__device__ void row_maximum(Warp, RowValues<kRows>& values) {
  OUTSIZE_UNROLL
  for (int i = 0; i < values.kHeldRows; ++i) {
    values.of[i] = fmaxf(values.of[i], __shfl_xor_sync(0xFFFFFFFF, values.of[i], 1));
    values.of[i] = fmaxf(values.of[i], __shfl_xor_sync(0xFFFFFFFF, values.of[i], 2));
  }
}
template <int kRows>
__device__ void row_sum(Warp, RowValues<kRows>& values) {
  OUTSIZE_UNROLL
  for (int i = 0; i < values.kHeldRows; ++i) {
    values.of[i] += __shfl_xor_sync(0xFFFFFFFF, values.of[i], 1);
    values.of[i] += __shfl_xor_sync(0xFFFFFFFF, values.of[i], 2);
  }
}

// A bit for every element of a fragment. Where the bits of four rows of a column come at once, lanes share the work.
template <int kRows, int kColumns>
class FragmentBits {
 public:
  using Elements = Fragment<kRows, kColumns>;
  static_assert(kColumns <= 128);

  // four(row, column) gives the bits of rows row to row + 3, from the lowest on; row is a multiple of 4.
  template <class F>
  __device__ FragmentBits(Warp warp, const F& four) {
    const int lane = warp.lane(), g = lane / 4, t = lane % 4;
    OUTSIZE_UNROLL
    for (int i = 0; i < Elements::kHeldRows; ++i) {
      // Lanes of four neighbouring rows hold the same four columns of a quad: each makes the bits of one, for all four.
      std::uint32_t own = 0;
      OUTSIZE_UNROLL
      for (int j = 0; j < Elements::kHeldQuads; ++j)
        own |= four(kRowsApart * i + (g & 4), kColumnsApart * j + 4 * t + (g & 3)) << (4 * j);
      OUTSIZE_UNROLL
      for (int c = 0; c < 4; ++c) bits_[i][c] = __shfl_sync(0xFFFFFFFF, own, 4 * ((g & 4) + c) + t) >> (g & 3);
    }
  }
  __device__ bool operator()(int i, int j, int c) const { return ((bits_[i][c] >> (4 * j)) & 1) != 0; }

 private:
  std::uint32_t bits_[Elements::kHeldRows][4];
};

#else

// An element of shared memory as a factor. Ends the program with a message where a card would cut it off instead of rounding it.
template <bool kRounded>
float as_factor(float x) {
  const float nearest = round_to_tf32(x);
  if (kRounded && std::isfinite(x) && nearest != x) {
    std::fprintf(stderr, "a block program multiplies by %.9g, which was to be rounded to TF32 before\n", static_cast<double>(x));
    std::abort();
  }
  return nearest;
}
template <int kRows, int kInner>
float left_element(const Factor<kRows, kInner>& left, int row, int inner) {
  return left.rounded.of[row][inner / 4].of[inner % 4];
}
template <int kRows, int kInner>
float left_element(const SharedFactor<kRows, kInner>& left, int row, int inner) {
  return left.at[row * kInner + inner];
}
template <int kRows, int kInner>
void keep(Warp, const SharedFactor<kRows, kInner>& to, const Factor<kRows, kInner>& factor) {
  for (int row = 0; row < kRows; ++row)
    for (int inner = 0; inner < kInner; ++inner) to.at[row * kInner + inner] = left_element(factor, row, inner);
}

// sum[row][column] += left · right, where element (inner, column) of the right matrix is right(inner, column).
template <int kRows, int kColumns, int kInner, class Left, class Right>
void multiply_matrices(float (&sum)[kRows][kColumns], const Left& left, const Right& right) {
  for (int inner = 0; inner < kInner; ++inner) {
    float row_of_right[kColumns];
    for (int n = 0; n < kColumns; ++n) row_of_right[n] = right(inner, n);
    for (int m = 0; m < kRows; ++m) {
      const float factor = left_element(left, m, inner);
      for (int n = 0; n < kColumns; ++n) sum[m][n] += factor * row_of_right[n];
    }
  }
}

template <int kRows, int kColumns, class Left, int kStored, bool kRounded>
void multiply_across(Fragment<kRows, kColumns>& sum, const Left& left, const Across<kStored, kRounded>& right, auto inner) {
  float sums[kRows][kColumns];
  std::memcpy(sums, sum.of, sizeof(sums));
  multiply_matrices<kRows, kColumns, decltype(inner)::value>(
      sums, left, [&](int row, int column) { return as_factor<kRounded>(right.tile(column, row)); });
  std::memcpy(sum.of, sums, sizeof(sums));
}
template <int kRows, int kColumns, int kInner, int kStored, bool kRounded>
void multiply(Warp, Fragment<kRows, kColumns>& sum, const Factor<kRows, kInner>& left, const Across<kStored, kRounded>& right) {
  multiply_across(sum, left, right, std::integral_constant<int, kInner>());
}
template <int kRows, int kColumns, int kInner, int kStored, bool kRounded>
void multiply(Warp, Fragment<kRows, kColumns>& sum, const SharedFactor<kRows, kInner>& left,
              const Across<kStored, kRounded>& right) {
  multiply_across(sum, left, right, std::integral_constant<int, kInner>());
}

template <int kRows, int kColumns>
struct TurnedFragment {
  float of[kRows][kColumns];

  void clear() { std::memset(of, 0, sizeof(of)); }
  void scale(Warp, const RowValues<kRows>& factors) {
    for (int row = 0; row < kRows; ++row)
      for (float& element : of[row]) element *= factors.of[row];
  }
  void scale(Warp, float factor) {
    for (int row = 0; row < kRows; ++row)
      for (float& element : of[row]) element *= factor;
  }
  void store_rows(Warp, float* to, std::int64_t stride, int rows, int columns) const {
    for (int row = 0; row < kRows && row < rows; ++row)
      for (int column = 0; column < kColumns && column < columns; column += 2)
        store(to + row * stride + column, Vector<float, 2>{{of[row][column], of[row][column + 1]}});
  }
};

template <int kRows, int kColumns, int kInner, int kStored, bool kRounded>
void multiply(Warp, TurnedFragment<kRows, kColumns>& sum, const Factor<kRows, kInner>& left,
              const Straight<kStored, kRounded>& right) {
  multiply_matrices<kRows, kColumns, kInner>(sum.of, left,
                                             [&](int row, int column) { return as_factor<kRounded>(right.tile(row, column)); });
}

template <int kRows>
void row_maximum(Warp, RowValues<kRows>&) {}
template <int kRows>
void row_sum(Warp, RowValues<kRows>&) {}

template <int kRows, int kColumns>
class FragmentBits {
 public:
  template <class F>
  FragmentBits(Warp, const F& four) {
    for (int row = 0; row < kRows; row += 4)
      for (int column = 0; column < kColumns; ++column)
        for (int i = 0; i < 4; ++i) bits_[row + i][column] = ((four(row, column) >> i) & 1) != 0;
  }
  bool operator()(int i, int j, int c) const { return bits_[i][4 * j + c]; }

 private:
  bool bits_[kRows][kColumns];
};

#endif

}  // namespace outsize::OUTSIZE_PLACE
