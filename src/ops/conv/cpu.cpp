#include "ops/alternatives.h"
#include "ops/conv/cpu_depthwise.h"
#include "ops/conv/cpu_weights.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// A stem's few channels with each tap as a channel of its own, over y's positions: the convolution is then one of a single position
// on channels c · taps + t, with the same weights.
class Unfolding {
 public:
  // `planar`: x is stored N C D? H W.
  Unfolding(const ConvGeometry& geometry, const StorageRule& storage, bool planar)
      : geometry_(geometry), storage_(storage), of_x_(planar ? StorageRule{} : storage) {}

  // The convolution that is left.
  ConvGeometry geometry() const {
    ConvGeometry one = geometry_.thinned();
    one.x = box(geometry_.y);
    one.channels = {1, one.x.extent(1), geometry_.channels.outputs};
    return one;
  }
  WeightOrder order(const Box& weight) const {
    Box flat = weight;
    flat.set(1, {0, weight.extent(1) * geometry_.taps()});
    for (int i = 2; i < flat.rank(); ++i) flat.set(i, {0, 1});
    return {geometry().channels, flat, flat[1]};
  }
  // The box of the unfolded map for a box of y.
  Box box(Box y) const {
    y.set(1, {0, geometry_.x.extent(1) * geometry_.taps()});
    return y;
  }
  std::int64_t bytes() const { return MapPiece(storage_, box(geometry_.y)).elements() * size_of(DType::f32); }

  // Fills `to`, which holds box(y).
  void run(const float* x, const Box& x_box, const Box& y, float* to) const {
    const MapPiece source(of_x_, x_box);
    const MapPiece target(storage_, box(y));
    const int rank = geometry_.rank();
    const WindowAxis deep = rank == 3 ? geometry_.windows[0] : WindowAxis{1, 1, 0, 0, 1};
    const WindowAxis& high = geometry_.windows[rank - 2];
    const WindowAxis& wide = geometry_.windows[rank - 1];
    const Interval depths = rank == 3 ? x_box[2] : Interval{0, 1};
    const Interval heights = x_box[rank];
    const Interval columns = x_box[rank + 1];
    parallel_for(target.planes() * target.depth * target.height, target.elements() * 8, [&](std::int64_t n) {
      const std::int64_t plane = n / (target.depth * target.height);
      const std::int64_t depth = (rank == 3 ? y.lo[2] : 0) + n / target.height % target.depth;
      const std::int64_t height = y.lo[rank] + n % target.height;
      float* const row = to + n * target.row();
      std::fill_n(row, target.row(), 0.0f);
      for (std::int64_t lane = 0; lane < target.lanes(plane % target.blocks); ++lane) {
        const std::int64_t channel = plane % target.blocks * target.block + lane;
        const std::int64_t tap = channel % geometry_.taps();
        const std::int64_t c = channel / geometry_.taps();
        const std::int64_t k = tap % wide.kernel;
        const std::int64_t x_depth = deep.position(depth, tap / (wide.kernel * high.kernel));
        const std::int64_t x_height = high.position(height, tap / wide.kernel % high.kernel);
        if (x_depth < depths.lo || x_depth >= depths.hi || x_height < heights.lo || x_height >= heights.hi) continue;
        const std::int64_t source_plane = plane / target.blocks * source.blocks + c / source.block;
        const float* const line =
            x + ((source_plane * source.depth + x_depth - depths.lo) * source.height + x_height - heights.lo) * source.row() +
            c % source.block;
        const std::int64_t offset = wide.before - k * wide.dilation;
        const Interval inside =
            intersect(y[rank + 1], {ceil_div(columns.lo + offset, wide.stride), ceil_div(columns.hi + offset, wide.stride)});
        for (std::int64_t o = inside.lo; o < inside.hi; ++o)
          row[(o - y.lo[rank + 1]) * target.block + lane] = line[(wide.position(o, k) - columns.lo) * source.block];
      }
    });
  }

 private:
  ConvGeometry geometry_;
  StorageRule storage_;
  StorageRule of_x_;
};

// Whether unfolding is worth its copy: few channels, of which a block would be mostly padding.
bool unfoldable(const ConvGeometry& geometry) {
  return geometry.channels.groups == 1 && geometry.x.extent(1) <= kStemChannels &&
         geometry.x.extent(1) == geometry.channels.inputs && geometry.taps() > 1;
}
// Whether windows lie side by side, so that the unfolded map is no larger than x.
bool patches(const ConvGeometry& geometry) {
  for (int i = 0; i < geometry.rank(); ++i)
    if (geometry.windows[i].stride < geometry.windows[i].reach()) return false;
  return true;
}

