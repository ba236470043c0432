#include <map>
#include <optional>

#include "ops/conv/cuda_convolution.h"
#include "ops/conv/cuda_depthwise.h"
#include "ops/conv/cuda_stem.h"
#include "ops/conv/shape.h"
#include "ops/cuda/each.h"
#include "ops/cuda/host_convolution.h"
#include "ops/cuda/library/convolution.h"
#include "ops/cuda/library/trial.h"
#include "ops/cuda/library/tuned.h"
#include "ops/cuda/reduce.h"
#if defined(__CUDACC__)
#include "ops/cuda/library/cudnn.h"
#endif

// What a call is for the library: packed operands whose extents fit each other, whole groups of channels, paddings that are not
// negative, below 2^31 elements each. Where a call is not so, an operand goes through the workspace, or the call is done in parts.
namespace outsize::OUTSIZE_PLACE {
namespace {

// A dense piece of up to five axes from another, both seen as boxes of the same coordinates: what the other has not is zero.
struct Embed {
  static constexpr int kAxes = 5;
  const float* from;
  float* to;
  std::int64_t extent[kAxes];       // of `to`
  std::int64_t from_extent[kAxes];  // of `from`
  std::int64_t shift[kAxes];        // from a position in `to` to that in `from`

  OUTSIZE_BOTH void operator()(std::int64_t i) const {
    std::int64_t rest = i, at = 0, step = 1;
    bool inside = true;
    OUTSIZE_UNROLL
    for (int axis = kAxes - 1; axis >= 0; --axis) {
      const std::int64_t position = rest % extent[axis] + shift[axis];
      rest /= extent[axis];
      inside = inside && position >= 0 && position < from_extent[axis];
      at += position * step;
      step *= from_extent[axis];
    }
    to[i] = inside ? from[at] : 0.0f;
  }
};

// Maps with their channels last.
void embed_map(const float* from, const Box& from_box, float* to, const Box& to_box, void* queue) {
  const int rank = to_box.rank();
  Embed embed{from, to, {}, {}, {}};
  for (int axis = 0; axis < Embed::kAxes; ++axis) {
    // N D? H W C
    const int dim = axis == 0 ? 0 : axis == Embed::kAxes - 1 ? 1 : rank - Embed::kAxes + axis + 1;
    const bool none = axis > 0 && dim < 2 && axis < Embed::kAxes - 1;
    embed.extent[axis] = none ? 1 : to_box.extent(dim);
    embed.from_extent[axis] = none ? 1 : from_box.extent(dim);
    embed.shift[axis] = none ? 0 : to_box.lo[dim] - from_box.lo[dim];
  }
  run_each(embed, to_box.elements(), queue);
}

// Weights, of which the boxes differ by their rows.
void embed_rows(const float* from, const Box& from_box, float* to, const Box& to_box, void* queue) {
  const std::int64_t row = to_box.elements() / to_box.extent(0);
  run_each(Embed{from,
                 to,
                 {1, 1, 1, to_box.extent(0), row},
                 {1, 1, 1, from_box.extent(0), row},
                 {0, 0, 0, to_box.lo[0] - from_box.lo[0], 0}},
           to_box.elements(), queue);
}

// What is done to a result that the library has left: a number a channel is added, and what is below zero becomes zero. A NaN
// stays.
template <bool kRelu>
struct Finish {
  static constexpr int kInputs = 1;
  struct Factors {
    float bias;
  };
  const float* bias;  // null: none
  OUTSIZE_BOTH Factors factors(int channel) const { return {bias ? bias[channel] : 0.0f}; }
  OUTSIZE_BOTH float operator()(const float* x, const Factors& factors) const {
    const float y = x[0] + factors.bias;
    return kRelu && y < 0 ? 0.0f : y;
  }
};

void finish(float* map, const Box& box, const float* bias, bool relu, void* queue) {
  const Sheet sheet{box.elements() / box.extent(1), box.extent(1)};
  if (relu)
    run_map(Finish<true>{bias}, {map}, map, sheet, queue);
  else if (bias)
    run_map(Finish<false>{bias}, {map}, map, sheet, queue);
}

// The sum of each channel.
struct Sum {
  static constexpr int kInputs = 1;
  using Factors = NoFactors;
  struct Partial {
    double total = 0;
    OUTSIZE_BOTH void merge(const Partial& other) { total += other.total; }
  };
  struct Run {
    float total;
    OUTSIZE_BOTH void start(float) { total = 0; }
    OUTSIZE_BOTH void add(const float* x, NoFactors) { total += x[0]; }
    OUTSIZE_BOTH void into(Partial& partial, int) const { partial.total += total; }
  };
  OUTSIZE_BOTH NoFactors factors(int) const { return {}; }
};

struct SumEnd {
  float* sums;
  OUTSIZE_BOTH void finish(int channel, const Sum::Partial& partial) const { sums[channel] = static_cast<float>(partial.total); }
};

ReduceShape sum_shape(const Box& map) { return {1, {map.elements() / map.extent(1), map.extent(1)}, 1}; }

// What the library computes for a signature.
#if defined(__CUDACC__)
struct Planned {
  std::shared_ptr<const ConvolutionPlan> plan;
  std::shared_ptr<const ConvolutionPlan> fastest;

