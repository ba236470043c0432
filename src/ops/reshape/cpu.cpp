#include <cstring>

#include "ops/cpu_support.h"
#include "ops/registry.h"

// A reshape keeps the logical row-major order, which is how plain values are stored. So it is a copy between plain values, one
// transposition of channel blocks between a plain value and a map, and two of them between maps.
namespace outsize {

namespace {

// Channels [0, lanes) of one block, position by position, to rows of positions, and back.
OUTSIZE_CLONES void unblock(const float* blocked, float* rows, std::int64_t block, std::int64_t lanes, std::int64_t positions) {
  for (std::int64_t c = 0; c < lanes; ++c)
    for (std::int64_t i = 0; i < positions; ++i) rows[c * positions + i] = blocked[i * block + c];
}

OUTSIZE_CLONES void make_block(const float* rows, float* blocked, std::int64_t block, std::int64_t lanes, std::int64_t positions) {
  for (std::int64_t i = 0; i < positions; ++i) {
    for (std::int64_t c = 0; c < lanes; ++c) blocked[i * block + c] = rows[c * positions + i];
    for (std::int64_t c = lanes; c < block; ++c) blocked[i * block + c] = 0.0f;
  }
}

// Where the rows of a block of a map piece lie in its plain form.
std::int64_t plain_offset(const MapPiece& map, std::int64_t plane) {
  return (plane / map.blocks * map.channels + plane % map.blocks * map.block) * map.positions();
}

void to_plain(const MapPiece& map, const float* from, float* to) {
  parallel_for(map.planes(), map.elements() * 8, [&](std::int64_t plane) {
    unblock(from + plane * map.plane(), to + plain_offset(map, plane), map.block, map.lanes(plane % map.blocks), map.positions());
  });
}

void to_map(const MapPiece& map, const float* from, float* to) {
  parallel_for(map.planes(), map.elements() * 8, [&](std::int64_t plane) {
    make_block(from + plain_offset(map, plane), to + plane * map.plane(), map.block, map.lanes(plane % map.blocks),
               map.positions());
  });
}

class PlainToPlain : public Kernel {
 public:
  explicit PlainToPlain(std::int64_t bytes) : bytes_(bytes) {}
  std::string name() const override { return "copy"; }
  void run(const KernelRun& run) const override {
    if (run.in[0] == run.out[0]) return;
    constexpr std::int64_t kPart = 1 << 18;
    parallel_for(chunks_of(bytes_, kPart), bytes_ * 2, [&](std::int64_t i) {
      std::memcpy(run.out[0] + i * kPart, run.in[0] + i * kPart, static_cast<std::size_t>(std::min(kPart, bytes_ - i * kPart)));
    });
  }

 private:
  std::int64_t bytes_;
};

class MapToPlain : public Kernel {
 public:
  explicit MapToPlain(const MapPiece& map) : map_(map) {}
  std::string name() const override { return "unblock"; }
  void run(const KernelRun& run) const override { to_plain(map_, f32(run.in[0]), f32(run.out[0])); }

 private:
  MapPiece map_;
};

class PlainToMap : public Kernel {
 public:
  explicit PlainToMap(const MapPiece& map) : map_(map) {}
  std::string name() const override { return "block"; }
  void run(const KernelRun& run) const override { to_map(map_, f32(run.in[0]), f32(run.out[0])); }

 private:
  MapPiece map_;
};

class MapToMap : public Kernel {
 public:
  MapToMap(const MapPiece& from, const MapPiece& to) : from_(from), to_(to) {}
  std::string name() const override { return "unblock+block"; }
  std::int64_t workspace_bytes() const override { return from_.samples * from_.channels * from_.positions() * size_of(DType::f32); }
  void run(const KernelRun& run) const override {
    to_plain(from_, f32(run.in[0]), f32(run.workspace));
    to_map(to_, f32(run.workspace), f32(run.out[0]));
  }

 private:
  MapPiece from_;
  MapPiece to_;
};

std::unique_ptr<Kernel> make_reshape(const Call& call, const StorageRule& storage) {
  const Box& from = call.boxes.in[0];
  const Box& to = call.boxes.out[0];
  OUTSIZE_CHECK(from.elements() == to.elements());
  const bool from_map = call.site.in(0).format == Format::map;
  const bool to_map = call.site.out(0).format == Format::map;
  if (!from_map && !to_map) return std::make_unique<PlainToPlain>(from.elements() * size_of(call.site.in(0).dtype));
  require_f32(call);
  require_blocks(call, storage);
  if (!to_map) return std::make_unique<MapToPlain>(MapPiece(storage, from));
  if (!from_map) return std::make_unique<PlainToMap>(MapPiece(storage, to));
  return std::make_unique<MapToMap>(MapPiece(storage, from), MapPiece(storage, to));
}

}  // namespace

void cpu_reshape(KernelTable& table) { table.add("reshape", make_reshape); }

}  // namespace outsize
