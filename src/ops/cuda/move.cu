#include <algorithm>

#include "ops/cuda/move.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// The loops of a move as a kernel has them, the innermost first; of vectors, where it moves those.
struct Loops {
  int count = 0;
  Divide extent[Move::kMost];
  std::uint32_t begin[Move::kMost];  // of what the source has
  std::uint32_t held[Move::kMost];
  std::int64_t from[Move::kMost];
  std::int64_t to[Move::kMost];

  void add(const MoveAxis& axis, std::int64_t v = 1) {
    extent[count] = Divide(axis.extent / v);
    begin[count] = static_cast<std::uint32_t>(axis.held.lo / v);
    held[count] = static_cast<std::uint32_t>(axis.held.size() / v);
    from[count] = axis.from * v;
    to[count] = axis.to * v;
    ++count;
  }
};

// Where a position lies on both sides.
struct Places {
  std::int64_t from = 0;
  std::int64_t to = 0;
  bool held = true;
};

OUTSIZE_BOTH inline Places places(const Loops& loops, std::uint32_t position) {
  Places at;
  for (int i = 0; i < loops.count; ++i) {
    const std::uint32_t next = i + 1 < loops.count ? loops.extent[i].quotient(position) : 0;
    const std::uint32_t step = position - next * loops.extent[i].by();
    const std::uint32_t source = step - loops.begin[i];  // wraps around where it lies before
    at.from += source * loops.from[i];
    at.to += step * loops.to[i];
    at.held = at.held && source < loops.held[i];
    position = next;
  }
  return at;
}

// Runs: a thread for every V words.
template <int V, bool kPads>
struct RunProgram {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 4;
  static constexpr int kUnroll = 4;  // positions that a thread has in flight

  const Word* from;
  Word* to;
  Loops loops;
  std::uint32_t positions;
  Word value;

  Grid grid() const { return {ceil_divide(positions, kThreads * kUnroll), 1, 0}; }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    block.last([&](int thread) {
      const std::uint32_t first = static_cast<std::uint32_t>(block.x()) * kThreads * kUnroll + thread;
      Vector<Word, V> x[kUnroll];
      std::int64_t target[kUnroll];
      OUTSIZE_UNROLL
      for (int u = 0; u < kUnroll; ++u)
        if (const std::uint32_t p = first + u * kThreads; p < positions) {
          const Places at = places(loops, p);
          target[u] = at.to;
          if (!kPads || at.held) {
            x[u] = load<V>(from + at.from);
          } else {
            OUTSIZE_UNROLL
            for (int j = 0; j < V; ++j) x[u].of[j] = value;
          }
        }
      OUTSIZE_UNROLL
      for (int u = 0; u < kUnroll; ++u)
        if (first + u * kThreads < positions) store(to + target[u], x[u]);
    });
  }
};

// An axis along which a tile lies.
struct TileAxis {
  std::uint32_t extent;
  std::int64_t from, to;  // words
  std::uint32_t size;     // steps in a tile
};

// Tiles of two axes: read in the order in which the source has them, written in that of the target.
struct TileProgram {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 5;
  static constexpr int kEach = 8;  // words that a thread has in flight
  static constexpr int kWords = kThreads * kEach;
  static constexpr std::int64_t kNarrow = 32;  // words that are read as one

  const Word* from;
  Word* to;
  TileAxis near, far;  // the fast axes of target and source
  Divide near_size, far_size;
  Divide near_tiles, far_tiles;
  Loops outer;

