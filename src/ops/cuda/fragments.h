#pragma once

#include "ops/cuda/block.h"

// Small matrices that a warp multiplies on the card's tensor cores, in TF32: factors are rounded to 10 bits, to the nearest and
// ties away from 0; products are added up in f32.
//
//   Fragment<kRows, kColumns>   a matrix of f32 that a warp holds: sums of products, and what is done to them element by element
//   Factor<kRows, kInner>       a matrix that was rounded and may stand on the left of a product; rounded(fragment) makes one
//   RowValues<kRows>            a number for every row of a fragment
//   SharedTile<kColumns, kRounded>   rows of kColumns floats in shared memory, which the warps of a block read as factors; each
//   warp
//                                    rounds what it reads, unless all was rounded where it lies, which costs a block less where it
//                                    has many warps
//
//   multiply(warp, sum, left, straight(tile))          sum += left · tile
//   multiply(warp, sum, left, across(tile))            sum += left · tileᵀ
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
//   of the left matrix   rows g, g + 8 and columns t, t + 4
//   of the right matrix  rows t, t + 4 and column g
//   of the sums          rows g, g + 8 and columns 2t, 2t + 1
// Two orders are free, though: in which the terms of a sum are taken, and in which the sums' columns stand. So two products of
// depth 8 take the columns (4t, 4t + 1) and (4t + 2, 4t + 3) of the left matrix, with the same rows of the right one; and the
// columns of the right matrix that a lane gives to the two products of width 8 are 2g and 2g + 1, whereby a lane gets the columns
// (4t, 4t + 2) and (4t + 1, 4t + 3) of the sums. So sums are held as left factors are, without an exchange, and all is read in
// vectors.
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

