#include <numeric>

#include "ops/conv/cpu_depthwise.h"

// x from y. Where the library's own data gradient is not fast, or a bias is to be added, x is taken apart by the residues of its
// positions modulo the strides: those of one residue (a phase) meet a part of the kernel's taps, and are a convolution of y with
// these taps in steps of one, for which the library has always a fast way. No product with a zero is computed, and rows of phases
// are woven together at the end.
namespace outsize {
namespace {

// The taps of one dimension that meet the positions u · stride + residue of x, and the windows that u makes over y.
struct AxisPhase {
  WindowAxis windows{0};  // no taps: nothing meets these positions
  std::int64_t first = 0;
  std::int64_t step = 1;

  // u · stride + residue = o · stride − before + t · dilation for t = first, first + step, …
  AxisPhase(const WindowAxis& axis, std::int64_t residue) {
    const std::int64_t common = std::gcd(axis.stride, axis.dilation);
    step = axis.stride / common;
    while (first < axis.kernel && shift(axis, residue) % axis.stride != 0) ++first;
    if (first >= axis.kernel) return;
    windows.kernel = (axis.kernel - 1 - first) / step + 1;
    windows.dilation = axis.dilation / common;
    // From u the taps go backward over y, so its window begins at the last.
    windows.before = shift(axis, residue) / axis.stride + (windows.kernel - 1) * windows.dilation;
  }
  std::int64_t shift(const WindowAxis& axis, std::int64_t residue) const { return first * axis.dilation - axis.before - residue; }
  // The kernel's tap that is tap t of the windows.
  std::int64_t tap(std::int64_t t) const { return first + (windows.kernel - 1 - t) * step; }
};

// The positions u of a range of u · stride + residue.
Interval positions(Interval range, std::int64_t stride, std::int64_t residue) {
  return {ceil_div(range.lo - residue, stride), ceil_div(range.hi - residue, stride)};
}

struct Phase {
  std::array<std::int64_t, 3> residue{};
  Box box;                                 // of the positions u
  std::optional<Convolution> convolution;  // none: no element of y meets them
};

Phase make_phase(const ConvProblem& problem, const ConvGeometry& given, const WeightOrder& order, const std::string& what,
                 std::array<std::int64_t, 3> residue) {
  Phase phase{residue, given.x, std::nullopt};
  const Channels& channels = given.channels;
  ConvGeometry geometry{{{}, given.rank()}, {channels.groups, channels.outputs, channels.inputs}, given.y, {}};
  std::vector<std::int64_t> picks{0};
  for (int i = 0; i < given.rank(); ++i) {
    const WindowAxis& axis = given.windows[i];
    const std::int64_t own = residue[static_cast<std::size_t>(i)];
    const AxisPhase part(axis, own);
    phase.box.set(2 + i, positions(given.x[2 + i], axis.stride, own));
    geometry.windows[i] = part.windows;
    std::vector<std::int64_t> finer;
    for (const std::int64_t pick : picks)
      for (std::int64_t t = 0; t < part.windows.kernel; ++t) finer.push_back(pick * axis.kernel + part.tap(t));
    picks = std::move(finer);
  }
  geometry.y = phase.box;
  if (phase.box.empty() || picks.empty() || given.y.empty()) return phase;
  if (!problem.slips && intersect(geometry.window(), geometry.x).empty()) return phase;
  phase.convolution = Convolution::find(problem, geometry, order.swapped().picked(picks), what, true);
  if (!phase.convolution)
    internal_error("oneDNN has only a reference implementation in blocks of {} for {}", problem.storage.channel_block, what);
  return phase;
}

class Spread final : public Kernel {
 public:
  Spread(const ConvProblem& problem, const ConvGeometry& geometry, const WeightOrder& order, const std::string& what)
      : storage_(problem.storage), x_box_(geometry.x), x_(storage_, geometry.x), has_bias_(problem.bias) {
    std::array<std::int64_t, 3> counts{1, 1, 1};
    for (int i = 0; i < geometry.rank(); ++i) {
      const auto axis = static_cast<std::size_t>(i);
      counts[axis] = steps_.stride[axis] = geometry.windows[i].stride;
    }
    const auto last = static_cast<std::size_t>(geometry.rank() - 1);
    threads_ = counts[last];
    // The threads of a row one after another.
    std::array<std::int64_t, 3> residue{};
    for (std::int64_t n = 0; n < counts[0] * counts[1] * counts[2]; ++n) {
      std::int64_t rest = n;
      for (std::size_t i = last + 1; i-- > 0; rest /= counts[i]) residue[i] = rest % counts[i];
      phases_.push_back(make_phase(problem, geometry, order, what, residue));
    }
    bias_ = workspace_.book(x_.padded_channels() * size_of(DType::f32));
    std::int64_t most = 0;
    std::int64_t largest = 0;
    for (const Phase& phase : phases_) {
      if (!phase.convolution) continue;
      most = std::max(most, phase.convolution->workspace_bytes());
      largest = std::max(largest, MapPiece(storage_, phase.box).elements() * size_of(DType::f32));
    }
    shared_ = workspace_.book(most);
    if (phases_.size() == 1) return;
    thread_bytes_ = align_up(largest, 64);
    woven_ = workspace_.book(threads_ * thread_bytes_);
  }

  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }
  std::string name() const override {
    for (const Phase& phase : phases_)
      if (phase.convolution) return fmt::format("{}+phases:{}", phase.convolution->name(), phases_.size());
    return "fill";
  }

