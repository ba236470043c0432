#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "ops/cpu_support.h"
#include "ops/registry.h"

// All three kinds run oneDNN's convolutions on channel-blocked pieces, with channels declared rounded up to the block; weights
// are brought into the primitive's layout, zero-padded, in the workspace.
//
// The primitive sees the y side (y or dy) as it is. The x side may have to pass through the workspace (see Passage): where the
// library has no fast implementation for a tile's paddings, where most of a block would be padding, where a stride skips positions.
namespace outsize {

namespace {

using dnnl::memory;

enum class Pass { forward, data, weights };

// What ties the y side of a call to its x side: y[o] meets x[o * stride - padding + k].
struct Geometry {
  std::array<std::int64_t, 2> kernel;
  Steps steps;
  Box x;
  Box y;

  // `weight` is the shape O C kh kw of the weights given: a call may have ranges of the channels of y or x.
  Geometry(const OpSite& site, const Dims& weight, const Box& x_box, const Box& y_box)
      : kernel{weight[2], weight[3]},
        steps{{site.integers("stride")[0], site.integers("stride")[1]}, {site.integers("padding")[0], site.integers("padding")[1]}},
        x(x_box),
        y(y_box) {
    // All windows may lie in the padding: then the box has no extent in any dimension.
    if (x.empty()) x = {{y.lo[0], 0, 0, 0}, {y.hi[0], weight[1], 0, 0}};
    OUTSIZE_CHECK(x.extent(1) == weight[1] && y.extent(1) == weight[0]);
  }

  // x's box with H and W replaced by all that the windows of y cover, padding included.
  Box window() const {
    Box covered = x;
    for (int i = 0; i < 2; ++i) {
      const std::int64_t first = y.lo[2 + i] * steps.stride[i] - steps.padding[i];
      covered.set(2 + i, {first, first + (y.extent(2 + i) - 1) * steps.stride[i] + kernel[i]});
    }
    return covered;
  }

  // The same convolution in steps of one: y with zeros between its elements.
  Geometry dilated() const {
    Geometry even = *this;
    even.steps.stride = {1, 1};
    for (int i = 0; i < 2; ++i) even.y.set(2 + i, {y.lo[2 + i] * steps.stride[i], (y.hi[2 + i] - 1) * steps.stride[i] + 1});
    return even;
  }

  // For kernels of one position: the same convolution over only those positions of x that y meets, numbered as y's.
  Geometry thinned() const {
    Geometry even = *this;
    even.steps = {{1, 1}, {0, 0}};
    for (int i = 0; i < 2; ++i) even.x.set(2 + i, y[2 + i]);
    return even;
  }
};

// How the x side reaches the primitive.
enum class Passage {
  direct,   // the call's own piece, with the padding that its box implies on each side
  window,   // another box: the part that the windows touch, or all they cover, so that no padding is needed
  thinned,  // a strided 1×1 kernel: the positions it meets, so that it is a 1×1 kernel of stride one
  plain,    // N C H W: a stem's few channels, for which the library has kernels that do not compute a block's padding
};

std::string_view name_of(Passage passage) {
  switch (passage) {
    case Passage::direct: return "";
    case Passage::window: return "+window";
    case Passage::thinned: return "+thinned";
    case Passage::plain: return "+plain";
  }
  return "";
}

struct Problem {
  Pass pass;
  const StorageRule& storage;
  bool bias;
  bool relu;
};

// A convolution as the primitive sees it; `x` is the box of the x side after its passage.
struct Choice {
  Passage passage;
  Box x;
  dnnl::primitive_desc_base description;
  memory::desc weights;