// A fragment as the left factor of a product.
template <int kRows, int kColumns>
OUTSIZE_BOTH Factor<kRows, kColumns> rounded(const Fragment<kRows, kColumns>& fragment) {
  Factor<kRows, kColumns> factor;
  OUTSIZE_UNROLL
  for (int i = 0; i < fragment.kHeldRows; ++i) {
    OUTSIZE_UNROLL
    for (int j = 0; j < fragment.kHeldQuads; ++j) {
      OUTSIZE_UNROLL
      for (int c = 0; c < 4; ++c) factor.rounded.of[i][j].of[c] = round_to_tf32(fragment.of[i][j].of[c]);
    }
  }
  return factor;
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

// Stores what lies in the first `rows` rows and `columns` columns.
template <int kRows, int kColumns>
OUTSIZE_BOTH void store_rows(Warp warp, const Fragment<kRows, kColumns>& fragment, float* to, std::int64_t stride, int rows,
                             int columns) {
  OUTSIZE_UNROLL
  for (int i = 0; i < fragment.kHeldRows; ++i) {
    OUTSIZE_UNROLL
    for (int j = 0; j < fragment.kHeldQuads; ++j) {
      const int row = held_row(warp, i), column = held_column(warp, j);
      if (row < rows && column < columns) store(to + row * stride + column, fragment.of[i][j]);
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
// A left factor that lies in shared memory: kRows rows of a tile from `row` on, a multiple of 16.
template <int kRows, int kStored>
struct SharedRows {
  SharedTile<kStored, true> tile;
  int row;
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
  // Row g + 8h, columns 4t to 4t + 3.
  OUTSIZE_BOTH static constexpr int left_base(int lane) { return SharedTile<kColumns>::place(lane / 4, 4 * (lane % 4)); }
  OUTSIZE_BOTH static constexpr int left(int base, int block, int part, int h) {
    return (base ^ (8 * h) ^ (16 * (part & 1))) + (16 * block + 8 * h) * kColumns + part / 2 * 32;
  }

  static constexpr bool right() {
    for (int lane = 0; lane < 32; ++lane)
      for (int block = 0; block < 3; ++block)
        for (int part = 0; part < kColumns / 16; ++part) {
          const int g = lane / 4, t = lane % 4, row = 16 * block, column = 16 * part;
          for (int j = 0; j < 2; ++j) {
            if (across(across_base(lane), block, part, j) != SharedTile<kColumns>::place(row + 2 * g + j, column + 4 * t))
              return false;
            if (left(left_base(lane), block, part, j) != SharedTile<kColumns>::place(row + g + 8 * j, column + 4 * t)) return false;
          }
          for (int i = 0; i < 4; ++i)
            if (straight(straight_base(lane), block, part, i) != SharedTile<kColumns>::place(row + 4 * t + i, column + 2 * g))
              return false;
        }
    return true;
  }
};
static_assert(LanePlaces<32>::right() && LanePlaces<64>::right() && LanePlaces<96>::right() && LanePlaces<128>::right());

#if defined(__CUDACC__)

// A part of the right factor, 16 × 16: of[j][i] is row 4t + i and column 2g + j, rounded.
struct RightPart {
  float of[2][4];

  __device__ void round() {
    OUTSIZE_UNROLL
    for (int j = 0; j < 2; ++j) {
      OUTSIZE_UNROLL
      for (int i = 0; i < 4; ++i) of[j][i] = round_to_tf32(of[j][i]);
    }
  }
};

// The part of rows 16 · inner and columns 16 · n of a right factor.
template <int kStored, bool kRounded>
__device__ RightPart load_right(Warp warp, const Straight<kStored, kRounded>& right, int inner, int n) {
  using Places = LanePlaces<kStored>;
  const int base = Places::straight_base(warp.lane());
  RightPart part;
  OUTSIZE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const Vector<float, 2> two = load<2>(right.tile.at + Places::straight(base, inner, n, i));
    part.of[0][i] = two.of[0];
    part.of[1][i] = two.of[1];
  }
  if constexpr (!kRounded) part.round();
  return part;
}
template <int kStored, bool kRounded>
__device__ RightPart load_right(Warp warp, const Across<kStored, kRounded>& right, int inner, int n) {
  using Places = LanePlaces<kStored>;
  const int base = Places::across_base(warp.lane());
  RightPart part;
  OUTSIZE_UNROLL
  for (int j = 0; j < 2; ++j) {
    const Vector<float, 4> four = load<4>(right.tile.at + Places::across(base, n, inner, j));
    OUTSIZE_UNROLL
    for (int i = 0; i < 4; ++i) part.of[j][i] = four.of[i];
  }
  if constexpr (!kRounded) part.round();
  return part;
}

// sums += left · right for a part of 16 × 16 of each: `upper` and `lower` are what a lane holds of the left part's rows g and g +
// 8, and the sums' likewise.
inline __device__ void multiply_part(Vector<float, 4>& upper_sum, Vector<float, 4>& lower_sum, const Vector<float, 4>& upper,
                                     const Vector<float, 4>& lower, const RightPart& right) {
  OUTSIZE_UNROLL
  for (int step = 0; step < 2; ++step) {
    OUTSIZE_UNROLL
    for (int j = 0; j < 2; ++j)
      asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(upper_sum.of[j]), "+f"(upper_sum.of[2 + j]), "+f"(lower_sum.of[j]), "+f"(lower_sum.of[2 + j])
          : "r"(__float_as_uint(upper.of[2 * step])), "r"(__float_as_uint(lower.of[2 * step])),
            "r"(__float_as_uint(upper.of[2 * step + 1])), "r"(__float_as_uint(lower.of[2 * step + 1])),
            "r"(__float_as_uint(right.of[j][2 * step])), "r"(__float_as_uint(right.of[j][2 * step + 1])));
  }
}

template <int kRows, int kColumns, int kInner, class Right>
__device__ void multiply(Warp warp, Fragment<kRows, kColumns>& sum, const Factor<kRows, kInner>& left, const Right& right) {
  OUTSIZE_UNROLL
  for (int inner = 0; inner < kInner / 16; ++inner) {
    OUTSIZE_UNROLL
    for (int n = 0; n < kColumns / 16; ++n) {
      const RightPart part = load_right(warp, right, inner, n);
      OUTSIZE_UNROLL
      for (int m = 0; m < kRows / 16; ++m)
        multiply_part(sum.of[2 * m][n], sum.of[2 * m + 1][n], left.rounded.of[2 * m][inner], left.rounded.of[2 * m + 1][inner],
                      part);
    }
  }
}

template <int kRows, int kColumns, int kStored, class Right>
__device__ void multiply(Warp warp, Fragment<kRows, kColumns>& sum, const SharedRows<kRows, kStored>& left, const Right& right) {
  using Places = LanePlaces<kStored>;
  const int base = Places::left_base(warp.lane());
  const float* const from = left.tile.at + left.row * kStored;
  OUTSIZE_UNROLL
  for (int inner = 0; inner < kStored / 16; ++inner) {
    Fragment<kRows, 16> factor;
    OUTSIZE_UNROLL
    for (int i = 0; i < factor.kHeldRows; ++i) factor.of[i][0] = load<4>(from + Places::left(base, i / 2, inner, i % 2));
    OUTSIZE_UNROLL
    for (int n = 0; n < kColumns / 16; ++n) {
      const RightPart part = load_right(warp, right, inner, n);
      OUTSIZE_UNROLL
      for (int m = 0; m < kRows / 16; ++m)
        multiply_part(sum.of[2 * m][n], sum.of[2 * m + 1][n], factor.of[2 * m][0], factor.of[2 * m + 1][0], part);
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
template <int kStored, bool kRounded>
float right_element(const Straight<kStored, kRounded>& right, int inner, int column) {
  return as_factor<kRounded>(right.tile(inner, column));
}
template <int kStored, bool kRounded>
float right_element(const Across<kStored, kRounded>& right, int inner, int column) {
  return as_factor<kRounded>(right.tile(column, inner));
}
template <int kRows, int kInner>
float left_element(const Factor<kRows, kInner>& left, int row, int inner) {
  return left.rounded.of[row][inner / 4].of[inner % 4];
}
template <int kRows, int kStored>
float left_element(const SharedRows<kRows, kStored>& left, int row, int inner) {
  return as_factor<true>(left.tile(left.row + row, inner));
}

template <int kInner, int kRows, int kColumns, class Left, class Right>
void multiply_matrices(Fragment<kRows, kColumns>& sum, const Left& left, const Right& right) {
  for (int inner = 0; inner < kInner; ++inner) {
    float row_of_right[kColumns];
    for (int n = 0; n < kColumns; ++n) row_of_right[n] = right_element(right, inner, n);
    for (int m = 0; m < kRows; ++m) {
      const float factor = left_element(left, m, inner);
      for (int n = 0; n < kColumns; ++n) sum.of[m][n / 4].of[n % 4] += factor * row_of_right[n];
    }
  }
}
template <int kRows, int kColumns, int kInner, class Right>
void multiply(Warp, Fragment<kRows, kColumns>& sum, const Factor<kRows, kInner>& left, const Right& right) {
  multiply_matrices<kInner>(sum, left, right);
}
template <int kRows, int kColumns, int kStored, class Right>
void multiply(Warp, Fragment<kRows, kColumns>& sum, const SharedRows<kRows, kStored>& left, const Right& right) {
  multiply_matrices<kStored>(sum, left, right);
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