class Forward final : public Kernel {
 public:
  Forward(Convolution convolution, std::optional<Unfolding> unfolding, bool bias, const MapPiece& y)
      : convolution_(std::move(convolution)), unfolding_(std::move(unfolding)), has_bias_(bias), y_(y) {
    if (unfolding_) unfolded_ = workspace_.book(unfolding_->bytes());
    if (has_bias_) bias_ = workspace_.book(y_.padded_channels() * size_of(DType::f32));
    shared_ = workspace_.book(convolution_.workspace_bytes());
  }
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }
  std::string name() const override { return convolution_.name() + (unfolding_ ? "+unfolded" : ""); }

  void run(const KernelRun& run) const override {
    float* const bias = has_bias_ ? f32(run.workspace + bias_) : nullptr;
    if (has_bias_) std::fill_n(std::copy_n(f32(run.in[2]), y_.channels, bias), y_.padded_channels() - y_.channels, 0.0f);
    const float* x = f32(run.in[0]);
    Box x_box = run.in_boxes[0];
    if (unfolding_) {
      unfolding_->run(x, x_box, run.out_boxes[0], f32(run.workspace + unfolded_));
      x = f32(run.workspace + unfolded_);
      x_box = unfolding_->box(run.out_boxes[0]);
    }
    convolution_.forward(run.workspace + shared_, {x_box, run.out_boxes[0]}, x, f32(run.in[1]), bias, f32(run.out[0]));
  }

 private:
  Convolution convolution_;
  std::optional<Unfolding> unfolding_;
  bool has_bias_;
  MapPiece y_;
  Workspace workspace_;
  std::int64_t unfolded_ = 0;
  std::int64_t bias_ = 0;
  std::int64_t shared_ = 0;
};

// A stem's weight gradient by unfolding.
class UnfoldedWeights final : public Kernel {
 public:
  UnfoldedWeights(Convolution convolution, const Unfolding& unfolding, bool bias, const MapPiece& y)
      : convolution_(std::move(convolution)), unfolding_(unfolding), has_bias_(bias), y_(y) {
    if (has_bias_) bias_ = workspace_.book(y_.padded_channels() * size_of(DType::f32));
    unfolded_ = workspace_.book(unfolding_.bytes());
    shared_ = workspace_.book(convolution_.workspace_bytes());
  }
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }
  std::string name() const override { return convolution_.name() + "+unfolded"; }

  void run(const KernelRun& run) const override {
    float* const bias = has_bias_ ? f32(run.workspace + bias_) : nullptr;
    float* const unfolded = f32(run.workspace + unfolded_);
    const Box& y = run.in_boxes[0];
    unfolding_.run(f32(run.in[1]), run.in_boxes[1], y, unfolded);
    convolution_.weights(run.workspace + shared_, {unfolding_.box(y), y}, unfolded, f32(run.in[0]), f32(run.out[0]), bias);
    if (has_bias_) std::copy_n(bias, y_.channels, f32(run.out[1]));
  }

 private:
  Convolution convolution_;
  Unfolding unfolding_;
  bool has_bias_;
  MapPiece y_;
  Workspace workspace_;
  std::int64_t bias_ = 0;
  std::int64_t unfolded_ = 0;
  std::int64_t shared_ = 0;
};

