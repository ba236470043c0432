#include <xmmintrin.h>

#include <cstring>

#include "ops/cpu_movement.h"

namespace outsize {

void require_words(const Call& call, const StorageRule& storage) {
  const auto check = [&](const ValueType& type) {
    if (size_of(type.dtype) != sizeof(Word))
      internal_error("the cpu kernel of {} moves elements of four bytes, not {}", call.site.op.name, to_string(type));
    if (type.format == Format::map) require_blocks(call, storage);
  };
  for (int i = 0; i < call.site.inputs(); ++i) check(call.site.in(i));
  for (int i = 0; i < call.site.outputs(); ++i) check(call.site.out(i));
}

namespace {

// ---- a copy as nested loops with steps on both sides ----

struct Axis {
  std::int64_t extent;
  std::int64_t from;
  std::int64_t to;
};

// Axes from the outermost to the innermost of the target.
struct Axes {
  static constexpr int kMost = 2 * Dims::kMaxRank;
  std::array<Axis, kMost> list{};
  int count = 0;

  Axis& operator[](int i) { return list[static_cast<std::size_t>(i)]; }
  const Axis& operator[](int i) const { return list[static_cast<std::size_t>(i)]; }
  // An axis that continues the one outside it on both sides joins it.
  void add(const Axis& axis) {
    if (axis.extent == 1) return;
    if (count > 0) {
      Axis& outer = (*this)[count - 1];
      if (outer.from == axis.from * axis.extent && outer.to == axis.to * axis.extent) {
        outer = {outer.extent * axis.extent, axis.from, axis.to};
        return;
      }
    }
    (*this)[count++] = axis;
  }
  void remove(int i) {
    for (--count; i < count; ++i) (*this)[i] = (*this)[i + 1];
  }
  std::int64_t product() const {
    std::int64_t total = 1;
    for (int i = 0; i < count; ++i) total *= (*this)[i].extent;
    return total;
  }
  // The offsets of iteration `index` of all loops.
  Axis offsets(std::int64_t index) const {
    Axis total{0, 0, 0};
    for (int i = count - 1; i >= 0; --i) {
      const std::int64_t at = index % (*this)[i].extent;
      index /= (*this)[i].extent;
      total.from += at * (*this)[i].from;
      total.to += at * (*this)[i].to;
    }
    return total;
  }
};

std::size_t word_bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(Word); }

// Rows of the same few words, so that a copy is a move or two.
template <int kLength>
void copy_short_rows(const Word* from, std::int64_t from_step, Word* to, std::int64_t to_step, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i) std::memcpy(to + i * to_step, from + i * from_step, kLength * sizeof(Word));
}

void copy_rows(const Word* from, std::int64_t from_step, Word* to, std::int64_t to_step, std::int64_t rows, std::int64_t length) {
  using Copy = void (*)(const Word*, std::int64_t, Word*, std::int64_t, std::int64_t);
  static constexpr Copy kShort[] = {nullptr,
                                    copy_short_rows<1>,
                                    copy_short_rows<2>,
                                    copy_short_rows<3>,
                                    copy_short_rows<4>,
                                    copy_short_rows<5>,
                                    copy_short_rows<6>,
                                    copy_short_rows<7>,
                                    copy_short_rows<8>,
                                    copy_short_rows<9>,
                                    copy_short_rows<10>,
                                    copy_short_rows<11>,
                                    copy_short_rows<12>,
                                    copy_short_rows<13>,
                                    copy_short_rows<14>,
                                    copy_short_rows<15>,
                                    copy_short_rows<16>};
  if (length <= 16) return kShort[length](from, from_step, to, to_step, rows);
  for (std::int64_t i = 0; i < rows; ++i) std::memcpy(to + i * to_step, from + i * from_step, word_bytes(length));
}

