#include <cstring>

#include "ops/cpu_support.h"
#include "ops/registry.h"

// Both kinds move one slab between a whole piece and a part of it: concat from part to whole, its gradient from whole to part.
namespace outsize {

namespace {

// The positions that a part and the whole share, as both store them.
struct Slab {
  // Outer × length × inner elements, contiguous in the last two: any axis, except channels that do not meet block for block.
  std::int64_t outer = 0;
  std::int64_t length = 0;  // elements
  std::int64_t part_offset = 0;
  std::int64_t part_stride = 0;
  std::int64_t whole_offset = 0;
  std::int64_t whole_stride = 0;
  // Else: channel by channel.
  bool by_channel = false;
  Interval channels;  // of the whole piece, from its first
  std::int64_t part_channel = 0;
};

// The extents of a piece as it is stored: N C H W (plain), or N ⌈C/b⌉ H W b.
Dims stored_extents(const StorageRule& storage, Format format, const Box& box) {
  Dims extents = box.shape();
  if (format == Format::plain) return extents;
  extents[1] = (extents[1] + storage.channel_block - 1) / storage.channel_block;
  extents.push_back(storage.channel_block);
  return extents;
}

std::int64_t product_after(const Dims& extents, int axis) {
  std::int64_t product = 1;
  for (int i = axis + 1; i < extents.rank(); ++i) product *= extents[i];
  return product;
}

// `part_start` is where the part begins in the whole value.
Slab make_slab(const StorageRule& storage, Format format, int axis, const Box& part, std::int64_t part_start, const Box& whole) {
  const Interval shared = intersect({part.lo[axis] + part_start, part.hi[axis] + part_start}, whole[axis]);
  Slab slab;
  if (shared.empty() || part.empty()) return slab;
  const Dims part_extents = stored_extents(storage, format, part);
  const Dims whole_extents = stored_extents(storage, format, whole);
  const std::int64_t inner = product_after(whole_extents, axis);
  OUTSIZE_CHECK(inner == product_after(part_extents, axis));
  std::int64_t from = shared.lo - part_start - part.lo[axis];
  std::int64_t to = shared.lo - whole.lo[axis];
  std::int64_t count = shared.size();
  slab.outer = 1;
  for (int i = 0; i < axis; ++i) slab.outer *= whole_extents[i];
  if (format == Format::map && axis == 1) {
    const std::int64_t block = storage.channel_block;
    slab.channels = {to, to + count};
    slab.part_channel = from;
    // A last block that is not full may be copied with its padding only where both sides end.
    const bool ends = shared.hi == part.hi[1] + part_start && shared.hi == whole.hi[1];
    slab.by_channel = from % block != 0 || to % block != 0 || (count % block != 0 && !ends);
    from /= block;
    to /= block;
    count = (count + block - 1) / block;
  }
  slab.length = count * inner;
  slab.part_offset = from * inner;
  slab.part_stride = part_extents[axis] * inner;
  slab.whole_offset = to * inner;
  slab.whole_stride = whole_extents[axis] * inner;
  return slab;
}

// Moves `outer` runs, each cut so that all threads have work.
void copy_slab(const Slab& slab, const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride) {
  const std::int64_t parts = chunks_of(slab.length);
  parallel_for(slab.outer * parts, slab.outer * slab.length * 8, [&](std::int64_t i) {
    const std::int64_t start = i % parts * kChunk;
    std::memcpy(to + i / parts * to_stride + start, from + i / parts * from_stride + start,
                static_cast<std::size_t>(std::min(kChunk, slab.length - start)) * sizeof(float));
  });
}

// Moves channels one by one; `from_channel` and `to_channel` are those that meet first.
void copy_channels(const MapPiece& source, const float* from, std::int64_t from_channel, const MapPiece& target, float* to,
                   std::int64_t to_channel, std::int64_t count) {
  const std::int64_t block = source.block;
  const std::int64_t positions = source.positions();
  const auto channel_offset = [block](const MapPiece& piece, std::int64_t n, std::int64_t channel) {
    return (n * piece.blocks + channel / block) * piece.plane() + channel % block;
  };
  // Threads share positions, not channels: those of one block lie in the same cache lines.
  const std::int64_t parts = chunks_of(positions, kChunk / block);
  parallel_for(source.samples * parts, source.samples * count * positions * 8, [&](std::int64_t i) {
    const std::int64_t first = i % parts * (kChunk / block);
    const std::int64_t last = std::min(positions, first + kChunk / block);
    for (std::int64_t c = 0; c < count; ++c) {
      const float* const f = from + channel_offset(source, i / parts, from_channel + c);
      float* const t = to + channel_offset(target, i / parts, to_channel + c);
      for (std::int64_t p = first; p < last; ++p) t[p * block] = f[p * block];
    }
  });
}

// What concat and its gradient know of a call.
struct Parts {
  Parts(const Call& call, const StorageRule& rule, bool gradient)
      : storage(rule), format(call.site.in(0).format), whole(gradient ? call.boxes.in[0] : call.boxes.out[0]) {
    const int axis = static_cast<int>(call.site.integer("axis"));
    const std::vector<Box>& boxes = gradient ? call.boxes.out : call.boxes.in;
    std::int64_t start = 0;
    std::int64_t covered = 0;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const int index = static_cast<int>(i);
      slabs.push_back(make_slab(storage, format, axis, boxes[i], start, whole));
      pieces.push_back(boxes[i]);
      const ValueType& type = gradient ? call.site.out(index) : call.site.in(index);
      if (!boxes[i].empty()) covered += intersect({boxes[i].lo[axis] + start, boxes[i].hi[axis] + start}, whole[axis]).size();
      start += type.shape[axis];
      by_channel = by_channel || slabs.back().by_channel;
    }
    complete = covered == whole.extent(axis);
  }