// One primitive, or, where the library has no fast one, one a tap: its gradient is that of a kernel of one position over the
// positions of x that the tap meets.
class BackwardWeights final : public Kernel {
 public:
  BackwardWeights(Convolution convolution, const ConvGeometry& geometry, const StorageRule& storage, bool taps, bool bias)
      : convolution_(std::move(convolution)),
        geometry_(geometry),
        storage_(storage),
        taps_(taps),
        has_bias_(bias),
        y_(storage, geometry.y) {
    if (has_bias_) bias_ = workspace_.book(y_.padded_channels() * size_of(DType::f32));
    if (taps_) met_ = workspace_.book(MapPiece(storage_, geometry.thinned().x).elements() * size_of(DType::f32));
    shared_ = workspace_.book(convolution_.workspace_bytes());
  }
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }
  std::string name() const override { return convolution_.name() + (taps_ ? "+taps" : ""); }

  void run(const KernelRun& run) const override {
    const float* const dy = f32(run.in[0]);
    const float* const x = f32(run.in[1]);
    float* const bias = has_bias_ ? f32(run.workspace + bias_) : nullptr;
    const ConvPlace place{run.in_boxes[1], run.in_boxes[0]};
    Box met = place.y;
    met.set(1, place.x[1]);
    if (taps_)
      for (std::int64_t tap = 0; tap < geometry_.taps(); ++tap) {
        thin_map(storage_, steps_of(tap), x, place.x, f32(run.workspace + met_), met);
        convolution_.weights(run.workspace + shared_, {met, place.y}, f32(run.workspace + met_), dy, f32(run.out[0]), bias, tap);
      }
    else
      convolution_.weights(run.workspace + shared_, place, x, dy, f32(run.out[0]), bias);
    if (has_bias_) std::copy_n(bias, y_.channels, f32(run.out[1]));
  }

 private:
  // Where a tap's positions lie: y[o] meets x[o · stride − before + t · dilation].
  Steps steps_of(std::int64_t tap) const {
    Steps steps;
    for (std::size_t i = static_cast<std::size_t>(geometry_.rank()); i-- > 0;) {
      const WindowAxis& axis = geometry_.windows.axes[i];
      steps.stride[i] = axis.stride;
      steps.padding[i] = axis.before - tap % axis.kernel * axis.dilation;
      tap /= axis.kernel;
    }
    return steps;
  }

  Convolution convolution_;
  ConvGeometry geometry_;
  StorageRule storage_;
  bool taps_;
  bool has_bias_;
  MapPiece y_;
  Workspace workspace_;
  std::int64_t bias_ = 0;
  std::int64_t met_ = 0;
  std::int64_t shared_ = 0;
};

// A kernel for a blocked x, given a planar one.
class Blocked final : public Kernel {
 public:
  Blocked(std::unique_ptr<Kernel> inner, const StorageRule& storage, std::size_t input, const Box& x)
      : inner_(std::move(inner)), storage_(storage), input_(input) {
    x_ = workspace_.book(MapPiece(storage, x).elements() * size_of(DType::f32));
    shared_ = workspace_.book(inner_->workspace_bytes());
  }
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }
  std::string name() const override { return inner_->name() + "+blocked"; }

  void run(const KernelRun& run) const override {
    std::array<const std::byte*, 3> in{};
    std::copy(run.in.begin(), run.in.end(), in.begin());
    block_map(storage_, f32(run.in[input_]), run.in_boxes[input_], f32(run.workspace + x_));
    in[input_] = run.workspace + x_;
    inner_->run({std::span(in).first(run.in.size()), run.out, run.workspace + shared_, run.in_boxes, run.out_boxes, run.owned});
  }

 private:
  std::unique_ptr<Kernel> inner_;
  StorageRule storage_;
  std::size_t input_;
  Workspace workspace_;
  std::int64_t x_ = 0;
  std::int64_t shared_ = 0;
};

using Kernels = std::vector<std::unique_ptr<Kernel>>;
// The kernels for a call, the one that is taken where nothing is chosen first. `first`: that one is enough. There may be none for a
// planar x.
using MakeKernels = Kernels (*)(const Call& call, const StorageRule& storage, bool planar, bool first);

Kernels kernels_for(const Call& call, const StorageRule& storage, int x, MakeKernels make, bool first) {
  require_f32(call);
  require_blocks(call, storage);
  if (call.site.in(x).format != Format::planar) return make(call, storage, false, first);
  Kernels kernels = make(call, storage, true, first);
  if (first && !kernels.empty()) return kernels;
  const auto input = static_cast<std::size_t>(x);
  for (std::unique_ptr<Kernel>& inner : make(call, storage, false, first))
    kernels.push_back(std::make_unique<Blocked>(std::move(inner), storage, input, call.boxes.in[input]));
  return kernels;
}

template <int kX, MakeKernels kMake>
std::unique_ptr<Kernel> first_of(const Call& call, const StorageRule& storage) {
  return std::move(kernels_for(call, storage, kX, kMake, true).front());
}

template <int kX, MakeKernels kMake>
std::vector<PreparedAlternative> all_of(const Call& call, const StorageRule& storage) {
  std::vector<PreparedAlternative> all;
  for (std::unique_ptr<Kernel>& kernel : kernels_for(call, storage, kX, kMake, false))
    if (std::ranges::none_of(all, [&](const auto& other) { return other.kernel->name() == kernel->name(); }))
      all.push_back({std::move(kernel)});
  return all;
}