  std::string name() const { return plan->name(); }
  std::int64_t workspace_bytes() const { return plan->workspace_bytes(); }
  double seconds() const { return plan->seconds(); }
  // In how many parts the fastest plan would keep the limit of workspace; 1 where it does, the chosen one is nearly as fast, or the
  // times are not known.
  std::int64_t parts_worth_trying() const {
    return fastest->seconds() > 0 && plan->seconds() > 1.1 * fastest->seconds()
               ? ceil_divide(fastest->workspace_bytes(), kMostWorkspace)
               : 1;
  }
  void run(const ConvolutionOperands& operands, std::byte* workspace, void* queue) const { plan->run(operands, workspace, queue); }
};

std::optional<Planned> plan_of(const ConvolutionSignature& signature, std::string& why) {
  const ConvolutionPlans& plans = convolution_plans(signature, &why);
  if (plans.empty()) return std::nullopt;
  return Planned{choose(plans, signature), plans.front()};
}

std::vector<Planned> every_plan_of(const ConvolutionSignature& signature) {
  std::vector<Planned> every;
  for (const auto& plan : all_convolution_plans(signature)) every.push_back({plan, plan});
  return every;
}
#else
struct Planned {
  HostConvolution convolution;

  std::string name() const { return "loops"; }
  std::int64_t workspace_bytes() const { return 0; }
  double seconds() const { return -1; }
  std::int64_t parts_worth_trying() const { return 1; }
  void run(const ConvolutionOperands& operands, std::byte*, void*) const { convolution.run(operands); }
};

std::optional<Planned> plan_of(const ConvolutionSignature& signature, std::string& why) {
  why = "nothing is fused";
  if (signature.bias) return std::nullopt;
  return Planned{HostConvolution(signature)};
}

std::vector<Planned> every_plan_of(const ConvolutionSignature& signature) {
  if (signature.bias) return {};
  return {Planned{HostConvolution(signature)}};
}
#endif

// Boxes of the x side and the y side that meet each other.
struct Meeting {
  Box x;
  Box y;
};

// y[o] meets x[o · stride − before + t · dilation] in every spatial dimension.
struct Geometry {
  ConvolutionPass pass;
  SlidingWindows windows;
  Channels channels;

  // All that the windows of y cover, padding included.
  Interval window(int i, Interval y) const {
    return {windows[i].position(y.lo, 0), windows[i].position(y.hi - 1, 0) + windows[i].reach()};
  }
  // Whether the windows begin no later than x, and leave less than a stride of it.
  bool covers(const Meeting& at) const {
    for (int i = 0; i < windows.rank; ++i) {
      const Interval covered = window(i, at.y[2 + i]), x = at.x[2 + i];
      if (covered.lo > x.lo || x.hi - covered.hi >= windows[i].stride) return false;
    }
    return true;
  }
  // Whether a loop may leave what is read where it is, all of it, while the result moves.
  bool stands_still(const Meeting& at) const {
    for (int i = 0; i < windows.rank; ++i) {
      const bool all_x = at.x[2 + i] == Interval{0, windows[i].input};
      const bool all_y = at.y[2 + i] == Interval{0, windows[i].output()};
      if (pass == ConvolutionPass::data ? all_y && !all_x : all_x && !all_y) return true;
    }
    return false;
  }

  ConvolutionSignature signature(const Meeting& at, const Dims& weight) const {
    ConvolutionSignature s{pass, at.x.shape(), weight, at.y.shape(), {}, {}, {}, {}};
    for (int i = 0; i < windows.rank; ++i) {
      const Interval covered = window(i, at.y[2 + i]), x = at.x[2 + i];
      s.before.push_back(x.lo - covered.lo);
      s.after.push_back(std::max<std::int64_t>(0, covered.hi - x.hi));
      s.stride.push_back(windows[i].stride);
      s.dilation.push_back(windows[i].dilation);
    }
    return s;
  }
};

// A meeting in parts whose operands have at most so many elements: samples, then bands of rows of one sample. All are one range of
// the operand's memory. Where a part has no y, x gets nothing.
class Parts {
 public:
  Parts(const Geometry& geometry, const Meeting& all, std::int64_t most) : geometry_(geometry), most_(most) { add(all); }
  const std::vector<Meeting>& all() const { return parts_; }