  void run(const KernelRun& run) const override {
    float* const fill = f32(run.workspace + bias_);
    std::fill_n(fill, x_.padded_channels(), 0.0f);
    if (has_bias_) std::copy_n(f32(run.in[2]), x_.channels, fill);
    const float* const bias = has_bias_ ? fill : nullptr;
    float* const x = f32(run.out[0]);
    // Loops move x by whole strides.
    Dims moved = Dims::filled(x_box_.rank(), 0);
    for (int i = 0; i < x_box_.rank(); ++i)
      moved[i] = (run.out_boxes[0].lo[i] - x_box_.lo[i]) / (i < 2 ? 1 : steps_.stride[static_cast<std::size_t>(i - 2)]);
    const auto compute = [&](const Phase& phase, float* to) {
      phase.convolution->forward(run.workspace + shared_, {run.in_boxes[0], phase.box.shifted(moved)}, f32(run.in[0]),
                                 f32(run.in[1]), bias, to);
    };
    if (phases_.size() == 1 && phases_[0].convolution) return compute(phases_[0], x);
    for (std::size_t from = 0; from < phases_.size(); from += static_cast<std::size_t>(threads_)) {
      std::array<Thread, kThreads> threads;
      for (std::size_t i = 0; i < static_cast<std::size_t>(threads_); ++i) {
        const Phase& phase = phases_[from + i];
        if (!phase.convolution) continue;
        float* const data = f32(run.workspace + woven_ + static_cast<std::int64_t>(i) * thread_bytes_);
        compute(phase, data);
        threads[i] = {data, phase.box};
      }
      weave_map(storage_, steps_, phases_[from].residue, std::span(threads).first(static_cast<std::size_t>(threads_)), fill, x,
                x_box_);
    }
  }

  static constexpr std::int64_t kThreads = 64;  // the largest stride of columns

 private:
  StorageRule storage_;
  Box x_box_;
  MapPiece x_;
  bool has_bias_;
  Steps steps_;
  std::int64_t threads_ = 1;
  std::vector<Phase> phases_;
  Workspace workspace_;
  std::int64_t bias_ = 0;
  std::int64_t shared_ = 0;
  std::int64_t woven_ = 0;
  std::int64_t thread_bytes_ = 0;
};

// The library's own data gradient.
class BackwardData final : public Kernel {
 public:
  explicit BackwardData(Convolution convolution) : convolution_(std::move(convolution)) {}
  std::int64_t workspace_bytes() const override { return convolution_.workspace_bytes(); }
  std::string name() const override { return convolution_.name(); }
  void run(const KernelRun& run) const override {
    convolution_.data(run.workspace, {run.out_boxes[0], run.in_boxes[0]}, f32(run.in[0]), f32(run.in[1]), f32(run.out[0]));
  }