// The innermost axis is contiguous on both sides.
void copy_runs(Axes axes, const Word* from, Word* to) {
  const std::int64_t length = axes[axes.count - 1].extent;
  axes.remove(axes.count - 1);
  const Axis rows = axes.count > 0 ? axes[axes.count - 1] : Axis{1, 0, 0};
  if (axes.count > 0) axes.remove(axes.count - 1);
  const std::int64_t columns = chunks_of(length);
  const std::int64_t group = std::clamp(kChunk / length, std::int64_t{1}, rows.extent);
  const std::int64_t groups = chunks_of(rows.extent, group);
  const std::int64_t outer = axes.product();
  parallel_for(outer * groups * columns, outer * rows.extent * length * 8, [&](std::int64_t i) {
    const std::int64_t column = i % columns * kChunk;
    const std::int64_t first = i / columns % groups * group;
    const Axis at = axes.offsets(i / columns / groups);
    copy_rows(from + at.from + first * rows.from + column, rows.from, to + at.to + first * rows.to + column, rows.to,
              std::min(group, rows.extent - first), std::min(kChunk, length - column));
  });
}

constexpr std::int64_t kTile = 64;

// to[j][i] = from[i · step + j] for 4 × 4 words.
void transpose_four(const Word* from, std::int64_t step, Word* to, std::int64_t to_step) {
  const auto load = [&](std::int64_t i) { return _mm_loadu_ps(reinterpret_cast<const float*>(from + i * step)); };
  const auto store = [&](std::int64_t j, __m128 row) { _mm_storeu_ps(reinterpret_cast<float*>(to + j * to_step), row); };
  __m128 r0 = load(0), r1 = load(1), r2 = load(2), r3 = load(3);
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  store(0, r0);
  store(1, r1);
  store(2, r2);
  store(3, r3);
}

// to[i · a.to + j · b.to] = from[i · a.from + j · b.from] for at most kTile of each. By way of a small buffer where both sides
// have a contiguous axis: a line of memory is then touched once, however its neighbours' addresses collide in the cache.
void transpose(const Word* from, Word* to, const Axis& a, const Axis& b) {
  if (b.from == 1 && a.to == 1) {
    Word buffer[kTile * kTile];
    const std::int64_t a_fours = a.extent / 4 * 4;
    const std::int64_t b_fours = b.extent / 4 * 4;
    for (std::int64_t i = 0; i < a_fours; i += 4)
      for (std::int64_t j = 0; j < b_fours; j += 4) transpose_four(from + i * a.from + j, a.from, buffer + j * kTile + i, kTile);
    for (std::int64_t i = 0; i < a.extent; ++i)
      for (std::int64_t j = i < a_fours ? b_fours : 0; j < b.extent; ++j) buffer[j * kTile + i] = from[i * a.from + j];
    copy_rows(buffer, kTile, to, b.to, b.extent, a.extent);
    return;
  }
  for (std::int64_t j = 0; j < b.extent; ++j)
    for (std::int64_t i = 0; i < a.extent; ++i) to[i * a.to + j * b.to] = from[i * a.from + j * b.from];
}

// The innermost axis of the target is not that of the source: both go in tiles, so that lines are used while they are cached.
void copy_transposed(Axes axes, const Word* from, Word* to) {
  const Axis a = axes[axes.count - 1];
  axes.remove(axes.count - 1);
  Axis b{1, 0, 0};
  for (int i = 0; i < axes.count; ++i)
    if (b.extent == 1 || axes[i].from < b.from) b = axes[i];
  for (int i = 0; i < axes.count; ++i)
    if (axes[i].from == b.from && axes[i].to == b.to) {
      axes.remove(i);
      break;
    }
  const std::int64_t a_tiles = chunks_of(a.extent, kTile);
  const std::int64_t b_tiles = chunks_of(b.extent, kTile);
  const std::int64_t outer = axes.product();
  parallel_for(outer * a_tiles * b_tiles, outer * a.extent * b.extent * 8, [&](std::int64_t i) {
    const std::int64_t a_first = i % a_tiles * kTile;
    const std::int64_t b_first = i / a_tiles % b_tiles * kTile;
    const Axis at = axes.offsets(i / a_tiles / b_tiles);
    transpose(from + at.from + a_first * a.from + b_first * b.from, to + at.to + a_first * a.to + b_first * b.to,
              {std::min(kTile, a.extent - a_first), a.from, a.to}, {std::min(kTile, b.extent - b_first), b.from, b.to});
  });
}