 private:
  void add(const Meeting& at) {
    const std::int64_t x = at.x.elements(), y = at.y.elements(), samples = at.y.extent(0);
    if (std::max(x, y) <= most_) return parts_.push_back(at);
    if (samples == 1) return geometry_.pass == ConvolutionPass::data ? add_bands_of_x(at) : add_bands_of_y(at);
    const std::int64_t each = even(std::max<std::int64_t>(1, most_ / (std::max(x, y) / samples)));
    for (std::int64_t n = 0; n < samples; n += each) {
      Meeting part = at;
      for (Box* box : {&part.x, &part.y}) box->set(0, {box->lo[0] + n, std::min(box->lo[0] + n + each, box->hi[0])});
      add(part);
    }
  }
  // Bands of y with the rows of x that they meet.
  void add_bands_of_y(const Meeting& at) {
    const WindowAxis& axis = geometry_.windows[0];
    const std::int64_t rows =
        even(checked(std::min(most_ / row(at.y), floor_div(most_ / row(at.x) - axis.reach(), axis.stride) + 1)));
    for (std::int64_t lo = at.y.lo[2]; lo < at.y.hi[2]; lo += rows) {
      Meeting part = at;
      part.y.set(2, {lo, std::min(lo + rows, at.y.hi[2])});
      part.x.set(2, intersect(at.x[2], geometry_.window(0, part.y[2])));
      parts_.push_back(part);
    }
  }
  // Bands of x, which begin where a window does, with the rows of y that meet them.
  void add_bands_of_x(const Meeting& at) {
    const WindowAxis& axis = geometry_.windows[0];
    const std::int64_t windows =
        even(checked(std::min(most_ / row(at.x) / axis.stride, most_ / row(at.y) - 1 - ceil_div(axis.reach(), axis.stride))));
    for (std::int64_t first = floor_div(at.x.lo[2] + axis.before, axis.stride);; first += windows) {
      const Interval band = intersect(at.x[2], {axis.position(first, 0), axis.position(first + windows, 0)});
      if (band.empty()) break;
      const std::int64_t reaching = floor_div(band.lo + axis.before - axis.reach(), axis.stride) + 1;
      Meeting part = at;
      part.x.set(2, band);
      part.y.set(2, intersect(at.y[2], {std::min(reaching, first), ceil_div(band.hi + axis.before, axis.stride)}));
      parts_.push_back(part);
    }
  }
  static std::int64_t row(const Box& map) { return map.elements() / map.extent(2); }
  // A multiple of 4, so that what comes before a part keeps its alignment.
  static std::int64_t even(std::int64_t n) { return n > 4 ? n / 4 * 4 : n; }
  std::int64_t checked(std::int64_t rows) const {
    if (rows < 1)
      user_error(
          "a convolution on the card takes maps of {} elements, but here a few rows of one sample have more: cut the map along "
          "its other dimensions",
          most_);
    return rows;
  }

  const Geometry& geometry_;
  std::int64_t most_;
  std::vector<Meeting> parts_;
};

// A call of a convolution in one of its passes, of non-empty boxes.
class LibraryConvolution {
 public:
  // What a call has, in its own boxes.
  struct Boxes {
    Box x, y, weight;
  };

  LibraryConvolution(const Geometry& geometry, const Boxes& given) : geometry_(geometry), given_(given), seen_(given) {
    const Channels& channels = geometry_.channels;
    if (channels.groups > 1) {
      // All of the groups that any channel is in.
      const Interval y = hull(channels.outputs_of(given.x[1]), channels.outputs_of(channels.inputs_of(given.y[1])));
      seen_.y.set(1, y);
      seen_.x.set(1, channels.inputs_of(y));
      seen_.weight.set(0, y);
    }
    OUTSIZE_CHECK(seen_.weight.extent(0) == seen_.y.extent(1) &&
                  seen_.weight.extent(1) * (seen_.y.extent(1) / group_outputs()) == seen_.x.extent(1));
    const Meeting given_meeting{seen_.x, seen_.y};
    window_ = geometry_.stands_still(given_meeting) || !geometry_.covers(given_meeting);
    if (window_) seen_.x = seen_x(seen_.x, seen_.y);
    const auto book = [&](const Box& box, bool needed) {
      const std::int64_t at = shared_at_;
      if (needed) shared_at_ += part_bytes(box.elements() * 4);
      return at;
    };
    x_at_ = book(seen_.x, stages_x());
    y_at_ = book(seen_.y, stages_y());
    w_at_ = book(seen_.weight, stages_weight());
    split(most_elements());
  }

  // What the library is asked for, part by part.
  std::vector<ConvolutionSignature> signatures(bool bias, bool relu, bool tf32) const {
    std::vector<ConvolutionSignature> signatures;
    for (const Part& part : parts_) {
      if (part.boxes.y.empty()) continue;
      ConvolutionSignature& signature = signatures.emplace_back(geometry_.signature(part.boxes, seen_.weight.shape()));
      signature.bias = bias;
      signature.relu = relu;
      signature.tf32 = tf32;
      signature.accumulate = geometry_.pass == ConvolutionPass::weights && signatures.size() > 1;
      if (part.x % 4 != 0 || part.y % 4 != 0) signature.alignment = 4;
    }
    return signatures;
  }

  // Finds the library's plans, of which as much is fused as it has; the rest is the caller's. Throws UserError naming the op where
  // it has none.
  void plan(const OpSite& site, bool bias, bool relu, bool tf32) {
    std::string why;
    const auto found = [&](bool fused_bias, bool fused_relu) {
      bias_ = fused_bias;
      relu_ = fused_relu;
      return find_plans(signatures(bias_, relu_, tf32), why);
    };
    const bool fusable = bias && !stages_y();
    if (!(fusable && relu && found(true, true)) && !(fusable && found(true, false)) && !found(false, false))
      user_error("cuDNN has no plan for op {}: {}", site.op.name, why);
    if (bias_) {
      // Apart, y is read and written once more, unless it is so for the activation in either case.
      constexpr double kBytesPerSecond = 0.9e12;  // of the slowest memory that these cards have
      const double pass = relu && !relu_ ? 0 : static_cast<double>(2 * 4 * seen_.y.elements()) / kBytesPerSecond;
      LibraryConvolution apart = *this;
      apart.bias_ = apart.relu_ = false;
      if (apart.find_plans(apart.signatures(false, false, tf32), why) && seconds() > apart.seconds() + pass)
        *this = std::move(apart);
    }
    plan_in_parts(tf32);
  }

