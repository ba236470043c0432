#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/conv/cuda_parts.h"
#include "ops/cuda/host_convolution.h"

// A call of a convolution as cuDNN does it; emulated, as loops do that take what cuDNN would.
namespace outsize::OUTSIZE_PLACE {

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
#else
struct Planned {
  HostConvolution convolution;

  std::string name() const { return "loops"; }
  std::int64_t workspace_bytes() const { return 0; }
  double seconds() const { return -1; }
  std::int64_t parts_worth_trying() const { return 1; }
  void run(const ConvolutionOperands& operands, std::byte*, void*) const { convolution.run(operands); }
};
#endif

// A call of a convolution in one of its passes, of non-empty boxes. The library asks for packed operands whose extents fit each
// other, whole groups of channels, paddings that are not negative, below 2^31 elements each. Where a call is not so, an operand
// goes through the workspace, or the call is done in parts.
class LibraryConvolution {
 public:
  // What a call has, in its own boxes.
  struct Boxes {
    Box x, y, weight;
  };

  LibraryConvolution(const Geometry& geometry, const Boxes& given);

  // What the library is asked for, part by part.
  std::vector<ConvolutionSignature> signatures(bool bias, bool relu, bool tf32) const;
  // Finds the library's plans, of which as much is fused as it has; the rest is the caller's. Throws UserError naming the op where
  // it has none.
  void plan(const OpSite& site, bool bias, bool relu, bool tf32);
  // The same by each of the library's plans, the bias and the relu fused or not; none where the call is done in parts, or has no y.
  std::vector<LibraryConvolution> by_every_plan(bool bias, bool relu, bool tf32) const;

  // Its last part, from shared_at() on, is used in the library's calls only.
  std::int64_t workspace_bytes() const { return shared_at_ + shared_; }
  std::int64_t shared_at() const { return shared_at_; }
  // That its calls of the library took when they were tried; negative where they were not.
  double seconds() const;
  bool fuses_bias() const { return bias_; }
  bool fuses_relu() const { return relu_; }
  std::string name() const;

  // x and y lie in these boxes now, the boxes of the call moved. Of what the pass computes all is written.
  void run(const Meeting& now, float* x, float* w, float* y, const float* bias, std::byte* workspace, void* queue) const;

 private:
  // A call of the library: its boxes, the elements of the maps before them, and which plan; none where there is no y.
  struct Part {
    Meeting boxes;
    std::int64_t x = 0;
    std::int64_t y = 0;
    int plan = -1;
  };

  std::int64_t group_outputs() const { return geometry_.channels.groups > 1 ? geometry_.channels.outputs : seen_.y.extent(1); }
  bool stages_x() const { return window_ || seen_.x != given_.x; }
  bool stages_y() const { return seen_.y != given_.y; }
  bool stages_weight() const { return seen_.weight != given_.weight; }
  // What the windows of y cover.
  Box seen_x(Box x, const Box& y) const;
  // False, with the reason, where one of them has no plan.
  bool find_plans(const std::vector<ConvolutionSignature>& signatures, std::string& why);
  // Where the fastest plan takes too much workspace, which grows with the maps: in parts it may still be the fastest.
  void plan_in_parts(bool tf32);
  void split(std::int64_t most);

  Geometry geometry_;
  Boxes given_, seen_;
  bool window_ = false;
  bool bias_ = false;
  bool relu_ = false;
  std::vector<Part> parts_;
  std::vector<Planned> planned_;
  std::int64_t x_at_ = 0, y_at_ = 0, w_at_ = 0, shared_at_ = 0, shared_ = 0;
};

// The elements that a map may have in one call of the library: below 2^31. Tests set it lower, so that small calls have parts.
std::int64_t& most_elements();

}  // namespace outsize::OUTSIZE_PLACE