  bool found() const { return description.get(true) != nullptr; }
  bool is(std::string_view implementation) const {
    return std::string_view(description.impl_info_str()).find(implementation) != std::string_view::npos;
  }
};

memory::desc blocked_desc(const StorageRule& storage, const Box& box) {
  const MapPiece piece(storage, box);
  return {{piece.samples, piece.padded_channels(), piece.height, piece.width},
          memory::data_type::f32,
          storage.channel_block == 16 ? memory::format_tag::nChw16c : memory::format_tag::nChw8c};
}

memory::desc plain_desc(const Dims& shape, memory::format_tag tag) {
  return {{shape[0], shape[1], shape[2], shape[3]}, memory::data_type::f32, tag};
}

dnnl::engine weak_engine() {
  dnnl::engine engine;
  engine.reset(cpu_engine(), true);
  return engine;
}

dnnl::primitive_attr attributes(bool relu) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (relu) {
    dnnl::post_ops after;
    after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    attr.set_post_ops(after);
  }
  return attr;
}

// The primitive for this box of the x side; not found() where the library has none.
Choice describe(const Problem& problem, const Geometry& geometry, Passage passage, const Box& x) {
  const Box window = geometry.window();
  memory::dims strides, before, after;
  for (int i = 0; i < 2; ++i) {
    strides.push_back(geometry.steps.stride[i]);
    before.push_back(x.lo[2 + i] - window.lo[2 + i]);
    after.push_back(std::max<std::int64_t>(0, window.hi[2 + i] - x.hi[2 + i]));
  }
  const memory::desc source =
      passage == Passage::plain ? plain_desc(x.shape(), memory::format_tag::nchw) : blocked_desc(problem.storage, x);
  const memory::desc target = blocked_desc(problem.storage, geometry.y);
  const memory::desc weights =
      plain_desc({target.dims()[1], source.dims()[1], geometry.kernel[0], geometry.kernel[1]}, memory::format_tag::any);
  const memory::desc bias =
      problem.bias ? memory::desc({target.dims()[1]}, memory::data_type::f32, memory::format_tag::a) : memory::desc();
  const dnnl::algorithm direct = dnnl::algorithm::convolution_direct;
  const dnnl::engine engine = weak_engine();
  const bool forward = problem.pass == Pass::forward;
  const dnnl::convolution_forward::primitive_desc hint(
      {dnnl::prop_kind::forward_training, direct, source, weights, bias, target, strides, before, after},
      attributes(forward && problem.relu), engine, true);
  Choice choice{passage, x, {}, {}};
  if (hint.get(true) == nullptr) return choice;
  if (forward) {
    choice.description = hint;
    choice.weights = hint.weights_desc();
  } else if (problem.pass == Pass::data) {
    const dnnl::convolution_backward_data::primitive_desc data({direct, source, weights, target, strides, before, after},
                                                               attributes(false), engine, hint, true);
    choice.description = data;
    if (choice.found()) choice.weights = data.weights_desc();
  } else {
    const dnnl::convolution_backward_weights::primitive_desc found({direct, source, weights, bias, target, strides, before, after},
                                                                   attributes(false), engine, hint, true);
    choice.description = found;
    if (choice.found()) choice.weights = found.diff_weights_desc();
  }
  return choice;
}

// Whether the primitive can be asked for this box: padding below the kernel's size on every side, and at its end no more
// positions that no window reaches than a stride leaves.
bool askable(const Geometry& geometry, const Box& x) {
  const Box window = geometry.window();
  for (int i = 0; i < 2; ++i) {
    const std::int64_t before = x.lo[2 + i] - window.lo[2 + i];
    const std::int64_t after = window.hi[2 + i] - x.hi[2 + i];
    if (before < 0 || before >= geometry.kernel[i] || after >= geometry.kernel[i] || after <= -geometry.steps.stride[i])
      return false;
  }
  return !x.empty();
}

// The first way with a fast implementation, else one by matrix products; none where the library has only its reference.
std::optional<Choice> choose(const Problem& problem, const Geometry& geometry, bool may_be_plain) {
  const Box window = geometry.window();
  const Box touched = intersect(geometry.x, window);
  constexpr std::int64_t kStemChannels = 3;
  if (may_be_plain && problem.pass != Pass::data && geometry.x.extent(1) <= kStemChannels)
    for (const Box& x : {touched, window})
      if (askable(geometry, x))
        if (const Choice choice = describe(problem, geometry, Passage::plain, x); choice.found() && choice.is("jit:"))
          return choice;
  std::optional<Choice> slow;
  for (const Box& x : {geometry.x, touched, window}) {
    if (!askable(geometry, x)) continue;
    const Choice choice = describe(problem, geometry, x == geometry.x ? Passage::direct : Passage::window, x);
    if (!choice.found() || choice.is("ref")) continue;
    if (!choice.is("gemm:")) return choice;
    if (!slow) slow = choice;
  }
  return slow;
}

// As above, but a kernel that skips positions may see those it meets only: for some boxes there is no other fast way, and in AVX2
// the direct ways take up to twice the time.
std::optional<Choice> choose_strided(const Problem& problem, const Geometry& geometry) {
  const bool skips = geometry.kernel == std::array<std::int64_t, 2>{1, 1} && geometry.steps.stride != geometry.kernel;
  if (!skips) return choose(problem, geometry, true);
  if (problem.storage.channel_block == 16)
    if (const std::optional<Choice> choice = choose(problem, geometry, false); choice && !choice->is("gemm:")) return choice;
  std::optional<Choice> choice = choose(problem, geometry.thinned(), false);
  if (choice) choice->passage = Passage::thinned;
  return choice;
}

// The blocked weights of a primitive, of which only `weight` (O C kh kw) is real: the rest is zero padding that a reorder writes
// or leaves out.
memory::desc unpadded(const memory::desc& blocked, const Dims& weight) {
  memory::desc view = blocked;
  view.data.dims[0] = weight[0];
  view.data.dims[1] = weight[1];
  return view;
}

DnnlCall make_reorder(const memory::desc& from, const memory::desc& to, const std::string& what) {
  const dnnl::engine engine = weak_engine();
  const dnnl::reorder::primitive_desc description(engine, from, engine, to, attributes(false));
  return {description.get(), std::array{DNNL_ARG_FROM, DNNL_ARG_TO}, what + ", weights"};
}

std::string describe_call(const Call& call, const Geometry& geometry) {
  return fmt::format("{} {} (x {}, y {}, kernel {}x{}, stride {}x{})", call.site.op.def->kind(), call.site.op.name,
                     to_string(geometry.x.shape()), to_string(geometry.y.shape()), geometry.kernel[0], geometry.kernel[1],
                     geometry.steps.stride[0], geometry.steps.stride[1]);
}

// A call, looked at once: what the kernels are made from.
struct Setup {
  Setup(const Call& call, const StorageRule& rule, Pass pass, bool with_bias, bool relu, const Geometry& given)
      : storage(rule), bias(with_bias), geometry(given), seen(given), what(describe_call(call, given)) {
    const Problem problem{pass, storage, bias, relu};
    std::optional<Choice> best = choose_strided(problem, seen);
    if (!best && pass == Pass::data) {
      // AVX2 has no data gradient with two different strides.
      seen = given.dilated();
      best = choose(problem, seen, false);
    }
    if (!best) internal_error("oneDNN has only a reference implementation in blocks of {} for {}", storage.channel_block, what);
    choice = *best;
    weight = {geometry.y.extent(1), geometry.x.extent(1), geometry.kernel[0], geometry.kernel[1]};
  }

