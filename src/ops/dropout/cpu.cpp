#include "ops/cpu_philox.h"
#include "ops/dropout/dropout.h"
#include "ops/registry.h"

// Random words are drawn for runs of elements whose places in the whole value follow each other: all of a plain piece, or the
// positions of one channel of a map, as far as the box is not cut.
namespace outsize {

namespace {

// What the words of a call are drawn from, beside the places.
struct Draw {
  std::uint32_t key0;
  std::uint32_t key1;
  std::uint32_t stream;
  std::uint32_t step;
};

// Philox blocks drawn at once; a block is four words.
constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kGroup = 4 * kLanes;
constexpr std::int64_t kTile = 256;            // positions of a map drawn before they are used
constexpr std::int64_t kRow = kTile + kGroup;  // words of one channel of a tile: it starts inside a group

// The words of kLanes blocks, one block a lane.
OUTSIZE_INLINE void draw_group(const Draw& from, std::uint64_t block, std::uint32_t* words) {
  std::uint32_t w0[kLanes], w1[kLanes], w2[kLanes], w3[kLanes];
  // Vectorized without being told to: `omp simd` would keep each lane's array of words in memory, and then it is not.
  for (std::int64_t i = 0; i < kLanes; ++i) {
    const auto drawn = philox_lane(block + static_cast<std::uint64_t>(i), from.stream, from.step, from.key0, from.key1);
    w0[i] = drawn[0];
    w1[i] = drawn[1];
    w2[i] = drawn[2];
    w3[i] = drawn[3];
  }
  for (std::int64_t i = 0; i < kLanes; ++i) {
    words[4 * i] = w0[i];
    words[4 * i + 1] = w1[i];
    words[4 * i + 2] = w2[i];
    words[4 * i + 3] = w3[i];
  }
}

// Elements that follow each other in memory and in the value, from place `index` on.
OUTSIZE_CLONES void drop_run(const Draw& from, std::uint64_t index, const float* x, float* y, std::int64_t count,
                             std::uint32_t threshold, float scale) {
  alignas(64) std::uint32_t words[kGroup];
  std::int64_t skip = static_cast<std::int64_t>(index % 4);
  for (std::int64_t done = 0; done < count;) {
    draw_group(from, (index + static_cast<std::uint64_t>(done)) / 4, words);
    const std::int64_t here = std::min(kGroup - skip, count - done);
#pragma omp simd
    for (std::int64_t i = 0; i < here; ++i) y[done + i] = words[skip + i] >= threshold ? x[done + i] * scale : 0.0f;
    done += here;
    skip = 0;
  }
}

// Sets bit `lane` of bits[i] where position i of one channel is kept, for `count` <= kTile positions from place `index` on.
OUTSIZE_CLONES void draw_channel(const Draw& from, std::uint64_t index, std::uint32_t* bits, int lane, std::int64_t count,
                                 std::uint32_t threshold) {
  alignas(64) std::uint32_t words[kRow];
  const std::int64_t skip = static_cast<std::int64_t>(index % 4);
  for (std::int64_t done = 0; done < skip + count; done += kGroup)
    draw_group(from, (index + static_cast<std::uint64_t>(done)) / 4, words + done);
  const std::uint32_t bit = 1u << lane;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) bits[i] |= words[skip + i] >= threshold ? bit : 0u;
}

template <int kBlock>
OUTSIZE_INLINE void apply_block(const float* x, const std::uint32_t* bits, float* y, std::int64_t count, float scale) {
  for (std::int64_t i = 0; i < count; ++i) {
#pragma omp simd
    for (int c = 0; c < kBlock; ++c) y[i * kBlock + c] = (bits[i] & (1u << c)) != 0 ? x[i * kBlock + c] * scale : 0.0f;
  }
}

// Keeps the channels of each position whose bits are set.
OUTSIZE_CLONES void apply(const float* x, const std::uint32_t* bits, float* y, std::int64_t block, std::int64_t count,
                          float scale) {
  if (block == 8)
    apply_block<8>(x, bits, y, count, scale);
  else
    apply_block<16>(x, bits, y, count, scale);
}

// A box in dimensions [first, rank) as runs of equal length whose row-major places follow each other.
class Runs {
 public:
  Runs(const Dims& shape, const Box& box, int first) : shape_(shape), box_(box), first_(first), last_(shape.rank() - 1) {
    while (last_ > first_ && box.extent(last_) == shape[last_]) length_ *= shape[last_--];
    if (last_ >= first_) length_ *= box.extent(last_);
    for (int dim = first_; dim < last_; ++dim) count_ *= box.extent(dim);
  }
  std::int64_t length() const { return length_; }
  std::int64_t count() const { return count_; }
  // The place of the first element of run i, counted from the first element of those dimensions.
  std::int64_t start(std::int64_t i) const {
    Dims at = box_.lo;
    for (int dim = last_ - 1; dim >= first_; --dim) {
      at[dim] += i % box_.extent(dim);
      i /= box_.extent(dim);
    }
    std::int64_t place = 0;
    for (int dim = first_; dim < shape_.rank(); ++dim) place = place * shape_[dim] + at[dim];
    return place;
  }

