#include "ops/cpu_support.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// Sums of so many positions are taken in f32, those of these sums in f64.
constexpr std::int64_t kRun = 256;

template <int B>
OUTSIZE_INLINE void add_positions(const float* x, std::int64_t positions, double* sums) {
  for (std::int64_t from = 0; from < positions; from += kRun) {
    float run[4][B] = {};
    const std::int64_t end = std::min(positions, from + kRun);
    std::int64_t i = from;
    for (; i + 4 <= end; i += 4)
      for (int part = 0; part < 4; ++part)
        for (int c = 0; c < B; ++c) run[part][c] += x[(i + part) * B + c];
    for (; i < end; ++i)
      for (int c = 0; c < B; ++c) run[0][c] += x[i * B + c];
    for (int c = 0; c < B; ++c) sums[c] += static_cast<double>((run[0][c] + run[1][c]) + (run[2][c] + run[3][c]));
  }
}

OUTSIZE_CLONES void add_plane(std::int64_t block, const float* x, std::int64_t positions, double* sums) {
  if (block == 16)
    add_positions<16>(x, positions, sums);
  else
    add_positions<8>(x, positions, sums);
}

// A part of the positions of one block of one sample at a time, so that few channels keep all threads busy; the parts' sums are
// then added in their order.
class ChannelSum final : public Kernel {
 public:
  explicit ChannelSum(const MapPiece& x) : x_(x), parts_((x.positions() + kPart - 1) / kPart) {
    sums_ = workspace_.book(x_.planes() * parts_ * x_.block * size_of(DType::f64));
  }
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }
  std::string name() const override { return "loops"; }

  void run(const KernelRun& run) const override {
    double* const sums = f64(run.workspace + sums_);
    parallel_for(x_.planes() * parts_, x_.elements() * 4, [&](std::int64_t i) {
      const std::int64_t from = i % parts_ * kPart;
      double* const own = sums + i * x_.block;
      std::fill_n(own, x_.block, 0.0);
      add_plane(x_.block, f32(run.in[0]) + i / parts_ * x_.plane() + from * x_.block, std::min(kPart, x_.positions() - from), own);
    });
    float* const y = f32(run.out[0]);
    for (std::int64_t c = 0; c < x_.channels; ++c) {
      double total = 0;
      for (std::int64_t n = 0; n < x_.samples; ++n)
        for (std::int64_t part = 0; part < parts_; ++part)
          total += sums[((n * x_.blocks + c / x_.block) * parts_ + part) * x_.block + c % x_.block];
      y[c] = static_cast<float>(total);
    }
  }

 private:
  static constexpr std::int64_t kPart = 4096;

  MapPiece x_;
  std::int64_t parts_;
  Workspace workspace_;
  std::int64_t sums_ = 0;
};

std::unique_ptr<Kernel> make(const Call& call, const StorageRule& storage) {
  require_f32(call);
  require_blocks(call, storage);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  return std::make_unique<ChannelSum>(MapPiece(storage, call.boxes.in[0]));
}

}  // namespace

void cpu_channel_sum(KernelTable& table) { table.add("channel_sum", make); }

}  // namespace outsize