  TileProgram(const Word* source, Word* target, const MoveAxis& a, const MoveAxis& b) : from(source), to(target) {
    const std::int64_t narrow = std::min(b.extent, kNarrow);
    const std::int64_t size = std::min(a.extent, whole(kWords / narrow));
    near = {static_cast<std::uint32_t>(a.extent), a.from, a.to, static_cast<std::uint32_t>(size)};
    far = {static_cast<std::uint32_t>(b.extent), b.from, b.to,
           static_cast<std::uint32_t>(std::min(b.extent, whole(kWords / size)))};
    near_size = Divide(near.size);
    far_size = Divide(far.size);
    near_tiles = Divide(ceil_divide(near.extent, near.size));
    far_tiles = Divide(ceil_divide(far.extent, far.size));
  }
  static std::int64_t whole(std::int64_t words) { return words < kNarrow ? words : words / kNarrow * kNarrow; }
  // From a step along `near` to the next in shared memory: odd, so that steps along either axis lie in different banks.
  OUTSIZE_BOTH std::uint32_t pitch() const { return far.size | 1; }
  Grid grid() const {
    std::int64_t tiles = std::int64_t{near_tiles.by()} * far_tiles.by();
    for (int i = 0; i < outer.count; ++i) tiles *= outer.extent[i].by();
    return {tiles, 1, std::int64_t{near.size} * pitch() * static_cast<std::int64_t>(sizeof(Word))};
  }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    Word* const tile = reinterpret_cast<Word*>(block.shared());
    const auto index = static_cast<std::uint32_t>(block.x());
    const std::uint32_t row = near_tiles.quotient(index);
    const std::uint32_t outside = far_tiles.quotient(row);
    const std::uint32_t near_first = (index - row * near_tiles.by()) * near.size;
    const std::uint32_t far_first = (row - outside * far_tiles.by()) * far.size;
    const std::uint32_t nears = near.extent - near_first < near.size ? near.extent - near_first : near.size;
    const std::uint32_t fars = far.extent - far_first < far.size ? far.extent - far_first : far.size;
    const Places at = places(outer, outside);
    const Word* const source = from + at.from + near_first * near.from + far_first * far.from;
    Word* const target = to + at.to + near_first * near.to + far_first * far.to;
    block.each([&](int thread) {
      Word x[kEach];
      OUTSIZE_UNROLL
      for (int u = 0; u < kEach; ++u) {
        const std::uint32_t i = thread + u * kThreads, n = far_size.quotient(i), f = i - n * far.size;
        if (n < nears && f < fars) x[u] = source[n * near.from + f * far.from];
      }
      OUTSIZE_UNROLL
      for (int u = 0; u < kEach; ++u) {
        const std::uint32_t i = thread + u * kThreads, n = far_size.quotient(i), f = i - n * far.size;
        if (n < nears && f < fars) tile[n * pitch() + f] = x[u];
      }
    });
    block.last([&](int thread) {
      OUTSIZE_UNROLL
      for (int u = 0; u < kEach; ++u) {
        const std::uint32_t i = thread + u * kThreads, f = near_size.quotient(i), n = i - f * near.size;
        if (n < nears && f < fars) target[n * near.to + f * far.to] = tile[n * pitch() + f];
      }
    });
  }
};

// The axes in the order of the target's memory, the innermost first; those that continue one another on both sides as one.
Move merged(Move move) {
  std::sort(move.axes.begin(), move.axes.begin() + move.count, [](const MoveAxis& a, const MoveAxis& b) { return a.to < b.to; });
  Move result;
  for (int i = 0; i < move.count; ++i) {
    const MoveAxis& axis = move[i];
    if (axis.extent == 1 && axis.all_held()) continue;
    if (result.count > 0) {
      MoveAxis& inner = result[result.count - 1];
      if (inner.all_held() && axis.from == inner.from * inner.extent && axis.to == inner.to * inner.extent) {
        inner.held = {axis.held.lo * inner.extent, axis.held.hi * inner.extent};
        inner.extent *= axis.extent;
        continue;
      }
    }
    result.add(axis);
  }
  if (result.count == 0) result.add({1, 1, 1});
  return result;
}

bool fits_vectors(const Move& move, int v) {
  if (move[0].to != 1 || move[0].extent % v != 0) return false;
  if (move[0].from != 1 && !move[0].held.empty()) return false;
  if (move[0].held.lo % v != 0 || move[0].held.hi % v != 0) return false;
  for (int i = 1; i < move.count; ++i)
    if (move[i].from % v != 0 || move[i].to % v != 0) return false;
  return true;
}

template <int V, bool kPads>
void launch_runs(const Word* from, Word* to, const Move& move, Word value, void* queue) {
  RunProgram<V, kPads> program{from, to, {}, static_cast<std::uint32_t>(move.elements() / V), value};
  for (int i = 0; i < move.count; ++i) program.loops.add(move[i], i == 0 ? V : 1);
  launch(program, program.grid(), queue);
}

// Turning a tile pays where it has as many words as a block has threads.
bool is_worth_turning(const MoveAxis& near, const MoveAxis& far) {
  return near.from > far.from && near.extent * far.extent >= TileProgram::kThreads;
}

void launch_move(const Word* from, Word* to, const Move& move, Word value, void* queue) {
  bool pads = false;
  int far = 0;  // the source's fast axis
  for (int i = 0; i < move.count; ++i) {
    pads = pads || !move[i].all_held();
    if (move[i].from < move[far].from) far = i;
  }
  if (!pads && is_worth_turning(move[0], move[far])) {
    TileProgram program(from, to, move[0], move[far]);
    for (int i = 1; i < move.count; ++i)
      if (i != far) program.outer.add(move[i]);
    launch(program, program.grid(), queue);
  } else if (fits_vectors(move, 4) && aligned<4>(from, to)) {
    pads ? launch_runs<4, true>(from, to, move, value, queue) : launch_runs<4, false>(from, to, move, value, queue);
  } else {
    pads ? launch_runs<1, true>(from, to, move, value, queue) : launch_runs<1, false>(from, to, move, value, queue);
  }
}

