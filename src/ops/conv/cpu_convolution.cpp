#include "ops/conv/cpu_convolution.h"

#include <cstring>
#include <numeric>

namespace outsize {

using dnnl::memory;

Box ConvGeometry::window() const {
  Box covered = x;
  for (int i = 0; i < rank(); ++i) {
    const WindowAxis& axis = windows[i];
    covered.set(2 + i, {axis.position(y.lo[2 + i], 0), axis.position(y.hi[2 + i] - 1, 0) + axis.reach()});
  }
  return covered;
}

ConvGeometry ConvGeometry::thinned() const {
  ConvGeometry even = *this;
  for (int i = 0; i < rank(); ++i) {
    even.windows[i] = WindowAxis{};
    even.x.set(2 + i, y[2 + i]);
  }
  return even;
}

WeightOrder::WeightOrder(const Channels& channels, const Box& weight, Interval x)
    : channels_(channels), weight_(weight), x_(x), outputs_(weight.extent(0)), inputs_(x.size()) {
  for (int i = 2; i < weight.rank(); ++i) taps_ *= weight.extent(i);
  picks_.resize(static_cast<std::size_t>(taps_));
  std::iota(picks_.begin(), picks_.end(), 0);
  settle();
}

WeightOrder WeightOrder::swapped() const {
  WeightOrder other = *this;
  other.swapped_ = !swapped_;
  std::swap(other.outputs_, other.inputs_);
  other.settle();
  return other;
}

WeightOrder WeightOrder::picked(std::vector<std::int64_t> taps) const {
  WeightOrder other = *this;
  other.picks_ = std::move(taps);
  other.settle();
  return other;
}

WeightOrder WeightOrder::grouped(std::int64_t groups) const {
  WeightOrder other = *this;
  other.groups_ = groups;
  other.settle();
  return other;
}

void WeightOrder::settle() {
  // Rows of more than one group lie in their place only if the primitive has the same groups.
  const bool one = weight_.empty() || weight_.lo[0] / channels_.outputs == (weight_.hi[0] - 1) / channels_.outputs;
  same_ = !swapped_ && weight_.extent(1) == inputs() && static_cast<std::int64_t>(picks_.size()) == taps_ &&
          (groups_ > 1 || (one && channels_.input(weight_.lo[0], weight_.lo[1]) == x_.lo));
}

// body(offset in the op's weights, offset in the staged ones) for every row and column; columns outside x have no place.
template <class Body>
void WeightOrder::for_each(const Body& body) const {
  const std::int64_t columns = weight_.extent(1);
  const std::int64_t staged_taps = static_cast<std::int64_t>(picks_.size());
  parallel_for(weight_.extent(0), elements() * 8, [&](std::int64_t row) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t channel = channels_.input(weight_.lo[0] + row, weight_.lo[1] + c) - x_.lo;
      if (channel < 0 || channel >= x_.size()) continue;
      const std::int64_t output = swapped_ ? channel : row;
      const std::int64_t input = (swapped_ ? row : channel) - output / outputs() * inputs();
      body((row * columns + c) * taps_, (output * inputs() + input) * staged_taps);
    }
  });
}

void WeightOrder::stage(const float* weight, float* staged) const {
  if (channels_.groups > 1) fill_zero(staged, elements() * size_of(DType::f32));
  for_each([&](std::int64_t from, std::int64_t to) {
    for (std::size_t t = 0; t < picks_.size(); ++t) staged[to + static_cast<std::int64_t>(t)] = weight[from + picks_[t]];
  });
}

void WeightOrder::unstage(const float* staged, float* weight) const {
  for_each([&](std::int64_t to, std::int64_t from) {
    for (std::size_t t = 0; t < picks_.size(); ++t) weight[to + picks_[t]] = staged[from + static_cast<std::int64_t>(t)];
  });
}

void WeightOrder::unstage_tap(const float* staged, std::int64_t tap, float* weight) const {
  for_each([&](std::int64_t to, std::int64_t from) { weight[to + tap] = staged[from]; });
}

// A convolution as the primitive sees it; `x` is the box of the x side after its passage.
struct Convolution::Choice {
  Passage passage;
  Box x;
  WeightOrder order;
  dnnl::primitive_desc_base description;
  memory::desc weights;

  bool is(std::string_view implementation) const {
    return std::string_view(description.impl_info_str()).find(implementation) != std::string_view::npos;
  }
};