  // The same by each of the library's plans, the bias and the relu fused or not; none where the call is done in parts, or has no y.
  std::vector<LibraryConvolution> by_every_plan(bool bias, bool relu, bool tf32) const {
    std::vector<LibraryConvolution> all;
    const auto add = [&](bool fused_bias, bool fused_relu) {
      for (Planned& planned : every_plan_of(signatures(fused_bias, fused_relu, tf32).front())) {
        LibraryConvolution& one = all.emplace_back(*this);
        one.bias_ = fused_bias;
        one.relu_ = fused_relu;
        one.parts_.front().plan = 0;
        one.shared_ = planned.workspace_bytes();
        one.planned_.push_back(std::move(planned));
      }
    };
    if (parts_.size() > 1 || parts_.front().boxes.y.empty()) return all;
    if (bias && relu && !stages_y()) add(true, true);
    if (bias && !stages_y()) add(true, false);
    add(false, false);
    return all;
  }

  // Its last part, from shared_at() on, is used in the library's calls only.
  std::int64_t workspace_bytes() const { return shared_at_ + shared_; }
  std::int64_t shared_at() const { return shared_at_; }
  // That its calls of the library took when they were tried; negative where they were not.
  double seconds() const {
    double total = 0;
    for (const Part& part : parts_) {
      if (part.plan < 0) continue;
      const double one = planned_[static_cast<std::size_t>(part.plan)].seconds();
      if (one < 0) return -1;
      total += one;
    }
    return total;
  }
  bool fuses_bias() const { return bias_; }
  bool fuses_relu() const { return relu_; }
  std::string name() const {
    std::string name = planned_.empty() ? "zeros" : planned_.front().name();
    for (std::size_t i = 1; i < planned_.size(); ++i)
      if (planned_[i].name() != planned_.front().name()) name.append(1, '+').append(planned_[i].name());
    if (bias_) name += relu_ ? "+bias+relu" : "+bias";
    if (window_) name += "+window";
    if (stages_y() || stages_weight()) name += "+groups";
    if (parts_.size() > 1) name += fmt::format("+parts:{}", parts_.size());
    return name;
  }

  // x and y lie in these boxes now, the boxes of the call moved. Of what the pass computes all is written.
  void run(const Meeting& now, float* x, float* w, float* y, const float* bias, std::byte* workspace, void* queue) const {
    const ConvolutionPass pass = geometry_.pass;
    Meeting seen = now;
    if (geometry_.channels.groups > 1) {
      seen.x.set(1, seen_.x[1]);
      seen.y.set(1, seen_.y[1]);
    }
    if (window_) seen.x = seen_x(seen.x, seen.y);
    float* const staged_x = stages_x() ? reinterpret_cast<float*>(workspace + x_at_) : x;
    float* const staged_y = stages_y() ? reinterpret_cast<float*>(workspace + y_at_) : y;
    float* const staged_w = stages_weight() ? reinterpret_cast<float*>(workspace + w_at_) : w;
    if (pass != ConvolutionPass::data && stages_x()) embed_map(x, now.x, staged_x, seen.x, queue);
    if (pass != ConvolutionPass::forward && stages_y()) embed_map(y, now.y, staged_y, seen.y, queue);
    if (pass != ConvolutionPass::weights && stages_weight()) embed_rows(w, given_.weight, staged_w, seen_.weight, queue);
    for (const Part& part : parts_) {
      float* const part_x = staged_x + part.x;
      if (part.plan < 0)
        fill_zero(part_x, part.boxes.x.elements() * 4, queue);
      else
        planned_[static_cast<std::size_t>(part.plan)].run(
            {bytes(part_x), bytes(staged_w), bytes(staged_y + part.y), bytes(const_cast<float*>(bias))}, workspace + shared_at_,
            queue);
    }
    if (pass == ConvolutionPass::data && stages_x()) embed_map(staged_x, seen.x, x, now.x, queue);
    if (pass == ConvolutionPass::forward && stages_y()) embed_map(staged_y, seen.y, y, now.y, queue);
    if (pass == ConvolutionPass::weights && stages_weight()) embed_rows(staged_w, seen_.weight, w, given_.weight, queue);
  }

 private:
  // A call of the library: its boxes, the elements of the maps before them, and which plan; none where there is no y.
  struct Part {
    Meeting boxes;
    std::int64_t x = 0;
    std::int64_t y = 0;
    int plan = -1;
  };

