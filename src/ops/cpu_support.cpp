#include "ops/cpu_support.h"

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

namespace outsize {

StorageRule cpu_storage() {
  static const bool avx512 = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  return {avx512 ? 16 : 8};
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

// line(plane, row, target) for every row of a map piece, by its global row number.
template <class Line>
void for_rows(const MapPiece& piece, const Box& box, float* data, const Line& line) {
  parallel_for(piece.planes() * piece.height, piece.elements() * 8,
               [&](std::int64_t i) { line(i / piece.height, box.lo[2] + i % piece.height, data + i * piece.row()); });
}

bool holds(Interval range, std::int64_t position) { return position >= range.lo && position < range.hi; }

}  // namespace

void embed_map(const StorageRule& storage, const float* from, const Box& from_box, float* to, const Box& to_box) {
  const MapPiece source(storage, from_box);
  const MapPiece target(storage, to_box);
  const Interval columns = intersect(from_box[3], to_box[3]);
  const std::int64_t before = columns.empty() ? target.row() : (columns.lo - to_box.lo[3]) * target.block;
  const std::int64_t inside = columns.size() * target.block;
  for_rows(target, to_box, to, [&](std::int64_t plane, std::int64_t row, float* line) {
    if (!holds(from_box[2], row) || inside == 0) {
      std::memset(line, 0, float_bytes(target.row()));
      return;
    }
    const float* const source_line = from + (plane * source.height + row - from_box.lo[2]) * source.row();
    std::memset(line, 0, float_bytes(before));
    std::memcpy(line + before, source_line + (columns.lo - from_box.lo[3]) * source.block, float_bytes(inside));
    std::memset(line + before + inside, 0, float_bytes(target.row() - before - inside));
  });
}

void thin_map(const StorageRule& storage, const Steps& steps, const float* from, const Box& from_box, float* to,
              const Box& to_box) {
  const MapPiece source(storage, from_box);
  const MapPiece target(storage, to_box);
  for_rows(target, to_box, to, [&](std::int64_t plane, std::int64_t row, float* line) {
    const std::int64_t source_row = row * steps.stride[0] - steps.padding[0];
    if (!holds(from_box[2], source_row)) {
      std::memset(line, 0, float_bytes(target.row()));
      return;
    }
    const float* const source_line = from + (plane * source.height + source_row - from_box.lo[2]) * source.row();
    for (std::int64_t column = to_box.lo[3]; column < to_box.hi[3]; ++column, line += target.block) {
      const std::int64_t source_column = column * steps.stride[1] - steps.padding[1];
      if (holds(from_box[3], source_column))
        std::memcpy(line, source_line + (source_column - from_box.lo[3]) * source.block, float_bytes(target.block));
      else
        std::memset(line, 0, float_bytes(target.block));
    }
  });
}

void spread_map(const StorageRule& storage, const Steps& steps, const float* from, const Box& from_box, float* to,
                const Box& to_box) {
  const MapPiece source(storage, from_box);
  const MapPiece target(storage, to_box);
  for_rows(target, to_box, to, [&](std::int64_t plane, std::int64_t row, float* line) {
    std::memset(line, 0, float_bytes(target.row()));
    const std::int64_t steps_row = row + steps.padding[0];
    const std::int64_t source_row = steps_row / steps.stride[0];
    if (steps_row % steps.stride[0] != 0 || !holds(from_box[2], source_row)) return;
    const float* source_line = from + (plane * source.height + source_row - from_box.lo[2]) * source.row();
    for (std::int64_t column = from_box.lo[3]; column < from_box.hi[3]; ++column, source_line += source.block) {
      const std::int64_t target_column = column * steps.stride[1] - steps.padding[1];
      if (holds(to_box[3], target_column))
        std::memcpy(line + (target_column - to_box.lo[3]) * target.block, source_line, float_bytes(target.block));
    }
  });
}

void unblock_map(const StorageRule& storage, const float* from, const Box& from_box, float* to, const Box& to_box) {
  const MapPiece source(storage, from_box);
  const MapPiece target({1}, to_box);
  const Interval columns = intersect(from_box[3], to_box[3]);
  for_rows(target, to_box, to, [&](std::int64_t plane, std::int64_t row, float* line) {
    std::memset(line, 0, float_bytes(target.row()));
    if (!holds(from_box[2], row)) return;
    const std::int64_t channel = plane % target.channels;
    const std::int64_t source_plane = plane / target.channels * source.blocks + channel / source.block;
    const float* const source_line =
        from + (source_plane * source.height + row - from_box.lo[2]) * source.row() + channel % source.block;
    for (std::int64_t column = columns.lo; column < columns.hi; ++column)
      line[column - to_box.lo[3]] = source_line[(column - from_box.lo[3]) * source.block];
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

void check(dnnl_status_t status, const std::string& what) {
  if (status != dnnl_success) internal_error("oneDNN failed with status {} in {}", static_cast<int>(status), what);
}

}  // namespace

dnnl_engine* cpu_engine() { return engine().get(); }

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