namespace {

memory::desc blocked_desc(const StorageRule& storage, const Box& box) {
  const MapPiece piece(storage, box);
  memory::dims dims{piece.samples, piece.padded_channels()};
  for (int i = 2; i < box.rank(); ++i) dims.push_back(box.extent(i));
  const bool wide = storage.channel_block == 16;
  const auto flat = wide ? memory::format_tag::nChw16c : memory::format_tag::nChw8c;
  const auto deep = wide ? memory::format_tag::nCdhw16c : memory::format_tag::nCdhw8c;
  return {dims, memory::data_type::f32, box.rank() > 4 ? deep : flat};
}

// Row-major.
memory::desc plain_desc(const memory::dims& dims) {
  constexpr std::array kTags{memory::format_tag::abcd, memory::format_tag::abcde, memory::format_tag::abcdef};
  return {dims, memory::data_type::f32, kTags[dims.size() - 4]};
}

memory::dims plain_map_dims(const Box& box) {
  const Dims shape = box.shape();
  return {shape.begin(), shape.end()};
}

// Each channel by itself: the library pads their number to the block as it does for maps.
bool depthwise(const WeightOrder& order) { return order.groups() > 1 && order.outputs() == 1 && order.inputs() == 1; }

// The dimensions of a primitive's weights: [groups], outputs, inputs, kernel.
memory::dims weight_dims(const ConvGeometry& geometry, const WeightOrder& order, std::int64_t outputs, std::int64_t inputs) {
  memory::dims dims;
  if (order.groups() > 1) dims.push_back(depthwise(order) ? outputs : order.groups());
  dims.push_back(order.groups() > 1 ? order.outputs() : outputs);
  dims.push_back(order.groups() > 1 ? order.inputs() : inputs);
  for (int i = 0; i < geometry.rank(); ++i) dims.push_back(geometry.windows[i].kernel);
  return dims;
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
    // Of NaN the library's relu, max(x, 0), makes 0. Its elu keeps NaN; with alpha 0 it is relu too: x > 0 ? x : 0 · (e^x − 1).
    dnnl::post_ops after;
    after.append_eltwise(1.0f, dnnl::algorithm::eltwise_elu, 0.0f, 0.0f);
    attr.set_post_ops(after);
  }
  return attr;
}

// Whether the primitive can be asked for this box: padding below the kernel's reach on every side, and at its end no more
// positions that no window reaches than a stride leaves.
bool askable(const ConvGeometry& geometry, const Box& x) {
  const Box window = geometry.window();
  for (int i = 0; i < geometry.rank(); ++i) {
    const WindowAxis& axis = geometry.windows[i];
    const std::int64_t before = x.lo[2 + i] - window.lo[2 + i];
    const std::int64_t after = window.hi[2 + i] - x.hi[2 + i];
    if (before < 0 || before >= axis.reach() || after >= axis.reach() || after <= -axis.stride) return false;
  }
  return !x.empty();
}

// The ways to see the groups, the best first: each channel by itself (and no other way), few groups put together so that they fill
// blocks, all as one.
std::vector<WeightOrder> groupings(const StorageRule& storage, const ConvGeometry& geometry, const WeightOrder& order) {
  std::vector<WeightOrder> ways;
  const Channels& channels = geometry.channels;
  const Interval x = geometry.x[1];
  const Interval y = geometry.y[1];
  const bool whole = y.lo % channels.outputs == 0 && y.hi % channels.outputs == 0 && x == channels.inputs_of(y);
  const std::int64_t groups = whole ? y.size() / channels.outputs : 1;
  if (groups > 1 && channels.inputs == 1 && channels.outputs == 1) return {order.grouped(groups)};
  for (std::int64_t together = 1; together < groups; ++together) {
    const bool fills =
        together * channels.inputs % storage.channel_block == 0 && together * channels.outputs % storage.channel_block == 0;
    if (groups % together != 0 || !fills) continue;
    ways.push_back(order.grouped(groups / together));
    break;
  }
  ways.push_back(order.grouped(1));
  return ways;
}

// The blocked weights of a primitive, of which only those of `order` are real: the rest is zero padding that a reorder writes or
// leaves out.
memory::desc unpadded(const memory::desc& blocked, const WeightOrder& order) {
  memory::desc view = blocked;
  if (depthwise(order)) {
    view.data.dims[0] = order.groups();
  } else if (order.groups() == 1) {
    view.data.dims[0] = order.outputs();
    view.data.dims[1] = order.inputs();
  }
  return view;
}

DnnlCall make_reorder(const memory::desc& from, const memory::desc& to, const std::string& what) {
  const dnnl::engine engine = weak_engine();
  const dnnl::reorder::primitive_desc description(engine, from, engine, to, attributes(false));
  return {description.get(), std::array{DNNL_ARG_FROM, DNNL_ARG_TO}, what + ", weights"};
}

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