  static std::byte* bytes(float* data) { return reinterpret_cast<std::byte*>(data); }
  std::int64_t group_outputs() const { return geometry_.channels.groups > 1 ? geometry_.channels.outputs : seen_.y.extent(1); }
  bool stages_x() const { return window_ || seen_.x != given_.x; }
  bool stages_y() const { return seen_.y != given_.y; }
  bool stages_weight() const { return seen_.weight != given_.weight; }
  // What the windows of y cover.
  Box seen_x(Box x, const Box& y) const {
    for (int i = 0; i < geometry_.windows.rank; ++i) x.set(2 + i, geometry_.window(i, y[2 + i]));
    return x;
  }

  // False, with the reason, where one of them has no plan.
  bool find_plans(const std::vector<ConvolutionSignature>& signatures, std::string& why) {
    planned_.clear();
    shared_ = 0;
    std::vector<std::string> keys;
    auto part = parts_.begin();
    for (const ConvolutionSignature& signature : signatures) {
      while (part->boxes.y.empty()) ++part;
      const std::string key = to_string(signature);
      const auto known = std::ranges::find(keys, key);
      part++->plan = static_cast<int>(known - keys.begin());
      if (known != keys.end()) continue;
      std::optional<Planned> planned = plan_of(signature, why);
      if (!planned) {
        why = fmt::format("{} ({})", why, key);
        return false;
      }
      shared_ = std::max(shared_, planned->workspace_bytes());
      planned_.push_back(std::move(*planned));
      keys.push_back(key);
    }
    return true;
  }
  // Where the fastest plan takes too much workspace, which grows with the maps: in parts it may still be the fastest.
  void plan_in_parts(bool tf32) {
    if (parts_.size() > 1) return;
    const std::int64_t factor = planned_.front().parts_worth_trying();
    if (factor < 2) return;
    const std::int64_t largest = std::max(seen_.x.elements(), seen_.y.elements());
    for (const std::int64_t parts : {factor, 2 * factor}) {
      LibraryConvolution other = *this;
      std::string why;
      try {
        other.split(ceil_divide(largest, parts));
      } catch (const UserError&) {
        return;  // a few rows of one sample are larger than that
      }
      if (other.find_plans(other.signatures(bias_, relu_, tf32), why) && other.seconds() < 0.95 * seconds())
        *this = std::move(other);
    }
  }
  void split(std::int64_t most) {
    const Meeting all{seen_.x, seen_.y};
    const Parts parts(geometry_, all, most);
    parts_.clear();
    for (const Meeting& meeting : parts.all()) parts_.push_back({meeting, before(all.x, meeting.x), before(all.y, meeting.y), -1});
  }
  // The elements of a map before a part of it.
  static std::int64_t before(const Box& all, const Box& part) {
    const std::int64_t sample = all.elements() / all.extent(0);
    return (part.lo[0] - all.lo[0]) * sample + (part.empty() ? 0 : (part.lo[2] - all.lo[2]) * (sample / all.extent(2)));
  }