  StorageRule storage;
  bool bias;
  Geometry geometry;  // the call's
  Geometry seen;      // the same, or dilated
  std::string what;
  Choice choice;
  Dims weight;
};

// What the three kernels share: the chosen primitive, the passage of the x side through the workspace, the scratchpad.
class Convolution : public Kernel {
 public:
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }
  std::string name() const override { return convolution_.implementation() + std::string(name_of(passage_)); }

 protected:
  Convolution(const Setup& setup, std::span<const int> arguments)
      : storage_(setup.storage),
        steps_(setup.geometry.steps),
        passage_(setup.choice.passage),
        x_box_(setup.geometry.x),
        seen_box_(setup.choice.x),
        convolution_(setup.choice.description.get(), arguments, setup.what) {
    weights_ = workspace_.book(static_cast<std::int64_t>(setup.choice.weights.get_size()));
    if (passage_ == Passage::plain)
      passing_ = workspace_.book(seen_box_.elements() * size_of(DType::f32));
    else if (passage_ != Passage::direct)
      passing_ = workspace_.book(MapPiece(storage_, seen_box_).elements() * size_of(DType::f32));
  }

  // The x side as an input of the primitive.
  const float* pass_in(const KernelRun& run, const float* x) const {
    float* const passing = f32(run.workspace + passing_);
    switch (passage_) {
      case Passage::direct: return x;
      case Passage::window: embed_map(storage_, x, x_box_, passing, seen_box_); break;
      case Passage::thinned: thin_map(storage_, steps_, x, x_box_, passing, seen_box_); break;
      case Passage::plain: unblock_map(storage_, x, x_box_, passing, seen_box_); break;
    }
    return passing;
  }
  // Where the primitive writes the x side, and its way out.
  float* target(const KernelRun& run, float* x) const { return passage_ == Passage::direct ? x : f32(run.workspace + passing_); }
  void pass_out(const KernelRun& run, float* x) const {
    const float* const passing = f32(run.workspace + passing_);
    if (passage_ == Passage::window) embed_map(storage_, passing, seen_box_, x, x_box_);
    if (passage_ == Passage::thinned) spread_map(storage_, steps_, passing, seen_box_, x, x_box_);
  }

  StorageRule storage_;
  Steps steps_;
  Passage passage_;
  Box x_box_;
  Box seen_box_;
  DnnlCall convolution_;
  Workspace workspace_;
  std::int64_t weights_ = 0;
  std::int64_t passing_ = 0;
};

