#include "ops/cpu_support.h"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "ops/window.h"

namespace outsize {

StorageRule cpu_storage() {
  static const bool avx512 = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  return {avx512 ? 16 : 8};
}

std::string cpu_libraries() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version.major, version.minor, version.patch);
}

void require_f32(const Call& call) {
  const auto check = [&](const ValueType& type, std::string_view side, int i) {
    if (is_float(type.dtype) && type.dtype != DType::f32)
      internal_error("the cpu backend computes in f32; {} {} of {} is {}", side, i, call.site.op.name, to_string(type));
  };
  for (int i = 0; i < call.site.inputs(); ++i) check(call.site.in(i), "input", i);
  for (int i = 0; i < call.site.outputs(); ++i) check(call.site.out(i), "output", i);
}

void require_blocks(const Call& call, const StorageRule& storage) {
  if (storage.channel_block != 8 && storage.channel_block != 16)
    internal_error("the cpu kernel of {} wants maps in blocks of 8 or 16 channels, not {}", call.site.op.name,
                   storage.channel_block);
}

bool has_empty_input(const Call& call) {
  return std::any_of(call.boxes.in.begin(), call.boxes.in.end(), [](const Box& box) { return box.empty(); });
}

std::int64_t input_elements(const Call& call, const StorageRule& storage, int input) {
  return stored_elements(storage, call.site.in(input).format, call.boxes.in[static_cast<std::size_t>(input)].shape());
}

std::int64_t output_elements(const Call& call, const StorageRule& storage, int output) {
  return stored_elements(storage, call.site.out(output).format, call.boxes.out[static_cast<std::size_t>(output)].shape());
}

namespace {

class ZeroKernel : public Kernel {
 public:
  explicit ZeroKernel(std::vector<std::int64_t> bytes) : bytes_(std::move(bytes)) {}
  std::string name() const override { return "zeros"; }
  void run(const KernelRun& run) const override {
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      if (run.out[i] != nullptr) fill_zero(run.out[i], bytes_[i]);
  }

 private:
  std::vector<std::int64_t> bytes_;
};

}  // namespace

std::unique_ptr<Kernel> make_zero_kernel(const Call& call, const StorageRule& storage) {
  std::vector<std::int64_t> bytes;
  for (int i = 0; i < call.site.outputs(); ++i)
    bytes.push_back(output_elements(call, storage, i) * size_of(call.site.out(i).dtype));
  return std::make_unique<ZeroKernel>(std::move(bytes));
}

void fill_zero(void* data, std::int64_t bytes) {
  constexpr std::int64_t kPart = 1 << 18;
  auto* const begin = static_cast<char*>(data);
  parallel_for(chunks_of(bytes, kPart), bytes, [&](std::int64_t i) {
    std::memset(begin + i * kPart, 0, static_cast<std::size_t>(std::min(kPart, bytes - i * kPart)));
  });
}

namespace {

std::size_t float_bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

// A row of a map piece: its plane, its global position in the spatial dimensions but the last, and its elements.
struct Row {
  std::int64_t plane;
  std::int64_t depth;  // 0 where there is no D
  std::int64_t height;
  float* data;
};

// The ranges of a map's box, where a missing D is [0, 1).
Interval depths(const Box& box) { return box.rank() > 4 ? box[2] : Interval{0, 1}; }
Interval heights(const Box& box) { return box[box.rank() - 2]; }
Interval columns_of(const Box& box) { return box[box.rank() - 1]; }

// line(row) for every row of a map piece.
template <class Line>
void for_rows(const MapPiece& piece, const Box& box, float* data, const Line& line) {
  const std::int64_t rows = piece.depth * piece.height;
  parallel_for(piece.planes() * rows, piece.elements() * 8, [&](std::int64_t i) {
    line(Row{i / rows, depths(box).lo + i % rows / piece.height, heights(box).lo + i % piece.height, data + i * piece.row()});
  });
}

bool holds(Interval range, std::int64_t position) { return position >= range.lo && position < range.hi; }

// The row of a plane at a global position, or null where the piece has none.
const float* find_row(const MapPiece& piece, const Box& box, const float* data, std::int64_t plane, std::int64_t depth,
                      std::int64_t height) {
  if (!holds(depths(box), depth) || !holds(heights(box), height)) return nullptr;
  return data + ((plane * piece.depth + depth - depths(box).lo) * piece.height + height - heights(box).lo) * piece.row();
}

// One entry a spatial dimension of a map, where a missing D has the given one.
struct Spatial {
  std::int64_t depth;
  std::int64_t height;
  std::int64_t width;

