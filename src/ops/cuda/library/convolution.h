#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/shape.h"

// Convolutions as cuDNN is told of them: packed maps with their channels last, plain weights, f32.
namespace outsize {

// "cuDNN 9.19.0", or "no cuDNN" where none that does can be loaded.
std::string cudnn_name();

enum class ConvolutionPass : std::uint8_t { forward, data, weights };

// y[n, o, p] = Σ w[o, c, t] · x[n, c, p · stride − before + t · dilation], or the gradient of that with respect to x or w. What a
// pass does not compute, it reads.
struct ConvolutionSignature {
  ConvolutionPass pass = ConvolutionPass::forward;
  Dims x;  // N C D? H W
  Dims w;  // O C/groups k…; the extents say how many groups there are
  Dims y;  // N O D? H W
  // One a spatial dimension. Along each, (x + before + after − dilation · (kernel − 1) − 1) / stride + 1, rounded down, is y's
  // extent.
  Dims before, after, stride, dilation;
  bool bias = false;            // forward: adds a number a channel
  bool relu = false;            // forward, with a bias: then takes what is above zero
  bool accumulate = false;      // adds to what the result holds
  bool tf32 = false;            // whether factors may be rounded to 10 bits
  std::int64_t alignment = 16;  // of all maps, in bytes

  int rank() const { return stride.rank(); }
  std::int64_t groups() const { return x[1] / w[1]; }
};

// "forward, x [32, 256, 56, 56], w […], y […], padding …": all of it, for messages and as a key.
inline std::string to_string(const ConvolutionSignature& s) {
  constexpr std::array kPasses{"forward", "data gradient", "weight gradient"};
  return fmt::format("{}, x {}, w {}, y {}, padding {} before and {} after, stride {}, dilation {}{}{}{}{}, aligned to {}",
                     kPasses[static_cast<std::size_t>(s.pass)], to_string(s.x), to_string(s.w), to_string(s.y), to_string(s.before),
                     to_string(s.after), to_string(s.stride), to_string(s.dilation), s.bias ? ", bias" : "", s.relu ? ", relu" : "",
                     s.accumulate ? ", added" : "", s.tf32 ? ", tf32" : "", s.alignment);
}

// Throws InternalError unless the extents fit each other.
inline void check(const ConvolutionSignature& s) {
  bool fits = s.x[0] == s.y[0] && s.w[0] == s.y[1] && s.w[1] > 0 && s.x[1] % s.w[1] == 0 && s.y[1] % s.groups() == 0;
  for (int i = 0; i < s.rank(); ++i) {
    const std::int64_t room = s.x[2 + i] + s.before[i] + s.after[i] - s.dilation[i] * (s.w[2 + i] - 1) - 1;
    fits = fits && s.before[i] >= 0 && s.after[i] >= 0 && room >= 0 && room / s.stride[i] + 1 == s.y[2 + i];
  }
  if (!fits) internal_error("a convolution that is none: {}", to_string(s));
}

// The signature on which the plans of another are tried. Whoever looks for tiles asks about thousands of extents, and which plan is
// the fastest hardly depends on them. Of a map with more than four million positions the sample is a part, by halves of its samples
// and then of its rows. The samples that are left, or the rows of one sample, are rounded down to three binary digits: the extents
// of most networks (7, 14, 28, 56, 112, 224) and batches have no more.
ConvolutionSignature sample_of(ConvolutionSignature signature);

// The memory of a convolution; the pass says which of them is written.
struct ConvolutionOperands {
  std::byte* x = nullptr;
  std::byte* w = nullptr;
  std::byte* y = nullptr;
  std::byte* bias = nullptr;
};

// One way to compute a convolution on the card in use.
class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  // "cudnn:engine67/2-1/5-3": the engine and its settings, in the library's numbers
  virtual std::string name() const = 0;
  virtual std::int64_t workspace_bytes() const = 0;
  // What a call took when the plans were made; negative where there was no memory to try.
  virtual double seconds() const = 0;
  // Puts the convolution into the stream `queue`. The result is the same bits every time.
  virtual void run(const ConvolutionOperands& operands, std::byte* workspace, void* queue) const = 0;
};

using ConvolutionPlans = std::vector<std::shared_ptr<const ConvolutionPlan>>;

// The plans that no other beats in both time and workspace, the fastest first; where they could not be tried, all in cuDNN's order.
// They are found once a signature and process: the first 10 that give the same bits every time and are as precise as asked are
// tried on the card, in memory that is given back at once. None where cuDNN has none; `why` then says what it answered.
// A relu is fused only where a NaN has been seen to stay one.
const ConvolutionPlans& convolution_plans(const ConvolutionSignature& signature, std::string* why = nullptr);

// All of them that can be run, those that another beats too.
const ConvolutionPlans& all_convolution_plans(const ConvolutionSignature& signature);

// The most that a plan's workspace should be: kMostWorkspace, and at most kMostOver more than what the convolution reads and
// writes.
inline constexpr std::int64_t kMostWorkspace = std::int64_t{256} << 20;
inline constexpr std::int64_t kMostOver = std::int64_t{64} << 20;
std::int64_t workspace_limit(const ConvolutionSignature& signature);

// The first within the limit; where there is none, the one with the least workspace. Null where there is no plan at all.
std::shared_ptr<const ConvolutionPlan> choose(const ConvolutionPlans& plans, const ConvolutionSignature& signature);

// What cuDNN plans for a card that is only described, in its JSON: name and workspace of the first few of those that would be tried
// and, where none of them keeps the limits of choose(), of the first that does. It needs neither card nor driver.
struct PlannedConvolution {
  std::string name;
  std::int64_t workspace_bytes = 0;
};
std::vector<PlannedConvolution> planned_convolutions(const ConvolutionSignature& signature, const std::string& device, int few,
                                                     std::string* why = nullptr);

}  // namespace outsize
