#include <cstring>

#include "ops/cpu_movement.h"

// A reshape keeps the logical row-major order, which is how plain values are stored. So it is a copy between plain values, one
// transposition of channel blocks between a plain value and a map, and two of them between maps.
namespace outsize {

namespace {

// A box between a map piece and a plain one of the same extents.
void reformat(const StorageRule& storage, const Box& box, const Word* from, Format from_format, Word* to, Format to_format) {
  move_box(storage, {from, box, from_format}, {to, box, to_format});
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
  MapToPlain(const StorageRule& storage, const Box& map) : storage_(storage), map_(map) {}
  std::string name() const override { return "unblock"; }
  void run(const KernelRun& run) const override {
    reformat(storage_, map_, words(run.in[0]), Format::map, words(run.out[0]), Format::plain);
  }

 private:
  StorageRule storage_;
  Box map_;
};

class PlainToMap : public Kernel {
 public:
  PlainToMap(const StorageRule& storage, const Box& map) : storage_(storage), map_(map) {}
  std::string name() const override { return "block"; }
  void run(const KernelRun& run) const override {
    reformat(storage_, map_, words(run.in[0]), Format::plain, words(run.out[0]), Format::map);
  }

 private:
  StorageRule storage_;
  Box map_;
};

class MapToMap : public Kernel {
 public:
  MapToMap(const StorageRule& storage, const Box& from, const Box& to) : storage_(storage), from_(from), to_(to) {}
  std::string name() const override { return "unblock+block"; }
  std::int64_t workspace_bytes() const override { return from_.elements() * static_cast<std::int64_t>(sizeof(Word)); }
  void run(const KernelRun& run) const override {
    reformat(storage_, from_, words(run.in[0]), Format::map, words(run.workspace), Format::plain);
    reformat(storage_, to_, words(run.workspace), Format::plain, words(run.out[0]), Format::map);
  }

 private:
  StorageRule storage_;
  Box from_;
  Box to_;
};

std::unique_ptr<Kernel> make_reshape(const Call& call, const StorageRule& storage) {
  const Box& from = call.boxes.in[0];
  const Box& to = call.boxes.out[0];
  OUTSIZE_CHECK(from.elements() == to.elements());
  const bool from_map = call.site.in(0).format == Format::map;
  const bool to_map = call.site.out(0).format == Format::map;
  if (!from_map && !to_map) return std::make_unique<PlainToPlain>(from.elements() * size_of(call.site.in(0).dtype));
  require_words(call, storage);
  if (!to_map) return std::make_unique<MapToPlain>(storage, from);
  if (!from_map) return std::make_unique<PlainToMap>(storage, to);
  return std::make_unique<MapToMap>(storage, from, to);
}

}  // namespace

void cpu_reshape(KernelTable& table) { table.add("reshape", make_reshape); }

}  // namespace outsize