  Spatial(const std::array<std::int64_t, 3>& list, int rank, std::int64_t missing)
      : depth(rank > 4 ? list[0] : missing),
        height(list[static_cast<std::size_t>(rank - 4)]),
        width(list[static_cast<std::size_t>(rank - 3)]) {}
};

// `count` blocks, those of `from` lying `from_step` blocks apart, those of `to` `to_step`.
template <int B>
OUTSIZE_INLINE void copy_blocks_of(const float* from, std::int64_t from_step, float* to, std::int64_t to_step, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i, from += from_step * B, to += to_step * B) {
    float lanes[B];
    std::memcpy(lanes, from, sizeof(lanes));
    std::memcpy(to, lanes, sizeof(lanes));
  }
}
OUTSIZE_CLONES void copy_blocks(std::int64_t block, const float* from, std::int64_t from_step, float* to, std::int64_t to_step,
                                std::int64_t count) {
  if (block == 16)
    copy_blocks_of<16>(from, from_step, to, to_step, count);
  else if (block == 8)
    copy_blocks_of<8>(from, from_step, to, to_step, count);
  else
    for (std::int64_t i = 0; i < count; ++i)
      std::memcpy(to + i * to_step * block, from + i * from_step * block, float_bytes(block));
}

}  // namespace

void embed_map(const StorageRule& storage, const float* from, const Box& from_box, float* to, const Box& to_box) {
  const MapPiece source(storage, from_box);
  const MapPiece target(storage, to_box);
  const Interval own = columns_of(to_box);
  const Interval columns = intersect(columns_of(from_box), own);
  const std::int64_t before = columns.empty() ? target.row() : (columns.lo - own.lo) * target.block;
  const std::int64_t inside = columns.size() * target.block;
  for_rows(target, to_box, to, [&](const Row& row) {
    const float* const line = find_row(source, from_box, from, row.plane, row.depth, row.height);
    if (line == nullptr || inside == 0) {
      std::memset(row.data, 0, float_bytes(target.row()));
      return;
    }
    std::memset(row.data, 0, float_bytes(before));
    std::memcpy(row.data + before, line + (columns.lo - columns_of(from_box).lo) * source.block, float_bytes(inside));
    std::memset(row.data + before + inside, 0, float_bytes(target.row() - before - inside));
  });
}

void thin_map(const StorageRule& storage, const Steps& steps, const float* from, const Box& from_box, float* to,
              const Box& to_box) {
  const MapPiece source(storage, from_box);
  const MapPiece target(storage, to_box);
  const Spatial stride(steps.stride, to_box.rank(), 1);
  const Spatial padding(steps.padding, to_box.rank(), 0);
  const Interval own = columns_of(to_box);
  const Interval given = columns_of(from_box);
  // The columns o with given.lo <= o * stride - padding < given.hi.
  const Interval columns =
      intersect(own, {ceil_div(given.lo + padding.width, stride.width), ceil_div(given.hi + padding.width, stride.width)});
  const std::int64_t before = columns.empty() ? target.row() : (columns.lo - own.lo) * target.block;
  const std::int64_t inside = columns.size() * target.block;
  for_rows(target, to_box, to, [&](const Row& row) {
    const float* const line = find_row(source, from_box, from, row.plane, row.depth * stride.depth - padding.depth,
                                       row.height * stride.height - padding.height);
    if (line == nullptr || inside == 0) {
      std::memset(row.data, 0, float_bytes(target.row()));
      return;
    }
    std::memset(row.data, 0, float_bytes(before));
    const std::int64_t first = columns.lo * stride.width - padding.width - given.lo;
    if (stride.width == 1)
      std::memcpy(row.data + before, line + first * source.block, float_bytes(inside));
    else
      copy_blocks(source.block, line + first * source.block, stride.width, row.data + before, 1, columns.size());
    std::memset(row.data + before + inside, 0, float_bytes(target.row() - before - inside));
  });
}