  Geometry geometry_;
  Boxes given_, seen_;
  bool window_ = false;
  bool bias_ = false;
  bool relu_ = false;
  std::vector<Part> parts_;
  std::vector<Planned> planned_;
  std::int64_t x_at_ = 0, y_at_ = 0, w_at_ = 0, shared_at_ = 0, shared_ = 0;
};

SlidingWindows windows_of(const OpSite& site, const Dims& weight, const Dims& x) {
  return sliding_windows(site, spatial(weight), spatial(x), true);
}
Geometry geometry_of(const OpSite& site, ConvolutionPass pass, const Dims& weight, const Dims& x) {
  return {pass, windows_of(site, weight, x), channels_of(site, weight)};
}

// Whether a call is not for the library but for the block programs; `weight` and `x` are whole shapes.
bool is_depthwise(const Call& call, const Dims& weight, const Dims& x) {
  std::int64_t positions = 0;
  for (const Box& box : {call.boxes.in[0], call.boxes.out[0], call.boxes.in[1]})
    if (box.rank() == x.rank()) positions = std::max(positions, box.elements() / std::max<std::int64_t>(1, box.extent(1)));
  return has_depthwise(windows_of(call.site, weight, x), channels_of(call.site, weight), positions);
}

// Nothing but the bias: no input reaches the result.
std::unique_ptr<Kernel> make_bias_alone(const Box& box, bool bias, bool relu) {
  return make_kernel("fill", 0, [=](const KernelRun& run) {
    fill_zero(run.out[0], box.elements() * 4, run.queue);
    finish(out<float>(run, 0), box, bias ? in<float>(run, 2) : nullptr, relu, run.queue);
  });
}

LibraryConvolution forward_of(const Call& call) {
  return {geometry_of(call.site, ConvolutionPass::forward, call.site.in(1).shape, call.site.in(0).shape),
          {call.boxes.in[0], call.boxes.out[0], call.boxes.in[1]}};
}
LibraryConvolution spread_of(const Call& call) {
  return {geometry_of(call.site, ConvolutionPass::data, call.site.in(1).shape, call.site.out(0).shape),
          {call.boxes.out[0], call.boxes.in[0], call.boxes.in[1]}};
}
LibraryConvolution weights_of(const Call& call) {
  return {geometry_of(call.site, ConvolutionPass::weights, call.site.out(0).shape, call.site.in(1).shape),
          {call.boxes.in[1], call.boxes.in[0], call.boxes.out[0]}};
}

bool has_bias(const Call& call) { return call.site.inputs() > 2 && !call.boxes.in[2].empty(); }

// The kernels of planned convolutions.
std::unique_ptr<Kernel> forward_kernel(const Call& call, const LibraryConvolution& convolution) {
  const bool bias = has_bias(call), relu = call.site.word("activation") == "relu";
  return make_kernel(convolution.name(), convolution.workspace_bytes(), [=](const KernelRun& run) {
    const Box& box = run.out_boxes[0];
    const float* const numbers = bias ? in<float>(run, 2) : nullptr;
    float* const result = out<float>(run, 0);
    convolution.run({run.in_boxes[0], box}, const_cast<float*>(in<float>(run, 0)), const_cast<float*>(in<float>(run, 1)), result,
                    numbers, run.workspace, run.queue);
    if (!convolution.fuses_relu()) finish(result, box, convolution.fuses_bias() ? nullptr : numbers, relu, run.queue);
  });
}

std::unique_ptr<Kernel> spread_kernel(const Call& call, const LibraryConvolution& convolution) {
  const bool bias = has_bias(call);
  return make_kernel(convolution.name(), convolution.workspace_bytes(), [=](const KernelRun& run) {
    const Box& box = run.out_boxes[0];
    float* const result = out<float>(run, 0);
    convolution.run({box, run.in_boxes[0]}, result, const_cast<float*>(in<float>(run, 1)), const_cast<float*>(in<float>(run, 0)),
                    nullptr, run.workspace, run.queue);
    finish(result, box, bias ? in<float>(run, 2) : nullptr, false, run.queue);
  });
}

std::unique_ptr<Kernel> weights_kernel(const Call& call, const LibraryConvolution& convolution) {
  const bool bias = call.site.outputs() > 1;
  const ReduceShape shape = sum_shape(call.boxes.in[0]);
  const std::int64_t workspace =
      std::max(convolution.workspace_bytes(), convolution.shared_at() + (bias ? reduce_workspace<Sum>(shape) : 0));
  return make_kernel(convolution.name(), workspace, [=](const KernelRun& run) {
    convolution.run({run.in_boxes[1], run.in_boxes[0]}, const_cast<float*>(in<float>(run, 1)), out<float>(run, 0),
                    const_cast<float*>(in<float>(run, 0)), nullptr, run.workspace, run.queue);
    if (bias)
      run_reduce(Sum(), SumEnd{out<float>(run, 1)}, {in<float>(run, 0)}, shape, run.workspace + convolution.shared_at(), run.queue);
  });
}

std::unique_ptr<Kernel> make_library_forward(const Call& call, bool tf32) {
  LibraryConvolution convolution = forward_of(call);
  convolution.plan(call.site, has_bias(call), call.site.word("activation") == "relu", tf32);
  return forward_kernel(call, convolution);
}

std::unique_ptr<Kernel> make_library_spread(const Call& call, bool tf32) {
  LibraryConvolution convolution = spread_of(call);
  convolution.plan(call.site, false, false, tf32);
  return spread_kernel(call, convolution);
}

std::unique_ptr<Kernel> make_library_weights(const Call& call, bool tf32) {
  LibraryConvolution convolution = weights_of(call);
  convolution.plan(call.site, false, false, tf32);
  return weights_kernel(call, convolution);
}

// Of a block program and what make_library(call, tf32) gives the one that is faster on the card, in memory that is given back at
// once; the block program where there is none, or no card, or the library has no plan. `choice` may ask for either.
std::unique_ptr<Kernel> faster_of(std::unique_ptr<Kernel> own, const Call& call, [[maybe_unused]] const StorageRule& storage,
                                  bool tf32, std::unique_ptr<Kernel> (*make_library)(const Call&, bool), ConvolutionChoice choice) {
#if !defined(__CUDACC__)
  if (choice == ConvolutionChoice::fastest) return own;
#endif
  if (choice == ConvolutionChoice::own) return own;
  std::unique_ptr<Kernel> library;
  try {
    library = make_library(call, tf32);
  } catch (const UserError&) {
    return own;
  }
  if (choice == ConvolutionChoice::library) return library;
#if defined(__CUDACC__)
  std::int64_t bytes = 0;
  const auto book = [&](const ValueType& type, const Box& box) {
    const std::int64_t at = bytes;
    if (!box.empty()) bytes += part_bytes(stored_bytes(storage, type, box.shape()));
    return at;
  };
  std::vector<std::int64_t> in_at, out_at;
  for (std::size_t i = 0; i < call.boxes.in.size(); ++i) in_at.push_back(book(call.site.in(static_cast<int>(i)), call.boxes.in[i]));
  for (std::size_t i = 0; i < call.boxes.out.size(); ++i)
    out_at.push_back(book(call.site.out(static_cast<int>(i)), call.boxes.out[i]));
  std::string text = std::string(call.site.op.def->kind());
  for (const ConvolutionSignature& signature : convolution_signatures(call, tf32)) text += "; " + to_string(sample_of(signature));
  const std::string own_way = "own " + own->name(), library_way = "library " + library->name();
  const bool known = tuned_seconds(text, own_way) && tuned_seconds(text, library_way);
  const std::unique_ptr<Trial> trial =
      known ? nullptr : Trial::make(bytes + std::max(own->workspace_bytes(), library->workspace_bytes()));
  if (!known && !trial) return own;
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (const std::int64_t at : in_at) in.push_back(trial ? trial->memory() + at : nullptr);
  for (const std::int64_t at : out_at) out.push_back(trial ? trial->memory() + at : nullptr);
  const auto seconds = [&](const Kernel& kernel, const std::string& way, double best) {
    return tuned_seconds(text, way, [&] {
      const auto run = [&] {
        kernel.run({in, out, trial->memory() + bytes, call.boxes.in, call.boxes.out, call.owned, trial->queue()});
        return true;
      };
      return trial->seconds(run, best).value_or(INFINITY);
    });
  };
  constexpr double kFaster = 0.95;  // so that chance decides nothing
  const double without = seconds(*own, own_way, INFINITY), with = seconds(*library, library_way, without);
  if (trial) use_stream(nullptr);
  if (with < kFaster * without) return library;
#endif
  return own;
}

}  // namespace

namespace {

// A call of any of these kinds as the library does it; nothing where there is nothing to do, or block programs serve.
std::optional<LibraryConvolution> library_convolution(const Call& call) {
  const std::string_view kind = call.site.op.def->kind();
  const auto empty = [](const Box& box) { return box.empty(); };
  if (std::ranges::any_of(std::span(call.boxes.in).first(2), empty) || call.boxes.out[0].empty()) return std::nullopt;
  const bool weights = kind.ends_with("_grad_weight"), spread = kind.ends_with("_grad_data") || kind.starts_with("conv_transpose");
  const OpSite& site = call.site;
  if (is_depthwise(call, weights ? site.out(0).shape : site.in(1).shape,
                   weights  ? site.in(1).shape
                   : spread ? site.out(0).shape
                            : site.in(0).shape))
    return std::nullopt;
  return weights ? weights_of(call) : spread ? spread_of(call) : forward_of(call);
}

}  // namespace

std::vector<ConvolutionSignature> convolution_signatures(const Call& call, bool tf32) {
  const std::optional<LibraryConvolution> convolution = library_convolution(call);
  return convolution ? convolution->signatures(false, false, tf32) : std::vector<ConvolutionSignature>{};
}

#if defined(__CUDACC__)
std::optional<Alternative> described_convolution(const Call& call, bool tf32, const std::string& description) {
  if (!call.site.op.def->kind().starts_with("conv")) return std::nullopt;
  const std::optional<LibraryConvolution> convolution = library_convolution(call);
  if (!convolution) return std::nullopt;
  constexpr int kFew = 10;  // as many as are tried on a card
  // Never destroyed: the library may have ended before.
  static auto& known = *new std::map<std::string, std::optional<PlannedConvolution>>();
  Alternative found;
  for (const ConvolutionSignature& signature : convolution->signatures(false, false, tf32)) {
    const auto [at, is_new] = known.try_emplace(description + to_string(signature));
    if (is_new) {
      const std::int64_t most = workspace_limit(signature);
      for (const PlannedConvolution& plan : planned_convolutions(signature, description, kFew)) {
        const bool fits = plan.workspace_bytes <= most, had = at->second && at->second->workspace_bytes <= most;
        if (!had && (fits || !at->second || plan.workspace_bytes < at->second->workspace_bytes)) at->second = plan;
      }
    }
    if (!at->second) return std::nullopt;
    if (found.name.empty()) found.name = at->second->name;
    found.workspace_bytes = std::max(found.workspace_bytes, at->second->workspace_bytes);
  }
  found.workspace_bytes += convolution->shared_at();
  return found;
}
#endif

std::int64_t& most_elements() {
  static std::int64_t most = (std::int64_t{1} << 31) - 1;
  return most;
}

ConvolutionChoice& convolution_choice() {
  static ConvolutionChoice choice = ConvolutionChoice::fastest;
  return choice;
}

std::unique_ptr<Kernel> make_convolution(const Call& call, const StorageRule& storage, bool tf32, ConvolutionChoice choice) {
  expect_card_call(call, storage);
  const Box& y = call.boxes.out[0];
  if (y.empty()) return make_nothing();
  const bool bias = has_bias(call), relu = call.site.word("activation") == "relu";
  if (call.boxes.in[0].empty() || call.boxes.in[1].empty()) return make_bias_alone(y, bias, relu);
  if (!is_depthwise(call, call.site.in(1).shape, call.site.in(0).shape)) return make_library_forward(call, tf32);
  const SlidingWindows windows = windows_of(call.site, call.site.in(1).shape, call.site.in(0).shape);
  auto own = make_kernel("depthwise", 0, [=](const KernelRun& run) {
    run_depthwise(windows,
                  {in<float>(run, 0), run.in_boxes[0], in<float>(run, 1), out<float>(run, 0), run.out_boxes[0],
                   bias ? in<float>(run, 2) : nullptr, relu},
                  false, run.queue);
  });
  return faster_of(std::move(own), call, storage, tf32, make_library_forward, choice);
}

std::unique_ptr<Kernel> make_spread(const Call& call, const StorageRule& storage, bool tf32, ConvolutionChoice choice) {
  expect_card_call(call, storage);
  const Box& x = call.boxes.out[0];
  if (x.empty()) return make_nothing();
  const bool bias = has_bias(call);
  if (call.boxes.in[0].empty() || call.boxes.in[1].empty()) return make_bias_alone(x, bias, false);
  if (!is_depthwise(call, call.site.in(1).shape, call.site.out(0).shape)) return make_library_spread(call, tf32);
  const SlidingWindows windows = windows_of(call.site, call.site.in(1).shape, call.site.out(0).shape);
  auto own = make_kernel("depthwise", 0, [=](const KernelRun& run) {
    run_depthwise(windows,
                  {in<float>(run, 0), run.in_boxes[0], in<float>(run, 1), out<float>(run, 0), run.out_boxes[0],
                   bias ? in<float>(run, 2) : nullptr},
                  true, run.queue);
  });
  return faster_of(std::move(own), call, storage, tf32, make_library_spread, choice);
}

std::unique_ptr<Kernel> make_convolution_weights(const Call& call, const StorageRule& storage, bool tf32,
                                                 ConvolutionChoice choice) {
  expect_card_call(call, storage);
  const Box& y = call.boxes.in[0];
  const Box& x = call.boxes.in[1];
  if (y.empty() || x.empty()) return make_zeros(call, storage);
  if (call.boxes.out[0].empty()) return make_nothing();
  const bool bias = call.site.outputs() > 1;
  const ReduceShape shape = sum_shape(y);
  const std::int64_t bias_workspace = bias ? reduce_workspace<Sum>(shape) : 0;
  const SlidingWindows windows = windows_of(call.site, call.site.out(0).shape, call.site.in(1).shape);
  const auto make_own = [&](const char* name, std::int64_t workspace, const auto& run_weights) {
    return make_kernel(name, std::max(workspace, bias_workspace), [=](const KernelRun& run) {
      run_weights(windows, in<float>(run, 0), run.in_boxes[0], in<float>(run, 1), run.in_boxes[1], out<float>(run, 0),
                  run.workspace, run.queue);
      if (bias) run_reduce(Sum(), SumEnd{out<float>(run, 1)}, {in<float>(run, 0)}, shape, run.workspace, run.queue);
    });
  };
  if (is_depthwise(call, call.site.out(0).shape, call.site.in(1).shape))
    return faster_of(make_own("depthwise", depthwise_weights_workspace(windows, y), run_depthwise_weights), call, storage, tf32,
                     make_library_weights, choice);
  if (has_stem_weights(windows, channels_of(call.site, call.site.out(0).shape), y, x))
    return faster_of(make_own("unfold", stem_weights_workspace(windows, y, x), run_stem_weights), call, storage, tf32,
                     make_library_weights, choice);
  return make_library_weights(call, tf32);
}

namespace {

using Make = std::unique_ptr<Kernel> (*)(const Call& call, const StorageRule& storage, bool tf32, ConvolutionChoice choice);
using KernelOf = std::unique_ptr<Kernel> (*)(const Call& call, const LibraryConvolution& convolution);

// The kernel that is taken where nothing is chosen, the block program, and all that the library has, not only those which are fast
// or small: a plan that was saved names one of them, whatever was timed since.
std::vector<PreparedAlternative> alternatives_of(const Call& call, const StorageRule& storage, bool tf32, Make make,
                                                 LibraryConvolution (*library_of)(const Call&), KernelOf kernel_of, bool relu) {
  std::vector<PreparedAlternative> found;
  const auto add = [&](std::unique_ptr<Kernel> kernel, double seconds) {
    const auto same = std::ranges::find_if(found, [&](const auto& other) { return other.kernel->name() == kernel->name(); });
    if (same == found.end())
      found.push_back({std::move(kernel), seconds});
    else if (seconds >= 0)
      same->seconds = seconds;
  };
  add(make(call, storage, tf32, convolution_choice()), -1);
  const auto empty = [](const Box& box) { return box.empty(); };
  if (std::ranges::any_of(std::span(call.boxes.in).first(2), empty) || call.boxes.out[0].empty()) return found;
  add(make(call, storage, tf32, ConvolutionChoice::own), -1);
  const bool bias = kernel_of == forward_kernel && has_bias(call);
  for (const LibraryConvolution& one : library_of(call).by_every_plan(bias, relu, tf32)) add(kernel_of(call, one), one.seconds());
  return found;
}

}  // namespace

std::vector<PreparedAlternative> convolution_alternatives(const Call& call, const StorageRule& storage, bool tf32) {
  const bool relu = call.site.word("activation") == "relu";
  return alternatives_of(call, storage, tf32, make_convolution, forward_of, forward_kernel, relu);
}
std::vector<PreparedAlternative> spread_alternatives(const Call& call, const StorageRule& storage, bool tf32) {
  return alternatives_of(call, storage, tf32, make_spread, spread_of, spread_kernel, false);
}
std::vector<PreparedAlternative> convolution_weights_alternatives(const Call& call, const StorageRule& storage, bool tf32) {
  return alternatives_of(call, storage, tf32, make_convolution_weights, weights_of, weights_kernel, false);
}

}  // namespace outsize::OUTSIZE_PLACE