// As unblock_weights, of one block of outputs.
OUTSIZE_CLONES void unblock_rows(const float* blocked, const Dims& weight, std::int64_t block, std::int64_t output_block,
                                 float* plain) {
  const std::int64_t taps = weight[2];
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

// The layout that unblock_weights reads.
bool unblockable(const StorageRule& storage, const memory::desc& weights, const ConvGeometry& geometry, const WeightOrder& order) {
  if (order.groups() > 1) return false;
  const bool wide = storage.channel_block == 16;
  const auto flat = wide ? memory::format_tag::OIhw16i16o : memory::format_tag::OIhw8i8o;
  const auto deep = wide ? memory::format_tag::OIdhw16i16o : memory::format_tag::OIdhw8i8o;
  return weights == memory::desc(weights.dims(), memory::data_type::f32, geometry.rank() == 3 ? deep : flat);
}

std::span<const int> arguments(ConvPass pass, bool bias) {
  static constexpr std::array kForward{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};
  static constexpr std::array kData{DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC};
  static constexpr std::array kWeights{DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS};
  if (pass == ConvPass::data) return kData;
  return std::span<const int>(pass == ConvPass::forward ? kForward : kWeights).first(bias ? 4 : 3);
}

Steps steps_of(const ConvGeometry& geometry) {
  Steps steps;
  for (std::size_t i = 0; i < static_cast<std::size_t>(geometry.rank()); ++i) {
    steps.stride[i] = geometry.windows.axes[i].stride;
    steps.padding[i] = geometry.windows.axes[i].before;
  }
  return steps;
}

}  // namespace

// The primitive for this box of the x side; none where the library has none or only its reference.
std::optional<Convolution::Choice> Convolution::describe(const ConvProblem& problem, const ConvGeometry& geometry,
                                                         const WeightOrder& order, Passage passage, const Box& x) {
  const Box window = geometry.window();
  memory::dims strides, dilates, before, after;
  for (int i = 0; i < geometry.rank(); ++i) {
    strides.push_back(geometry.windows[i].stride);
    dilates.push_back(geometry.windows[i].dilation - 1);
    before.push_back(x.lo[2 + i] - window.lo[2 + i]);
    after.push_back(std::max<std::int64_t>(0, window.hi[2 + i] - x.hi[2 + i]));
  }
  const memory::desc source = passage == Passage::plain ? plain_desc(plain_map_dims(x)) : blocked_desc(problem.storage, x);
  const memory::desc target = blocked_desc(problem.storage, geometry.y);
  const memory::desc weights(weight_dims(geometry, order, target.dims()[1], source.dims()[1]), memory::data_type::f32,
                             memory::format_tag::any);
  const memory::desc bias =
      problem.bias ? memory::desc({target.dims()[1]}, memory::data_type::f32, memory::format_tag::a) : memory::desc();
  const dnnl::algorithm direct = dnnl::algorithm::convolution_direct;
  const dnnl::engine engine = weak_engine();
  const bool forward = problem.pass == ConvPass::forward;
  const dnnl::convolution_forward::primitive_desc hint(
      {dnnl::prop_kind::forward_training, direct, source, weights, bias, target, strides, dilates, before, after},
      attributes(forward && problem.relu), engine, true);
  if (hint.get(true) == nullptr) return std::nullopt;
  Choice choice{passage, x, order, {}, {}};
  if (forward) {
    choice.description = hint;
    choice.weights = hint.weights_desc();
  } else if (problem.pass == ConvPass::data) {
    const dnnl::convolution_backward_data::primitive_desc found({direct, source, weights, target, strides, dilates, before, after},
                                                                attributes(false), engine, hint, true);
    if (found.get(true) == nullptr) return std::nullopt;
    choice.description = found;
    choice.weights = found.weights_desc();
  } else {
    const dnnl::convolution_backward_weights::primitive_desc found(
        {direct, source, weights, bias, target, strides, dilates, before, after}, attributes(false), engine, hint, true);
    if (found.get(true) == nullptr) return std::nullopt;
    choice.description = found;
    choice.weights = found.diff_weights_desc();
  }
  if (choice.is("ref")) return std::nullopt;
  return choice;
}