void weave_map(const StorageRule& storage, const Steps& steps, const std::array<std::int64_t, 3>& residue,
               std::span<const Thread> threads, const float* fill, float* to, const Box& to_box) {
  const MapPiece target(storage, to_box);
  const Spatial stride(steps.stride, to_box.rank(), 1);
  const Spatial rest(residue, to_box.rank(), 0);
  const Interval own = columns_of(to_box);
  for_rows(target, to_box, to, [&](const Row& row) {
    const std::int64_t depth = floor_div(row.depth, stride.depth);
    const std::int64_t height = floor_div(row.height, stride.height);
    if (row.depth - depth * stride.depth != rest.depth || row.height - height * stride.height != rest.height) return;
    const float* const lanes = fill + row.plane % target.blocks * target.block;
    for (std::int64_t r = 0; r < stride.width; ++r) {
      const Thread& thread = threads[static_cast<std::size_t>(r)];
      // The columns u * stride + r of the row.
      const Interval columns{ceil_div(own.lo - r, stride.width), ceil_div(own.hi - r, stride.width)};
      if (columns.empty()) continue;
      float* const first = row.data + (columns.lo * stride.width + r - own.lo) * target.block;
      const float* const line = thread.data == nullptr
                                    ? nullptr
                                    : find_row(MapPiece(storage, thread.box), thread.box, thread.data, row.plane, depth, height);
      if (line == nullptr)
        copy_blocks(target.block, lanes, 0, first, stride.width, columns.size());
      else
        copy_blocks(target.block, line + (columns.lo - columns_of(thread.box).lo) * target.block, 1, first, stride.width,
                    columns.size());
    }
  });
}

namespace {

// Every channel of a row of blocks to a row of its own, `plane` elements apart: a stretch at a time, which stays in the nearest
// cache while its channels are taken one after the other.
OUTSIZE_CLONES void unblock_row(const float* from, std::int64_t block, std::int64_t channels, std::int64_t count, float* to,
                                std::int64_t plane) {
  constexpr std::int64_t kStretch = 128;
  for (std::int64_t begin = 0; begin < count; begin += kStretch) {
    const std::int64_t end = std::min(count, begin + kStretch);
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t i = begin; i < end; ++i) to[c * plane + i] = from[i * block + c];
  }
}

}  // namespace

void unblock_map(const StorageRule& storage, const float* from, const Box& from_box, float* to, const Box& to_box) {
  const MapPiece source(storage, from_box);
  const MapPiece target({1}, to_box);
  const Interval own = columns_of(to_box);
  const Interval columns = intersect(columns_of(from_box), own);
  const std::int64_t rows = target.depth * target.height;
  parallel_for(target.samples * source.blocks * rows, target.elements() * 8, [&](std::int64_t i) {
    const std::int64_t plane = i / rows, channel = plane % source.blocks * source.block;
    const std::int64_t channels = std::min(source.block, target.channels - channel);
    float* const first = to + ((plane / source.blocks * target.channels + channel) * rows + i % rows) * target.row();
    const float* const line = find_row(source, from_box, from, plane, depths(to_box).lo + i % rows / target.height,
                                       heights(to_box).lo + i % target.height);
    const bool found = line != nullptr && !columns.empty();
    for (std::int64_t c = 0; c < channels; ++c) {
      float* const row = first + c * target.plane();
      std::fill(row, row + (found ? columns.lo - own.lo : own.size()), 0.0f);
      if (found) std::fill(row + (columns.hi - own.lo), row + own.size(), 0.0f);
    }
    if (found)
      unblock_row(line + (columns.lo - columns_of(from_box).lo) * source.block, source.block, channels, columns.size(),
                  first + (columns.lo - own.lo), target.plane());
  });
}

void block_map(const StorageRule& storage, const float* from, const Box& box, float* to) {
  const MapPiece source({1}, box);
  const MapPiece target(storage, box);
  for_rows(target, box, to, [&](const Row& row) {
    const std::int64_t sample = row.plane / target.blocks, block = row.plane % target.blocks;
    std::memset(row.data, 0, float_bytes(target.row()));
    for (std::int64_t lane = 0; lane < target.lanes(block); ++lane) {
      const float* const line =
          find_row(source, box, from, sample * source.channels + block * target.block + lane, row.depth, row.height);
      for (std::int64_t i = 0; i < target.width; ++i) row.data[i * target.block + lane] = line[i];
    }
  });
}