// Halves the longest axis until what is left fits a launch.
void launch_parts(const Word* from, Word* to, const Move& move, Word value, void* queue, std::int64_t most) {
  if (move.elements() <= most) return launch_move(from, to, move, value, queue);
  int longest = 0;
  for (int i = 1; i < move.count; ++i)
    if (move[i].extent > move[longest].extent) longest = i;
  const MoveAxis& axis = move[longest];
  constexpr std::int64_t kWhole = 32;  // what halves are multiples of, lest vectors no longer fit
  const std::int64_t half = axis.extent > 2 * kWhole ? axis.extent / 2 / kWhole * kWhole : axis.extent / 2;
  Move first = move, second = move;
  first[longest].extent = half;
  first[longest].held = {std::min(axis.held.lo, half), std::min(axis.held.hi, half)};
  second[longest].extent = axis.extent - half;
  second[longest].held = {std::max(axis.held.lo - half, std::int64_t{0}), std::max(axis.held.hi - half, std::int64_t{0})};
  launch_parts(from, to, first, value, queue, most);
  launch_parts(from + std::max(half - axis.held.lo, std::int64_t{0}) * axis.from, to + half * axis.to, second, value, queue, most);
}

template <class T>
T* first_word(const StorageRule& storage, const PieceOf<T>& piece, const Dims& position) {
  return piece.data + stored_offset(storage, piece.format, piece.box, position);
}

Dims same_order(int rank) {
  Dims order;
  for (int dim = 0; dim < rank; ++dim) order.push_back(dim);
  return order;
}

}  // namespace

void expect_words(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const auto check = [&](const ValueType& type) {
    if (size_of(type.dtype) != sizeof(Word))
      internal_error("op {}: kernels of the card move elements of four bytes, not {}", call.site.op.name, to_string(type));
  };
  for (int i = 0; i < call.site.inputs(); ++i) check(call.site.in(i));
  for (int i = 0; i < call.site.outputs(); ++i) check(call.site.out(i));
}

Dims steps_of(const StorageRule& storage, Format format, const Box& box) {
  const int rank = box.rank();
  Dims steps = Dims::filled(rank, 0);
  const bool channels_last = stored_channels_last(storage, format, rank);
  std::int64_t next = channels_last ? box.extent(1) : 1;
  for (int dim = rank - 1; dim >= 0; --dim) {
    if (channels_last && dim == 1) {
      steps[dim] = 1;
      continue;
    }
    steps[dim] = next;
    next *= box.extent(dim);
  }
  return steps;
}

void run_move(const Word* from, Word* to, Move move, Word value, void* queue, std::int64_t most) {
  if (move.elements() > 0) launch_parts(from, to, merged(move), value, queue, most);
}

void move_box(const StorageRule& storage, const PieceOf<const Word>& from, const PieceOf<Word>& to, const Dims& order,
              void* queue) {
  // In the coordinates of each side.
  Box source = from.box, target = to.box;
  for (int dim = 0; dim < target.rank(); ++dim) {
    const int other = static_cast<int>(order[dim]);
    target.set(dim, intersect(to.box[dim], from.box[other]));
    source.set(other, target[dim]);
  }
  if (target.empty()) return;
  const Dims from_steps = steps_of(storage, from.format, from.box), to_steps = steps_of(storage, to.format, to.box);
  Move move;
  for (int dim = 0; dim < target.rank(); ++dim)
    move.add({target.extent(dim), from_steps[static_cast<int>(order[dim])], to_steps[dim]});
  run_move(first_word(storage, from, source.lo), first_word(storage, to, target.lo), move, 0, queue);
}

void move_box(const StorageRule& storage, const PieceOf<const Word>& from, const PieceOf<Word>& to, void* queue) {
  move_box(storage, from, to, same_order(to.box.rank()), queue);
}

void pad_box(const StorageRule& storage, const PieceOf<const Word>& from, const PieceOf<Word>& to, Word value, void* queue) {
  const Box region = intersect(from.box, to.box);
  Move move;
  if (region.empty()) {
    move.add({to.box.elements(), 0, 1, Interval{0, 0}});
    return run_move(nullptr, to.data, move, value, queue);
  }
  const Dims from_steps = steps_of(storage, from.format, from.box), to_steps = steps_of(storage, to.format, to.box);
  for (int dim = 0; dim < region.rank(); ++dim)
    move.add({to.box.extent(dim), from_steps[dim], to_steps[dim],
              Interval{region.lo[dim] - to.box.lo[dim], region.hi[dim] - to.box.lo[dim]}});
  run_move(first_word(storage, from, region.lo), to.data, move, value, queue);
}

PieceOf<const Word> input_piece(const KernelRun& run, int i, Format format, const Dims& shift) {
  return {in<Word>(run, i), run.in_boxes[static_cast<std::size_t>(i)].shifted(shift), format};
}
PieceOf<Word> output_piece(const KernelRun& run, int i, Format format, const Dims& shift) {
  return {out<Word>(run, i), run.out_boxes[static_cast<std::size_t>(i)].shifted(shift), format};
}

}  // namespace outsize::OUTSIZE_PLACE