 private:
  Convolution convolution_;
};

// x computed for a larger box, of which the call's box is cut at run time: where several boxes of x meet the same box of y, only
// then is it known which of them it is.
class Cut final : public Kernel {
 public:
  Cut(std::unique_ptr<Kernel> inner, const StorageRule& storage, const Box& larger, const Box& x)
      : inner_(std::move(inner)), storage_(storage), larger_(larger), x_box_(x) {
    result_ = workspace_.book(MapPiece(storage, larger).elements() * size_of(DType::f32));
    shared_ = workspace_.book(inner_->workspace_bytes());
  }
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }
  std::string name() const override { return inner_->name() + "+cut"; }

  void run(const KernelRun& run) const override {
    // Along the dimensions that are not whole it moves with the call.
    std::array<Box, 1> larger{larger_};
    for (int i = 0; i < larger_.rank(); ++i)
      if (larger_[i] == x_box_[i]) larger[0].set(i, run.out_boxes[0][i]);
    std::array<std::byte*, 1> out{run.workspace + result_};
    inner_->run({run.in, out, run.workspace + shared_, run.in_boxes, larger, run.owned});
    embed_map(storage_, f32(out[0]), larger[0], f32(run.out[0]), run.out_boxes[0]);
  }

 private:
  std::unique_ptr<Kernel> inner_;
  StorageRule storage_;
  Box larger_;
  Box x_box_;
  Workspace workspace_;
  std::int64_t result_ = 0;
  std::int64_t shared_ = 0;
};

// With all of x along the dimensions where a part of it meets all of y: a loop over x may leave y where it is.
ConvGeometry standing_still(ConvGeometry geometry) {
  for (int i = 0; i < geometry.rank(); ++i) {
    const WindowAxis& axis = geometry.windows[i];
    if (geometry.y[2 + i] == Interval{0, axis.output()}) geometry.x.set(2 + i, {0, axis.input});
  }
  return geometry;
}

std::unique_ptr<Kernel> make_spread(const Call& call, const StorageRule& storage, const ConvGeometry& geometry, bool bias) {
  const std::string what = describe_conv(call, geometry);
  const WeightOrder order(geometry.channels, call.boxes.in[1], geometry.x[1]);
  const bool slips = x_stands_still(geometry);
  if (!bias)
    if (std::optional<Convolution> own = Convolution::find({ConvPass::data, storage, false, false, slips}, geometry, order, what))
      return std::make_unique<BackwardData>(std::move(*own));
  if (is_depthwise(geometry)) return make_depthwise_spread({ConvPass::data, storage, bias}, geometry);
  return std::make_unique<Spread>(ConvProblem{ConvPass::forward, storage, bias, false, slips}, geometry, order, what);
}

}  // namespace

std::unique_ptr<Kernel> make_conv_spread(const Call& call, const StorageRule& storage, bool bias) {
  require_f32(call);
  require_blocks(call, storage);
  if (call.boxes.out[0].empty() || (!bias && call.boxes.in[0].empty())) return make_zero_kernel(call, storage);
  const ConvGeometry geometry =
      conv_geometry(call.site, call.site.in(1).shape, call.site.out(0).shape, call.boxes.out[0], call.boxes.in[0]);
  for (int i = 0; i < geometry.rank(); ++i)
    if (geometry.windows[i].stride > Spread::kThreads)
      internal_error("the cpu kernel of {} takes strides up to {}, not {}", call.site.op.name, Spread::kThreads,
                     geometry.windows[i].stride);
  if (!bias && intersect(geometry.x, geometry.window()).empty()) return make_zero_kernel(call, storage);
  const ConvGeometry larger = standing_still(geometry);
  std::unique_ptr<Kernel> kernel = make_spread(call, storage, larger, bias);
  if (larger.x == geometry.x) return kernel;
  return std::make_unique<Cut>(std::move(kernel), storage, larger.x, geometry.x);
}

}  // namespace outsize