Kernels forward_kernels(const Call& call, const StorageRule& storage, bool planar, bool first) {
  Kernels kernels;
  if (call.boxes.out[0].empty()) {
    kernels.push_back(make_zero_kernel(call, storage));
    return kernels;
  }
  const ConvGeometry geometry =
      conv_geometry(call.site, call.site.in(1).shape, call.site.in(0).shape, call.boxes.in[0], call.boxes.out[0]);
  const std::string what = describe_conv(call, geometry);
  const bool bias = call.site.inputs() > 2 && !call.boxes.in[2].empty();
  const ConvProblem problem{ConvPass::forward,        storage, bias, call.site.word("activation") == "relu",
                            x_stands_still(geometry), planar};
  const WeightOrder order(geometry.channels, call.boxes.in[1], geometry.x[1]);
  const MapPiece y(storage, geometry.y);
  if (unfoldable(geometry) && patches(geometry) && geometry.taps() * geometry.x.extent(1) >= storage.channel_block) {
    const Unfolding unfolding(geometry, storage, planar);
    const ConvProblem even{ConvPass::forward, storage, bias, problem.relu};
    if (std::optional<Convolution> one = Convolution::find(even, unfolding.geometry(), unfolding.order(call.boxes.in[1]), what))
      kernels.push_back(std::make_unique<Forward>(std::move(*one), unfolding, bias, y));
    if (first && !kernels.empty()) return kernels;
  }
  std::optional<Convolution> found = Convolution::find(problem, geometry, order, what, true);
  if (planar && !(found && found->sees_plain())) return kernels;
  if (found)
    kernels.push_back(std::make_unique<Forward>(std::move(*found), std::nullopt, bias, y));
  else if (is_depthwise(geometry))
    kernels.push_back(make_depthwise_forward(problem, geometry));
  if (kernels.empty())
    internal_error("oneDNN has only a reference implementation in blocks of {} for {}", storage.channel_block, what);
  return kernels;
}

std::unique_ptr<Kernel> make_data(const Call& call, const StorageRule& storage) { return make_conv_spread(call, storage, false); }

Kernels weights_kernels(const Call& call, const StorageRule& storage, bool planar, bool first) {
  Kernels kernels;
  if (call.boxes.in[0].empty()) {
    kernels.push_back(make_zero_kernel(call, storage));
    return kernels;
  }
  const ConvGeometry geometry =
      conv_geometry(call.site, call.site.out(0).shape, call.site.in(1).shape, call.boxes.in[1], call.boxes.in[0]);
  const std::string what = describe_conv(call, geometry);
  const bool bias = call.site.outputs() > 1;
  const ConvProblem problem{ConvPass::weights, storage, bias, false, x_stands_still(geometry), planar};
  if (!unfoldable(geometry) && !planar && has_row_weights(storage, geometry)) {
    kernels.push_back(make_row_weights(problem, geometry));
    if (first) return kernels;
  }
  const WeightOrder order(geometry.channels, call.boxes.out[0], geometry.x[1]);
  std::optional<Convolution> found = Convolution::find(problem, geometry, order, what);
  if (unfoldable(geometry) && (!found || !found->sees_plain())) {
    const Unfolding unfolding(geometry, storage, planar);
    if (std::optional<Convolution> one =
            Convolution::find({ConvPass::weights, storage, bias}, unfolding.geometry(), unfolding.order(call.boxes.out[0]), what))
      kernels.push_back(std::make_unique<UnfoldedWeights>(std::move(*one), unfolding, bias, MapPiece(storage, geometry.y)));
    if (first && !kernels.empty()) return kernels;
  }
  if (planar && !(found && found->sees_plain())) return kernels;
  if (!found && is_depthwise(geometry)) {
    kernels.push_back(make_depthwise_weights(problem, geometry));
    return kernels;
  }
  const bool taps = !found;
  if (taps) found = Convolution::find({ConvPass::weights, storage, bias}, geometry.thinned(), order.picked({0}), what, true);
  if (found) kernels.push_back(std::make_unique<BackwardWeights>(std::move(*found), geometry, storage, taps, bias));
  if (kernels.empty())
    internal_error("oneDNN has only a reference implementation in blocks of {} for {}", storage.channel_block, what);
  return kernels;
}

}  // namespace

void cpu_conv(KernelTable& table) {
  for (const std::string_view kind : {"conv2d", "conv3d"}) table.add(kind, first_of<0, forward_kernels>);
  for (const std::string_view kind : {"conv2d_grad_data", "conv3d_grad_data"}) table.add(kind, make_data);
  for (const std::string_view kind : {"conv2d_grad_weight", "conv3d_grad_weight"}) table.add(kind, first_of<1, weights_kernels>);
}

void cpu_conv_alternatives(AlternativesTable& table) {
  for (const std::string_view kind : {"conv2d", "conv3d"}) table.add(kind, all_of<0, forward_kernels>);
  for (const std::string_view kind : {"conv2d_grad_weight", "conv3d_grad_weight"}) table.add(kind, all_of<1, weights_kernels>);
}

}  // namespace outsize