constexpr std::array kForward{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};
constexpr std::array kBackwardData{DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC};
constexpr std::array kBackwardWeights{DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS};

class Forward : public Convolution {
 public:
  explicit Forward(const Setup& setup)
      : Convolution(setup, std::span(kForward).first(setup.bias ? 4 : 3)),
        reorder_(make_reorder(plain_desc(setup.weight, memory::format_tag::oihw), unpadded(setup.choice.weights, setup.weight),
                              setup.what)),
        has_bias_(setup.bias),
        y_(setup.storage, setup.geometry.y) {
    if (has_bias_) bias_ = workspace_.book(y_.padded_channels() * size_of(DType::f32));
    scratchpad_ = workspace_.book(std::max(convolution_.scratchpad_bytes(), reorder_.scratchpad_bytes()));
  }

  void run(const KernelRun& run) const override {
    reorder_.bind(0, run.in[1]);
    reorder_.bind(1, run.workspace + weights_);
    reorder_.execute(run.workspace + scratchpad_);
    convolution_.bind(0, pass_in(run, f32(run.in[0])));
    convolution_.bind(1, run.workspace + weights_);
    convolution_.bind(2, run.out[0]);
    if (has_bias_) {
      float* const bias = f32(run.workspace + bias_);
      std::fill_n(std::copy_n(f32(run.in[2]), y_.channels, bias), y_.padded_channels() - y_.channels, 0.0f);
      convolution_.bind(3, bias);
    }
    convolution_.execute(run.workspace + scratchpad_);
  }

 private:
  DnnlCall reorder_;
  bool has_bias_;
  MapPiece y_;
  std::int64_t bias_ = 0;
  std::int64_t scratchpad_ = 0;
};

class BackwardData : public Convolution {
 public:
  explicit BackwardData(const Setup& setup)
      : Convolution(setup, kBackwardData),
        reorder_(make_reorder(plain_desc(setup.weight, memory::format_tag::oihw), unpadded(setup.choice.weights, setup.weight),
                              setup.what)),
        y_box_(setup.geometry.y),
        seen_y_box_(setup.seen.y) {
    if (y_box_ != seen_y_box_) dilated_ = workspace_.book(MapPiece(storage_, seen_y_box_).elements() * size_of(DType::f32));
    scratchpad_ = workspace_.book(std::max(convolution_.scratchpad_bytes(), reorder_.scratchpad_bytes()));
  }
  std::string name() const override { return Convolution::name() + (y_box_ == seen_y_box_ ? "" : "+dilated"); }

  void run(const KernelRun& run) const override {
    reorder_.bind(0, run.in[1]);
    reorder_.bind(1, run.workspace + weights_);
    reorder_.execute(run.workspace + scratchpad_);
    const float* dy = f32(run.in[0]);
    if (y_box_ != seen_y_box_) {
      spread_map(storage_, {steps_.stride, {0, 0}}, dy, y_box_, f32(run.workspace + dilated_), seen_y_box_);
      dy = f32(run.workspace + dilated_);
    }
    convolution_.bind(0, dy);
    convolution_.bind(1, run.workspace + weights_);
    convolution_.bind(2, target(run, f32(run.out[0])));
    convolution_.execute(run.workspace + scratchpad_);
    pass_out(run, f32(run.out[0]));
  }

 private:
  DnnlCall reorder_;
  Box y_box_;
  Box seen_y_box_;
  std::int64_t dilated_ = 0;
  std::int64_t scratchpad_ = 0;
};

// One block of weights, taps × inputs × outputs, to rows of an output each: inputs × taps.
template <int B>
OUTSIZE_INLINE void unblock_tile(const float* blocked, std::int64_t taps, std::int64_t outputs, std::int64_t inputs, float* rows,
                                 std::int64_t row) {
  for (std::int64_t k = 0; k < taps; ++k)
    for (std::int64_t o = 0; o < outputs; ++o) {
      const float* const from = blocked + k * B * B + o;
      float* const to = rows + o * row + k;
      if (inputs == B)
        for (int i = 0; i < B; ++i) to[i * taps] = from[i * B];
      else
        for (std::int64_t i = 0; i < inputs; ++i) to[i * taps] = from[i * B];
    }
}

