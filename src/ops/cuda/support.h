#pragma once

#include <string>
#include <utility>

#include "base/alignment.h"
#include "ops/cuda/block.h"
#include "ops/kernel.h"
#include "ops/registry.h"

// What the files cuda.cu of the op folders share besides the families: how a call's pieces lie in memory, and how a kernel is made
// of a function.
namespace outsize::OUTSIZE_PLACE {

// A piece as it lies in memory, seen as rows of `channels` neighbouring elements: the channels of a position of a map, or the last
// dimension of a plain value.
struct Sheet {
  std::int64_t positions = 0;
  std::int64_t channels = 1;

  std::int64_t elements() const { return positions * channels; }
};

inline Sheet sheet_of(const ValueType& type, const Box& box) {
  if (box.empty()) return {};
  const int rank = box.rank();
  const std::int64_t channels = is_map(type.format) ? box.extent(1) : rank > 0 ? box.extent(rank - 1) : 1;
  return {box.elements() / channels, channels};
}

inline Sheet input_sheet(const Call& call, int i) { return sheet_of(call.site.in(i), call.boxes.in[static_cast<std::size_t>(i)]); }
inline Sheet output_sheet(const Call& call, int i) {
  return sheet_of(call.site.out(i), call.boxes.out[static_cast<std::size_t>(i)]);
}

// Input (output) i of a run as elements of type T.
template <class T>
const T* in(const KernelRun& run, int i) {
  return reinterpret_cast<const T*>(run.in[static_cast<std::size_t>(i)]);
}
template <class T>
T* out(const KernelRun& run, int i) {
  return reinterpret_cast<T*>(run.out[static_cast<std::size_t>(i)]);
}

// Throws InternalError naming op and value unless maps are stored channels-last and every floating input and output of the call is
// f32 or a statistic: what these kernels compute in.
void expect_card_call(const Call& call, const StorageRule& storage);

template <class Function>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(std::string name, std::int64_t workspace_bytes, Function function)
      : name_(std::move(name)), workspace_bytes_(workspace_bytes), function_(std::move(function)) {}
  std::int64_t workspace_bytes() const override { return workspace_bytes_; }
  std::string name() const override { return name_; }
  void run(const KernelRun& run) const override { function_(run); }

 private:
  std::string name_;
  std::int64_t workspace_bytes_;
  Function function_;
};

// The kernel whose run is function(run): it puts its work into the stream `run.queue` and returns.
template <class Function>
std::unique_ptr<Kernel> make_kernel(std::string name, std::int64_t workspace_bytes, Function function) {
  return std::make_unique<FunctionKernel<Function>>(std::move(name), workspace_bytes, std::move(function));
}

// A kernel that does nothing, for calls whose outputs have no element.
inline std::unique_ptr<Kernel> make_nothing() {
  return make_kernel("nothing", 0, [](const KernelRun&) {});
}

// Fills memory of the card with zero bytes.
void fill_zero(void* memory, std::int64_t bytes, void* queue);

// A kernel that fills every output with zeros: what a call gives whose inputs have no element.
std::unique_ptr<Kernel> make_zeros(const Call& call, const StorageRule& storage);

// Whether an input of the call has no element: its contribution is then zero.
bool has_empty_input(const Call& call);

constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The bytes that a part of a workspace takes, so that the next one is aligned.
constexpr std::int64_t part_bytes(std::int64_t bytes) { return ceil_divide(bytes, kAlignment) * kAlignment; }

// What one launch may have at most: positions are 32 bits (offsets are 64), and a block's first position lies beyond the last by
// less than what is left. Families that have more make several launches.
inline constexpr std::int64_t kMostPositions = std::int64_t{1} << 30;

// The positions, and the blocks along y, that a family puts into one launch. Tests set them lower where the host emulates, so that
// small calls have several launches.
#if defined(__CUDACC__)
constexpr std::int64_t most_positions() { return kMostPositions; }
constexpr std::int64_t most_rows() { return kMostRows; }
#else
inline std::int64_t& most_positions() {
  static std::int64_t most = kMostPositions;
  return most;
}
inline std::int64_t& most_rows() {
  static std::int64_t most = kMostRows;
  return most;
}
#endif

}  // namespace outsize::OUTSIZE_PLACE
