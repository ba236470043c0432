#include <algorithm>

#include "ops/cuda/support.h"

namespace outsize::OUTSIZE_PLACE {

void expect_card_call(const Call& call, const StorageRule& storage) {
  if (!storage.channels_last) internal_error("op {}: maps are not stored channels-last", call.site.op.name);
  const auto check = [&](ValueId id) {
    const Value& value = call.site.graph.value(id);
    if (value.type.dtype == DType::f64 && value.role != Role::statistic && value.role != Role::input)
      internal_error("op {}: value {} is f64, but kernels of the card compute in f32", call.site.op.name, value.name);
  };
  std::ranges::for_each(call.site.op.inputs, check);
  std::ranges::for_each(call.site.op.outputs, check);
}

bool has_empty_input(const Call& call) {
  return std::ranges::any_of(call.boxes.in, [](const Box& box) { return box.empty(); });
}

void fill_zero(void* memory, std::int64_t bytes, [[maybe_unused]] void* queue) {
  if (bytes == 0) return;
#if defined(__CUDACC__)
  if (const cudaError_t error = cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), static_cast<cudaStream_t>(queue));
      error != cudaSuccess)
    internal_error("{} bytes of the card cannot be filled: {}", bytes, cudaGetErrorString(error));
#else
  if (!emulation_is_dry()) std::memset(memory, 0, static_cast<std::size_t>(bytes));
#endif
}

std::unique_ptr<Kernel> make_zeros(const Call& call, const StorageRule& storage) {
  std::vector<std::int64_t> bytes;
  for (std::size_t i = 0; i < call.boxes.out.size(); ++i)
    bytes.push_back(stored_bytes(storage, call.site.out(static_cast<int>(i)), call.boxes.out[i].shape()));
  return make_kernel("zeros", 0, [bytes](const KernelRun& run) {
    for (std::size_t i = 0; i < bytes.size(); ++i) fill_zero(run.out[i], bytes[i], run.queue);
  });
}

}  // namespace outsize::OUTSIZE_PLACE