// The weights of one block of outputs, in blocks of inputs before outputs, to the plain order. It is the layout of most weight
// gradients, for which the library's own reorder is up to eight times slower.
OUTSIZE_CLONES void unblock_weights(const float* blocked, const Dims& weight, std::int64_t block, std::int64_t output_block,
                                    float* plain) {
  const std::int64_t taps = weight[2] * weight[3];
  const std::int64_t row = weight[1] * taps;
  const std::int64_t outputs = std::min(block, weight[0] - output_block * block);
  const std::int64_t input_blocks = (weight[1] + block - 1) / block;
  for (std::int64_t b = 0; b < input_blocks; ++b) {
    const float* const from = blocked + (output_block * input_blocks + b) * taps * block * block;
    float* const to = plain + output_block * block * row + b * block * taps;
    const std::int64_t inputs = std::min(block, weight[1] - b * block);
    if (block == 16)
      unblock_tile<16>(from, taps, outputs, inputs, to, row);
    else
      unblock_tile<8>(from, taps, outputs, inputs, to, row);
  }
}

class BackwardWeights : public Convolution {
 public:
  explicit BackwardWeights(const Setup& setup)
      : Convolution(setup, std::span(kBackwardWeights).first(setup.bias ? 4 : 3)),
        weight_(setup.weight),
        has_bias_(setup.bias),
        y_(setup.storage, setup.geometry.y) {
    const memory::desc& blocked = setup.choice.weights;
    const auto tag = setup.storage.channel_block == 16 ? memory::format_tag::OIhw16i16o : memory::format_tag::OIhw8i8o;
    if (blocked != memory::desc(blocked.dims(), memory::data_type::f32, tag))
      reorder_ = make_reorder(unpadded(blocked, weight_), plain_desc(weight_, memory::format_tag::oihw), setup.what);
    if (has_bias_) bias_ = workspace_.book(y_.padded_channels() * size_of(DType::f32));
    scratchpad_ = workspace_.book(std::max(convolution_.scratchpad_bytes(), reorder_ ? reorder_->scratchpad_bytes() : 0));
  }

  void run(const KernelRun& run) const override {
    convolution_.bind(0, pass_in(run, f32(run.in[1])));
    convolution_.bind(1, run.in[0]);
    convolution_.bind(2, run.workspace + weights_);
    if (has_bias_) convolution_.bind(3, run.workspace + bias_);
    convolution_.execute(run.workspace + scratchpad_);
    if (reorder_) {
      reorder_->bind(0, run.workspace + weights_);
      reorder_->bind(1, run.out[0]);
      reorder_->execute(run.workspace + scratchpad_);
    } else {
      parallel_for(y_.blocks, weight_.product() * 8, [&](std::int64_t output_block) {
        unblock_weights(f32(run.workspace + weights_), weight_, y_.block, output_block, f32(run.out[0]));
      });
    }
    if (has_bias_) std::copy_n(f32(run.workspace + bias_), y_.channels, f32(run.out[1]));
  }

 private:
  Dims weight_;
  std::optional<DnnlCall> reorder_;  // none: unblock_weights
  bool has_bias_;
  MapPiece y_;
  std::int64_t bias_ = 0;
  std::int64_t scratchpad_ = 0;
};

std::unique_ptr<Kernel> make_forward(const Call& call, const StorageRule& storage) {
  require_f32(call);
  require_blocks(call, storage);
  const Geometry geometry(call.site, call.boxes.in[1].shape(), call.boxes.in[0], call.boxes.out[0]);
  const bool relu = call.site.word("activation") == "relu";
  return std::make_unique<Forward>(Setup(call, storage, Pass::forward, call.site.inputs() > 2, relu, geometry));
}

std::unique_ptr<Kernel> make_data(const Call& call, const StorageRule& storage) {
  require_f32(call);
  require_blocks(call, storage);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  const Geometry geometry(call.site, call.boxes.in[1].shape(), call.boxes.out[0], call.boxes.in[0]);
  if (intersect(geometry.x, geometry.window()).empty()) return make_zero_kernel(call, storage);
  return std::make_unique<BackwardData>(Setup(call, storage, Pass::data, false, false, geometry));
}

std::unique_ptr<Kernel> make_weights(const Call& call, const StorageRule& storage) {
  require_f32(call);
  require_blocks(call, storage);
  if (call.boxes.in[0].empty()) return make_zero_kernel(call, storage);
  const Geometry geometry(call.site, call.boxes.out[0].shape(), call.boxes.in[1], call.boxes.in[0]);
  return std::make_unique<BackwardWeights>(Setup(call, storage, Pass::weights, call.site.outputs() > 1, false, geometry));
}

}  // namespace

void cpu_conv2d(KernelTable& table) {
  table.add("conv2d", make_forward);
  table.add("conv2d_grad_data", make_data);
  table.add("conv2d_grad_weight", make_weights);
}

}  // namespace outsize