void copy_axes(Axes axes, const Word* from, Word* to) {
  if (axes.count == 0) axes[axes.count++] = {1, 1, 1};
  const Axis& inner = axes[axes.count - 1];
  if (inner.from == 1 && inner.to == 1)
    copy_runs(axes, from, to);
  else
    copy_transposed(axes, from, to);
}

// ---- channel blocks ----

// Indices first + i · block + j, i < blocks, j < lanes, which lie in one channel block each, on both sides.
struct LaneGroup {
  std::int64_t first;
  std::int64_t lanes;
  std::int64_t blocks;
};

// A range of indices as such groups: those that start in its first `block` indices, and what is cut off at the end.
struct LaneGroups {
  std::array<LaneGroup, 8> list{};
  int count = 0;

  // Index 0 lies in lane from_lane (to_lane) of a block, or nowhere (-1) where that side has no blocks.
  LaneGroups(std::int64_t size, std::int64_t block, std::int64_t from_lane, std::int64_t to_lane) {
    if (from_lane < 0 && to_lane < 0) {
      list[static_cast<std::size_t>(count++)] = {0, size, 1};
      return;
    }
    const auto room = [&](std::int64_t lane, std::int64_t at) { return lane < 0 ? block : block - (lane + at) % block; };
    for (std::int64_t at = 0; at < std::min(size, block);) {
      const std::int64_t lanes = std::min({room(from_lane, at), room(to_lane, at), block - at});
      const std::int64_t whole = (size - at) / block + ((size - at) % block >= lanes ? 1 : 0);
      if (whole > 0) list[static_cast<std::size_t>(count++)] = {at, lanes, whole};
      const std::int64_t rest = size - at - whole * block;
      if (rest > 0 && rest < lanes) list[static_cast<std::size_t>(count++)] = {at + whole * block, rest, 1};
      at += lanes;
    }
  }
};

// The elements from one index of a dimension to the next; by block and by lane in the channels of a map.
struct Step {
  std::int64_t index = 0;
  std::int64_t lane = 1;
  bool blocked = false;

  std::int64_t offset(std::int64_t at, std::int64_t block) const {
    return blocked ? at / block * index + at % block * lane : at * index;
  }
  std::int64_t by_block(std::int64_t block) const { return blocked ? index : index * block; }
  std::int64_t by_lane() const { return blocked ? lane : index; }
};

struct StepsOf {
  std::array<Step, Dims::kMaxRank> of{};
  StepsOf(std::int64_t block, Format format, const Box& box) {
    std::int64_t next = format == Format::map ? block : 1;
    for (int dim = box.rank() - 1; dim >= 0; --dim) {
      const bool blocked = format == Format::map && dim == 1;
      of[static_cast<std::size_t>(dim)] = {next, 1, blocked};
      next *= blocked ? (box.extent(1) + block - 1) / block : box.extent(dim);
    }
  }
  const Step& operator[](int dim) const { return of[static_cast<std::size_t>(dim)]; }
};

void clear_last_lanes(const StorageRule& storage, const PieceOf<Word>& to) {
  const MapPiece map(storage, to.box);
  const std::int64_t lanes = map.lanes(map.blocks - 1);
  if (lanes == map.block) return;
  parallel_for(map.samples, map.samples * map.plane() * 4, [&](std::int64_t n) {
    Word* const plane = to.data + ((n + 1) * map.blocks - 1) * map.plane();
    for (std::int64_t i = 0; i < map.positions(); ++i)
      for (std::int64_t c = lanes; c < map.block; ++c) plane[i * map.block + c] = 0;
  });
}

}  // namespace