namespace {

dnnl::engine& engine() {
  static dnnl::engine one(dnnl::engine::kind::cpu, 0);
  return one;
}

dnnl::stream& stream() {
  static dnnl::stream one(engine());
  return one;
}

// Throws std::bad_alloc where the system does not give what one primitive may take: the library writes its code through a null
// pointer where it gets no memory for it.
void expect_room() {
  constexpr std::size_t kRoom = std::size_t{16} << 20;
  void* const room = mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  munmap(room, kRoom);
}

void check(dnnl_status_t status, const std::string& what) {
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status != dnnl_success) internal_error("oneDNN failed with status {} in {}", static_cast<int>(status), what);
}

}  // namespace

dnnl_engine* cpu_engine() {
  expect_room();
  return engine().get();
}

void forget_primitives() {
  int capacity = 0;
  if (dnnl_get_primitive_cache_capacity(&capacity) != dnnl_success) return;
  dnnl_set_primitive_cache_capacity(0);
  dnnl_set_primitive_cache_capacity(capacity);
}

struct DnnlCall::Parts {
  std::string what;
  std::string implementation;
  std::int64_t scratchpad_bytes = 0;
  dnnl_primitive_t primitive = nullptr;
  std::vector<dnnl_exec_arg_t> arguments;  // the scratchpad last
  bool has_scratchpad = false;

  ~Parts() {
    for (const dnnl_exec_arg_t& argument : arguments) dnnl_memory_destroy(argument.memory);
    if (primitive != nullptr) dnnl_primitive_destroy(primitive);
  }

  void add(int argument, const dnnl_memory_desc_t* description) {
    dnnl_memory_t memory = nullptr;
    check(dnnl_memory_create(&memory, description, engine().get(), DNNL_MEMORY_NONE), what);
    arguments.push_back({argument, memory});
  }
};

DnnlCall::DnnlCall(dnnl_primitive_desc* description, std::span<const int> arguments, const std::string& what)
    : parts_(std::make_unique<Parts>()) {
  parts_->what = what;
  const char* implementation = nullptr;
  check(dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, &implementation), what);
  parts_->implementation = implementation;
  // The library falls back silently, at 10 to 100 times the time.
  if (parts_->implementation.find("ref") != std::string::npos)
    internal_error("oneDNN has only {} for {}", parts_->implementation, what);
  expect_room();
  check(dnnl_primitive_create(&parts_->primitive, description), what);
  for (const int argument : arguments)
    parts_->add(argument, dnnl_primitive_desc_query_md(description, dnnl_query_exec_arg_md, argument));
  const dnnl_memory_desc_t* scratchpad = dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
  parts_->scratchpad_bytes = static_cast<std::int64_t>(dnnl_memory_desc_get_size(scratchpad));
  parts_->has_scratchpad = parts_->scratchpad_bytes > 0;
  if (parts_->has_scratchpad) parts_->add(DNNL_ARG_SCRATCHPAD, scratchpad);
}

DnnlCall::~DnnlCall() = default;
DnnlCall::DnnlCall(DnnlCall&&) noexcept = default;
DnnlCall& DnnlCall::operator=(DnnlCall&&) noexcept = default;

std::int64_t DnnlCall::scratchpad_bytes() const { return parts_->scratchpad_bytes; }
const std::string& DnnlCall::implementation() const { return parts_->implementation; }

void DnnlCall::bind(int argument, const void* data) const {
  // The library takes inputs as mutable pointers too.
  check(dnnl_memory_set_data_handle(parts_->arguments[static_cast<std::size_t>(argument)].memory, const_cast<void*>(data)),
        parts_->what);
}

void DnnlCall::execute(void* scratchpad) const {
  if (parts_->has_scratchpad) check(dnnl_memory_set_data_handle(parts_->arguments.back().memory, scratchpad), parts_->what);
  check(dnnl_primitive_execute(parts_->primitive, stream().get(), static_cast<int>(parts_->arguments.size()),
                               parts_->arguments.data()),
        parts_->what);
  check(dnnl_stream_wait(stream().get()), parts_->what);
}

}  // namespace outsize
