#pragma once

#include <optional>

#include "ops/cpu_support.h"

// The kernels of pointwise functions of one value: a folder writes the loop over `count` stored elements (a clone, see
// OUTSIZE_CLONES) and gets the factory.
namespace outsize {

// What a loop takes out of the op's attributes.
struct Factors {
  float a = 0;
  float b = 0;
};
using FactorsOf = Factors (*)(const OpSite&);
inline Factors no_factors(const OpSite&) { return {}; }

using PointwiseLoop = void (*)(const float* x, float* y, std::int64_t count, Factors factors);
using PointwiseGradLoop = void (*)(const float* dy, const float* other, float* dx, std::int64_t count, Factors factors);

// Zeros in the padding channels of a map among the stored elements [from, from + count), both multiples of the block.
inline void clear_padding(const MapPiece& map, float* data, std::int64_t from, std::int64_t count) {
  const std::int64_t plane = map.plane();
  const std::int64_t lanes = map.lanes(map.blocks - 1);
  if (lanes == map.block) return;
  for (std::int64_t at = from; at < from + count; at += map.block) {
    const std::int64_t index = at / plane;
    if (index % map.blocks != map.blocks - 1) {
      at = (index + 1) * plane - map.block;  // on to the next block's plane
      continue;
    }
    for (std::int64_t c = lanes; c < map.block; ++c) data[at + c] = 0.0f;
  }
}

class PointwiseKernel final : public Kernel {
 public:
  // `padded`: the map whose padding the loop does not leave at zero by itself.
  PointwiseKernel(PointwiseLoop loop, std::int64_t elements, Factors factors, std::optional<MapPiece> padded)
      : loop_(loop), elements_(elements), factors_(factors), padded_(padded) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const x = f32(run.in[0]);
    float* const y = f32(run.out[0]);
    parallel_chunks(elements_, elements_ * 8, [&](std::int64_t from, std::int64_t count) {
      loop_(x + from, y + from, count, factors_);
      if (padded_) clear_padding(*padded_, y, from, count);
    });
  }

 private:
  PointwiseLoop loop_;
  std::int64_t elements_;
  Factors factors_;
  std::optional<MapPiece> padded_;
};

class PointwiseGradKernel final : public Kernel {
 public:
  // `padded`: the map whose padding the loop does not leave at zero by itself.
  PointwiseGradKernel(PointwiseGradLoop loop, std::int64_t elements, Factors factors, std::optional<MapPiece> padded)
      : loop_(loop), elements_(elements), factors_(factors), padded_(padded) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const dy = f32(run.in[0]);
    const float* const other = f32(run.in[1]);
    float* const dx = f32(run.out[0]);
    parallel_chunks(elements_, elements_ * 12, [&](std::int64_t from, std::int64_t count) {
      loop_(dy + from, other + from, dx + from, count, factors_);
      if (padded_) clear_padding(*padded_, dx, from, count);
    });
  }

 private:
  PointwiseGradLoop loop_;
  std::int64_t elements_;
  Factors factors_;
  std::optional<MapPiece> padded_;
};

// The map of output 0 with its padding, if it is a map.
inline std::optional<MapPiece> padded_output(const Call& call, const StorageRule& storage) {
  if (call.site.out(0).format != Format::map || call.boxes.out[0].empty()) return std::nullopt;
  require_blocks(call, storage);
  return MapPiece(storage, call.boxes.out[0]);
}

// The kernel of a function with f(0) = 0: table.add("silu", make_pointwise<silu>).
template <PointwiseLoop loop, FactorsOf factors = no_factors>
std::unique_ptr<Kernel> make_pointwise(const Call& call, const StorageRule& storage) {
  require_f32(call);
  return std::make_unique<PointwiseKernel>(loop, output_elements(call, storage, 0), factors(call.site), std::nullopt);
}

// The kernel of a function with f(0) ≠ 0: it clears the channels that pad a map's blocks.
template <PointwiseLoop loop, FactorsOf factors = no_factors>
std::unique_ptr<Kernel> make_padded_pointwise(const Call& call, const StorageRule& storage) {
  require_f32(call);
  return std::make_unique<PointwiseKernel>(loop, output_elements(call, storage, 0), factors(call.site),
                                           padded_output(call, storage));
}

// The kernel of a gradient; dy = 0 must give 0 whatever finite number the other input holds.
template <PointwiseGradLoop loop, FactorsOf factors = no_factors>
std::unique_ptr<Kernel> make_pointwise_grad(const Call& call, const StorageRule& storage) {
  require_f32(call);
  return std::make_unique<PointwiseGradKernel>(loop, output_elements(call, storage, 0), factors(call.site), std::nullopt);
}

// The kernel of a gradient that is not 0 by itself where dy and the other input are: it clears the channels that pad a map's
// blocks.
template <PointwiseGradLoop loop, FactorsOf factors = no_factors>
std::unique_ptr<Kernel> make_padded_pointwise_grad(const Call& call, const StorageRule& storage) {
  require_f32(call);
  return std::make_unique<PointwiseGradKernel>(loop, output_elements(call, storage, 0), factors(call.site),
                                               padded_output(call, storage));
}

}  // namespace outsize