void move_box(const StorageRule& storage, const PieceOf<const Word>& from, const PieceOf<Word>& to, const Dims& order) {
  const std::int64_t block = storage.channel_block;
  const int rank = to.box.rank();
  // The region in the target's coordinates.
  Box region = to.box;
  for (int dim = 0; dim < rank; ++dim) region.set(dim, intersect(to.box[dim], from.box[static_cast<int>(order[dim])]));
  if (region.empty()) return;
  const StepsOf from_steps(block, from.format, from.box);
  const StepsOf to_steps(block, to.format, to.box);
  const auto from_dim = [&](int dim) { return static_cast<int>(order[dim]); };
  const auto from_start = [&](int dim) { return region.lo[dim] - from.box.lo[from_dim(dim)]; };
  const auto to_start = [&](int dim) { return region.lo[dim] - to.box.lo[dim]; };

  // Source and target may have channel blocks in different dimensions; every pair of groups is one copy.
  const bool to_map = to.format == Format::map;
  int from_channels = -1;
  for (int dim = 0; dim < rank; ++dim)
    if (from.format == Format::map && from_dim(dim) == 1) from_channels = dim;
  const int to_channels = to_map ? 1 : -1;
  const auto groups_of = [&](int dim) {
    return LaneGroups(region.extent(dim), block, dim == from_channels ? from_start(dim) % block : -1,
                      dim == to_channels ? to_start(dim) % block : -1);
  };
  // Where both end in the same block at the same lane, the padding behind comes along.
  const bool same_channels = to_channels == 1 && from_channels == 1;
  const bool ends_alike = same_channels && region.hi[1] == to.box.hi[1] && region.hi[1] == from.box.hi[1] &&
                          from_start(1) % block == 0 && to_start(1) % block == 0;
  if (ends_alike) region.hi[1] += (block - region.extent(1) % block) % block;

  const auto copy = [&](const LaneGroup& in_from, const LaneGroup& in_to) {
    Axes axes;
    std::int64_t from_offset = 0;
    std::int64_t to_offset = 0;
    const auto first = [&](int dim) {
      if (dim == to_channels) return in_to.first;
      return dim == from_channels ? in_from.first : std::int64_t{0};
    };
    for (int dim = 0; dim < rank; ++dim) {
      from_offset += from_steps[from_dim(dim)].offset(from_start(dim) + first(dim), block);
      to_offset += to_steps[dim].offset(to_start(dim) + first(dim), block);
      const Step& f = from_steps[from_dim(dim)];
      const Step& t = to_steps[dim];
      if (dim == to_channels) {
        axes.add({in_to.blocks, f.by_block(block), t.by_block(block)});  // its lanes come last
      } else if (dim == from_channels) {
        axes.add({in_from.blocks, f.by_block(block), t.by_block(block)});
        axes.add({in_from.lanes, f.by_lane(), t.by_lane()});
      } else {
        axes.add({region.extent(dim), f.index, t.index});
      }
    }
    if (to_map) axes.add({in_to.lanes, from_steps[from_dim(1)].by_lane(), 1});
    copy_axes(axes, from.data + from_offset, to.data + to_offset);
  };

  const LaneGroups none(1, block, -1, -1);
  const LaneGroups to_groups = to_map ? groups_of(1) : none;
  const LaneGroups from_groups = from_channels >= 0 && from_channels != to_channels ? groups_of(from_channels) : none;
  for (int i = 0; i < from_groups.count; ++i)
    for (int j = 0; j < to_groups.count; ++j)
      copy(from_groups.list[static_cast<std::size_t>(i)], to_groups.list[static_cast<std::size_t>(j)]);
  if (to_map && !ends_alike && region.hi[1] == to.box.hi[1]) clear_last_lanes(storage, to);
}

