#include "ops/conv/cuda_library.h"
#include "ops/cuda/each.h"

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

std::byte* bytes(float* data) { return reinterpret_cast<std::byte*>(data); }

// The elements of a map before a part of it.
std::int64_t before(const Box& all, const Box& part) {
  const std::int64_t sample = all.elements() / all.extent(0);
  return (part.lo[0] - all.lo[0]) * sample + (part.empty() ? 0 : (part.lo[2] - all.lo[2]) * (sample / all.extent(2)));
}

// The plan that is taken for a signature, and all there are.
#if defined(__CUDACC__)
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

}  // namespace

LibraryConvolution::LibraryConvolution(const Geometry& geometry, const Boxes& given)
    : geometry_(geometry), given_(given), seen_(given) {
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

std::vector<ConvolutionSignature> LibraryConvolution::signatures(bool bias, bool relu, bool tf32) const {
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

void LibraryConvolution::plan(const OpSite& site, bool bias, bool relu, bool tf32) {
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
    if (apart.find_plans(apart.signatures(false, false, tf32), why) && seconds() > apart.seconds() + pass) *this = std::move(apart);
  }
  plan_in_parts(tf32);
}

std::vector<LibraryConvolution> LibraryConvolution::by_every_plan(bool bias, bool relu, bool tf32) const {
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

double LibraryConvolution::seconds() const {
  double total = 0;
  for (const Part& part : parts_) {
    if (part.plan < 0) continue;
    const double one = planned_[static_cast<std::size_t>(part.plan)].seconds();
    if (one < 0) return -1;
    total += one;
  }
  return total;
}

std::string LibraryConvolution::name() const {
  std::string name = planned_.empty() ? "zeros" : planned_.front().name();
  for (std::size_t i = 1; i < planned_.size(); ++i)
    if (planned_[i].name() != planned_.front().name()) name.append(1, '+').append(planned_[i].name());
  if (bias_) name += relu_ ? "+bias+relu" : "+bias";
  if (window_) name += "+window";
  if (stages_y() || stages_weight()) name += "+groups";
  if (parts_.size() > 1) name += fmt::format("+parts:{}", parts_.size());
  return name;
}

void LibraryConvolution::run(const Meeting& now, float* x, float* w, float* y, const float* bias, std::byte* workspace,
                             void* queue) const {
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

Box LibraryConvolution::seen_x(Box x, const Box& y) const {
  for (int i = 0; i < geometry_.windows.rank; ++i) x.set(2 + i, geometry_.window(i, y[2 + i]));
  return x;
}

bool LibraryConvolution::find_plans(const std::vector<ConvolutionSignature>& signatures, std::string& why) {
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

void LibraryConvolution::plan_in_parts(bool tf32) {
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
    if (other.find_plans(other.signatures(bias_, relu_, tf32), why) && other.seconds() < 0.95 * seconds()) *this = std::move(other);
  }
}

void LibraryConvolution::split(std::int64_t most) {
  const Meeting all{seen_.x, seen_.y};
  const Parts parts(geometry_, all, most);
  parts_.clear();
  for (const Meeting& meeting : parts.all()) parts_.push_back({meeting, before(all.x, meeting.x), before(all.y, meeting.y), -1});
}

std::int64_t& most_elements() {
  static std::int64_t most = (std::int64_t{1} << 31) - 1;
  return most;
}

}  // namespace outsize::OUTSIZE_PLACE