// The first way with a fast implementation, else one by matrix products.
std::optional<Convolution::Choice> Convolution::choose(const ConvProblem& problem, const ConvGeometry& geometry,
                                                       const WeightOrder& order, bool may_be_plain) {
  const Box window = geometry.window();
  const Box touched = intersect(geometry.x, window);
  if (may_be_plain && problem.pass != ConvPass::data && geometry.x.extent(1) <= kStemChannels)
    for (const Box& x : {touched, window})
      if (askable(geometry, x) && (x == window || !problem.slips))
        if (std::optional<Choice> choice = describe(problem, geometry, order, Passage::plain, x); choice && choice->is("jit:"))
          return choice;
  std::optional<Choice> slow;
  for (const WeightOrder& way : groupings(problem.storage, geometry, order))
    for (const Box& x : {geometry.x, touched, window}) {
      if (!askable(geometry, x) || (x != window && problem.slips)) continue;
      std::optional<Choice> choice =
          describe(problem, geometry, way, x == geometry.x && !problem.slips ? Passage::direct : Passage::window, x);
      if (!choice) continue;
      if (!choice->is("gemm:")) return choice;
      if (!slow) slow = choice;
    }
  return slow;
}

// As above, but a kernel that skips positions may see those it meets only: for some boxes there is no other fast way, and in AVX2
// the direct ways take up to twice the time.
std::optional<Convolution::Choice> Convolution::choose_strided(const ConvProblem& problem, const ConvGeometry& geometry,
                                                               const WeightOrder& order) {
  bool strided = false;
  for (int i = 0; i < geometry.rank(); ++i) strided = strided || geometry.windows[i].stride > 1;
  if (geometry.taps() > 1 || !strided) return choose(problem, geometry, order, true);
  const bool data = problem.pass == ConvPass::data;
  if (problem.storage.channel_block == 16 || data) {
    const std::optional<Choice> choice = choose(problem, geometry, order, false);
    if (data || (choice && !choice->is("gemm:"))) return choice;
  }
  std::optional<Choice> choice = choose(problem, geometry.thinned(), order, false);
  if (choice) choice->passage = Passage::thinned;
  return choice;
}

std::optional<Convolution> Convolution::find(const ConvProblem& problem, const ConvGeometry& geometry, const WeightOrder& order,
                                             const std::string& what, bool slow) {
  const std::optional<Choice> choice = choose_strided(problem, geometry, order);
  if (!choice || (!slow && choice->is("gemm:"))) return std::nullopt;
  return Convolution(problem, geometry, *choice, what);
}

Convolution::Convolution(const ConvProblem& problem, const ConvGeometry& geometry, const Choice& choice, const std::string& what)
    : storage_(problem.storage),
      steps_(steps_of(geometry)),
      passage_(choice.passage),
      planar_(problem.planar),
      y_box_(geometry.y),
      seen_box_(choice.x),
      order_(choice.order),
      convolution_(choice.description.get(), arguments(problem.pass, problem.bias), what) {
  const memory::desc real = unpadded(choice.weights, order_);
  const memory::desc plain = plain_desc(real.dims());
  if (problem.pass != ConvPass::weights)
    reorder_ = make_reorder(plain, real, what);
  else if (unblockable(storage_, choice.weights, geometry, order_))
    plain_ = {order_.outputs(), order_.inputs(), geometry.taps()};
  else
    reorder_ = make_reorder(real, plain, what);
  // The library need not touch all of its scratchpad, so it does not lie last: there the measured peak would fall short of the
  // booked.
  scratchpad_ = workspace_.book(std::max(convolution_.scratchpad_bytes(), reorder_ ? reorder_->scratchpad_bytes() : 0));
  weights_ = workspace_.book(static_cast<std::int64_t>(choice.weights.get_size()));
  if (!order_.same()) staged_ = workspace_.book(order_.elements() * size_of(DType::f32));
  const bool unblocked = passage_ == Passage::plain;
  if (passage_ == Passage::direct || (unblocked && planar_ && seen_box_ == geometry.x)) return;
  passing_ = workspace_.book(MapPiece(unblocked ? StorageRule{} : storage_, seen_box_).elements() * size_of(DType::f32));
}

std::string Convolution::name() const {
  std::string name = convolution_.implementation();
  if (passage_ == Passage::window) name += "+window";
  if (passage_ == Passage::thinned) name += "+thinned";
  if (passage_ == Passage::plain) name += "+plain";
  if (order_.groups() > 1) name += fmt::format("+groups:{}", order_.groups());
  return name;
}

// The box of what the primitive sees, which moves with y.
Box Convolution::seen(const ConvPlace& place) const {
  Dims moved = Dims::filled(y_box_.rank(), 0);
  for (int i = 0; i < y_box_.rank(); ++i) {
    const bool steps = i >= 2 && passage_ != Passage::thinned;
    moved[i] = (place.y.lo[i] - y_box_.lo[i]) * (steps ? steps_.stride[static_cast<std::size_t>(i - 2)] : 1);
  }
  moved[1] = 0;
  Box box = seen_box_.shifted(moved);
  box.set(1, place.x[1]);
  return box;
}