void move_box(const StorageRule& storage, const PieceOf<const Word>& from, const PieceOf<Word>& to) {
  Dims same;
  for (int dim = 0; dim < to.box.rank(); ++dim) same.push_back(dim);
  move_box(storage, from, to, same);
}

void fill_outside(const StorageRule& storage, const PieceOf<Word>& to, const Box& region, Word value) {
  // The stored axes with the range that the region covers, in whole channel blocks only.
  struct Covered {
    std::int64_t extent;
    Interval range;
  };
  std::array<Covered, Dims::kMaxRank + 1> axes{};
  int count = 0;
  const bool map = to.format == Format::map;
  const std::int64_t block = storage.channel_block;
  for (int dim = 0; dim < to.box.rank(); ++dim) {
    Covered axis{to.box.extent(dim), {region.lo[dim] - to.box.lo[dim], region.hi[dim] - to.box.lo[dim]}};
    if (map && dim == 1) {
      const bool to_end = axis.range.hi == axis.extent;
      axis.extent = (axis.extent + block - 1) / block;
      axis.range = {(axis.range.lo + block - 1) / block, to_end ? axis.extent : axis.range.hi / block};
    }
    if (region.empty() || axis.range.empty()) axis.range = {};
    axes[static_cast<std::size_t>(count++)] = axis;
  }
  if (map) axes[static_cast<std::size_t>(count++)] = {block, {0, block}};

  // What is before and after the range along one axis, inside the ranges of those outside it, all of those inside it.
  for (int d = 0; d < count; ++d) {
    const Covered& axis = axes[static_cast<std::size_t>(d)];
    std::int64_t inner = 1;
    for (int i = d + 1; i < count; ++i) inner *= axes[static_cast<std::size_t>(i)].extent;
    std::int64_t outer = 1;
    for (int i = 0; i < d; ++i) outer *= axes[static_cast<std::size_t>(i)].range.size();
    const Interval sides[] = {{0, axis.range.lo}, {axis.range.hi, axis.extent}};
    for (const Interval& side : sides) {
      const std::int64_t length = side.size() * inner;
      if (length == 0) continue;
      const std::int64_t parts = chunks_of(length);
      parallel_for(outer * parts, outer * length * 4, [&](std::int64_t task) {
        std::int64_t index = task / parts;
        std::int64_t step = axis.extent * inner;
        std::int64_t offset = side.lo * inner + task % parts * kChunk;
        for (int i = d - 1; i >= 0; --i) {
          const Covered& outside = axes[static_cast<std::size_t>(i)];
          offset += (outside.range.lo + index % outside.range.size()) * step;
          index /= outside.range.size();
          step *= outside.extent;
        }
        std::fill_n(to.data + offset, std::min(kChunk, length - task % parts * kChunk), value);
      });
    }
    if (axis.range.empty()) break;  // all of it was outside
  }
  if (map && value != 0) clear_last_lanes(storage, to);
}

namespace {

class Slice final : public Kernel {
 public:
  Slice(const Call& call, const StorageRule& storage)
      : storage_(storage), format_(call.site.in(0).format), back_(negated(call.site.integers("start"))) {}
  std::string name() const override { return "copy"; }
  void run(const KernelRun& run) const override {
    if (run.out[0] == nullptr) return;
    move_box(storage_, {words(run.in[0]), run.in_boxes[0].shifted(back_), format_}, {words(run.out[0]), run.out_boxes[0], format_});
  }

 private:
  StorageRule storage_;
  Format format_;
  Dims back_;
};

std::unique_ptr<Kernel> make_slice(const Call& call, const StorageRule& storage) {
  require_words(call, storage);
  return std::make_unique<Slice>(call, storage);
}

}  // namespace

void cpu_slice(KernelTable& table) { table.add("slice", make_slice); }

}  // namespace outsize