  StorageRule storage;
  Format format;
  Box whole;
  std::vector<Slab> slabs;
  std::vector<Box> pieces;
  bool by_channel = false;
  bool complete = false;  // the parts cover the whole box
};

class Concat : public Kernel {
 public:
  Concat(Parts parts, std::int64_t bytes) : parts_(std::move(parts)), bytes_(bytes) {}
  std::string name() const override { return parts_.by_channel ? "channels" : "copy"; }

  void run(const KernelRun& run) const override {
    float* const whole = f32(run.out[0]);
    // Channel by channel nothing else would write the padding.
    if (parts_.by_channel || !parts_.complete) fill_zero(whole, bytes_);
    for (std::size_t i = 0; i < parts_.slabs.size(); ++i) {
      const Slab& slab = parts_.slabs[i];
      const float* const part = f32(run.in[i]);
      if (slab.outer == 0) continue;
      if (slab.by_channel)
        copy_channels(MapPiece(parts_.storage, parts_.pieces[i]), part, slab.part_channel, MapPiece(parts_.storage, parts_.whole),
                      whole, slab.channels.lo, slab.channels.size());
      else
        copy_slab(slab, part + slab.part_offset, slab.part_stride, whole + slab.whole_offset, slab.whole_stride);
    }
  }

 private:
  Parts parts_;
  std::int64_t bytes_;
};

class ConcatGrad : public Kernel {
 public:
  ConcatGrad(Parts parts, std::vector<std::int64_t> bytes) : parts_(std::move(parts)), bytes_(std::move(bytes)) {}
  std::string name() const override { return parts_.by_channel ? "channels" : "copy"; }

  void run(const KernelRun& run) const override {
    const float* const whole = f32(run.in[0]);
    for (std::size_t i = 0; i < parts_.slabs.size(); ++i) {
      const Slab& slab = parts_.slabs[i];
      if (bytes_[i] == 0) continue;
      float* const part = f32(run.out[i]);
      const bool all = slab.outer != 0 && !slab.by_channel && slab.length == slab.part_stride;
      if (!all) fill_zero(part, bytes_[i]);
      if (slab.outer == 0) continue;
      if (slab.by_channel)
        copy_channels(MapPiece(parts_.storage, parts_.whole), whole, slab.channels.lo, MapPiece(parts_.storage, parts_.pieces[i]),
                      part, slab.part_channel, slab.channels.size());
      else
        copy_slab(slab, whole + slab.whole_offset, slab.whole_stride, part + slab.part_offset, slab.part_stride);
    }
  }

 private:
  Parts parts_;
  std::vector<std::int64_t> bytes_;
};

void check(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (call.site.in(0).format == Format::map) require_blocks(call, storage);
}

std::unique_ptr<Kernel> make_concat(const Call& call, const StorageRule& storage) {
  check(call, storage);
  return std::make_unique<Concat>(Parts(call, storage, false), output_elements(call, storage, 0) * size_of(DType::f32));
}

std::unique_ptr<Kernel> make_grad(const Call& call, const StorageRule& storage) {
  check(call, storage);
  std::vector<std::int64_t> bytes;
  for (int i = 0; i < call.site.outputs(); ++i) bytes.push_back(output_elements(call, storage, i) * size_of(DType::f32));
  return std::make_unique<ConcatGrad>(Parts(call, storage, true), std::move(bytes));
}

}  // namespace

void cpu_concat(KernelTable& table) {
  table.add("concat", make_concat);
  table.add("concat_grad", make_grad);
}

}  // namespace outsize