 private:
  Dims shape_;
  Box box_;
  int first_;
  int last_;  // the innermost dimension that may be cut
  std::int64_t length_ = 1;
  std::int64_t count_ = 1;
};

class Dropout final : public Kernel {
 public:
  Dropout(const Call& call, const StorageRule& storage)
      : storage_(storage),
        shape_(call.site.in(0).shape),
        format_(call.site.in(0).format),
        stream_(static_cast<std::uint32_t>(call.site.integer("stream"))),
        threshold_(static_cast<std::uint32_t>(dropout_threshold(call.site.number("p")))),
        scale_(static_cast<float>(1 / (1 - call.site.number("p")))) {}
  std::string name() const override { return "loops"; }

  void run(const KernelRun& run) const override {
    const auto* const key = reinterpret_cast<const std::uint32_t*>(run.in[1]);
    const Draw draw{key[0], key[1], stream_, key[2]};
    if (format_ == Format::map)
      run_map(draw, run.out_boxes[0], f32(run.in[0]), f32(run.out[0]));
    else
      run_plain(draw, run.out_boxes[0], f32(run.in[0]), f32(run.out[0]));
  }

 private:
  void run_plain(const Draw& draw, const Box& box, const float* x, float* y) const {
    const Runs runs(shape_, box, 0);
    const std::int64_t parts = chunks_of(runs.length());
    parallel_for(runs.count() * parts, box.elements() * 8, [&](std::int64_t i) {
      const std::int64_t from = i % parts * kChunk;
      const std::int64_t piece = i / parts * runs.length() + from;
      drop_run(draw, static_cast<std::uint64_t>(runs.start(i / parts) + from), x + piece, y + piece,
               std::min(kChunk, runs.length() - from), threshold_, scale_);
    });
  }

  void run_map(const Draw& draw, const Box& box, const float* x, float* y) const {
    const MapPiece map(storage_, box);
    const Runs runs(shape_, box, 2);
    std::int64_t positions = 1;
    for (int dim = 2; dim < shape_.rank(); ++dim) positions *= shape_[dim];
    const std::int64_t plane = map.plane();
    const std::int64_t tiles = chunks_of(runs.length(), kTile);
    const std::int64_t of_plane = runs.count() * tiles;
    parallel_for(map.samples * map.blocks * of_plane, map.samples * map.blocks * plane * 8, [&](std::int64_t i) {
      const std::int64_t sample = i / of_plane / map.blocks;
      const std::int64_t block = i / of_plane % map.blocks;
      const std::int64_t from = i % tiles * kTile;
      const std::int64_t count = std::min(kTile, runs.length() - from);
      const std::int64_t place = runs.start(i % of_plane / tiles) + from;
      const std::int64_t channel = (box.lo[0] + sample) * shape_[1] + box.lo[1] + block * map.block;
      // No bit is set of channels that pad the block.
      alignas(64) std::uint32_t bits[kTile];
      std::fill_n(bits, count, 0u);
      const int lanes = static_cast<int>(map.lanes(block));
      for (int c = 0; c < lanes; ++c)
        draw_channel(draw, static_cast<std::uint64_t>((channel + c) * positions + place), bits, c, count, threshold_);
      const std::int64_t piece = i / of_plane * plane + (i % of_plane / tiles * runs.length() + from) * map.block;
      apply(x + piece, bits, y + piece, map.block, count, scale_);
    });
  }

  StorageRule storage_;
  Dims shape_;
  Format format_;
  std::uint32_t stream_;
  std::uint32_t threshold_;
  float scale_;
};

OUTSIZE_CLONES void scale_run(const float* x, float* y, float factor, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * factor;
}

class SampleDropout final : public Kernel {
 public:
  SampleDropout(const Call& call, const StorageRule& storage)
      : samples_(call.boxes.out[0].extent(0)),
        sample_elements_(output_elements(call, storage, 0) / std::max<std::int64_t>(samples_, 1)),
        stream_(static_cast<std::uint32_t>(call.site.integer("stream"))),
        threshold_(static_cast<std::uint32_t>(dropout_threshold(call.site.number("p")))),
        scale_(static_cast<float>(1 / (1 - call.site.number("p")))) {}
  std::string name() const override { return "loops"; }

  void run(const KernelRun& run) const override {
    const auto* const key = reinterpret_cast<const std::uint32_t*>(run.in[1]);
    const std::int64_t parts = chunks_of(sample_elements_);
    parallel_for(samples_ * parts, samples_ * sample_elements_ * 8, [&](std::int64_t i) {
      const auto sample = static_cast<std::uint64_t>(run.out_boxes[0].lo[0] + i / parts);
      const std::uint64_t block = sample / 4;
      const auto words =
          philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), stream_, key[2]}, {key[0], key[1]});
      const std::int64_t from = i % parts * kChunk;
      const std::int64_t count = std::min(kChunk, sample_elements_ - from);
      const float* const x = f32(run.in[0]) + i / parts * sample_elements_ + from;
      float* const y = f32(run.out[0]) + i / parts * sample_elements_ + from;
      if (words[sample % 4] >= threshold_)
        scale_run(x, y, scale_, count);
      else
        std::fill_n(y, count, 0.0f);
    });
  }

 private:
  std::int64_t samples_;
  std::int64_t sample_elements_;
  std::uint32_t stream_;
  std::uint32_t threshold_;
  float scale_;
};

std::unique_ptr<Kernel> make_dropout(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (call.site.in(0).format == Format::map) require_blocks(call, storage);
  if (call.site.word("unit") == "sample") return std::make_unique<SampleDropout>(call, storage);
  return std::make_unique<Dropout>(call, storage);
}

}  // namespace

void cpu_dropout(KernelTable& table) { table.add("dropout", make_dropout); }

}  // namespace outsize