// The x side as an input of the primitive.
const float* Convolution::pass_in(std::byte* workspace, const ConvPlace& place, const float* x) const {
  float* const passing = f32(workspace + passing_);
  switch (passage_) {
    case Passage::direct: return x;
    case Passage::window: embed_map(storage_, x, place.x, passing, seen(place)); break;
    case Passage::thinned: thin_map(storage_, steps_, x, place.x, passing, seen(place)); break;
    case Passage::plain:
      if (planar_ && seen(place) == place.x) return x;
      if (planar_)
        embed_map({1}, x, place.x, passing, seen(place));
      else
        unblock_map(storage_, x, place.x, passing, seen(place));
      break;
  }
  return passing;
}

void Convolution::load_weights(std::byte* workspace, const float* weight) const {
  if (!order_.same()) {
    order_.stage(weight, f32(workspace + staged_));
    weight = f32(workspace + staged_);
  }
  reorder_->bind(0, weight);
  reorder_->bind(1, workspace + weights_);
  reorder_->execute(workspace + scratchpad_);
}

void Convolution::forward(std::byte* workspace, const ConvPlace& place, const float* x, const float* weight, const float* bias,
                          float* y) const {
  load_weights(workspace, weight);
  convolution_.bind(0, pass_in(workspace, place, x));
  convolution_.bind(1, workspace + weights_);
  convolution_.bind(2, y);
  if (bias != nullptr) convolution_.bind(3, bias);
  convolution_.execute(workspace + scratchpad_);
}

void Convolution::data(std::byte* workspace, const ConvPlace& place, const float* y, const float* weight, float* x) const {
  load_weights(workspace, weight);
  float* const passing = f32(workspace + passing_);
  convolution_.bind(0, y);
  convolution_.bind(1, workspace + weights_);
  convolution_.bind(2, passage_ == Passage::direct ? x : passing);
  convolution_.execute(workspace + scratchpad_);
  if (passage_ == Passage::window) embed_map(storage_, passing, seen(place), x, place.x);
}

void Convolution::weights(std::byte* workspace, const ConvPlace& place, const float* x, const float* y, float* weight, float* bias,
                          std::optional<std::int64_t> tap) const {
  const float* const blocked = f32(workspace + weights_);
  convolution_.bind(0, pass_in(workspace, place, x));
  convolution_.bind(1, y);
  convolution_.bind(2, blocked);
  if (bias != nullptr) convolution_.bind(3, bias);
  convolution_.execute(workspace + scratchpad_);
  float* const plain = order_.same() ? weight : f32(workspace + staged_);
  if (reorder_) {
    reorder_->bind(0, blocked);
    reorder_->bind(1, plain);
    reorder_->execute(workspace + scratchpad_);
  } else {
    unblock_weights(storage_, blocked, plain_, plain);
  }
  if (tap)
    order_.unstage_tap(plain, *tap, weight);
  else if (!order_.same())
    order_.unstage(plain, weight);
}

void unblock_weights(const StorageRule& storage, const float* blocked, const Dims& weight, float* plain) {
  parallel_for(ceil_div(weight[0], storage.channel_block), weight.product() * 8,
               [&](std::int64_t output_block) { unblock_rows(blocked, weight, storage.channel_block, output_block, plain); });
}

bool x_stands_still(const ConvGeometry& geometry) {
  for (int i = 0; i < geometry.rank(); ++i) {
    const WindowAxis& axis = geometry.windows[i];
    if (geometry.x[2 + i] == Interval{0, axis.input} && geometry.y[2 + i] != Interval{0, axis.output()}) return true;
  }
  return false;
}

ConvGeometry conv_geometry(const OpSite& site, const Dims& weight, const Dims& x, const Box& x_box, const Box& y_box) {
  return {sliding_windows(site, spatial(weight), spatial(x), true), channels_of(site, weight), x_box, y_box};
}

std::string describe_conv(const Call& call, const ConvGeometry& geometry) {
  const auto list = [&](std::int64_t WindowAxis::*member) {
    std::string text;
    for (int i = 0; i < geometry.rank(); ++i) text += fmt::format("{}{}", i == 0 ? "" : "x", geometry.windows[i].*member);
    return text;
  };
  return fmt::format("{} {} (x {}, y {}, kernel {}, stride {}, dilation {}, groups {})", call.site.op.def->kind(),
                     call.site.op.name, to_string(geometry.x.shape()), to_string(geometry.y.shape()), list(&WindowAxis::kernel),
                     list(&WindowAxis::stride), list(&WindowAxis::dilation), geometry.channels.groups);
}

}  // namespace outsize
