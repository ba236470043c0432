#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "ops/conv/shape.h"
#include "ops/cpu_support.h"

// oneDNN's convolutions on channel-blocked pieces, with channels declared rounded up to the block; weights are brought into the
// primitive's layout, zero-padded, in the workspace.
//
// The primitive sees the y side (y or dy) as it is. The x side may have to pass through the workspace (see Passage): where the
// library has no fast implementation for a tile's paddings, where most of a block would be padding, where a stride skips positions.
namespace outsize {

enum class ConvPass : std::uint8_t { forward, data, weights };

// What ties the y side of a call to its x side: y[o] meets x[o · stride − before + t · dilation] in every spatial dimension.
struct ConvGeometry {
  SlidingWindows windows;  // input and after are not used: the boxes say what there is
  Channels channels;
  Box x;
  Box y;

  int rank() const { return windows.rank; }
  std::int64_t taps() const { return taps_of(windows); }
  // x's box with its space replaced by all that the windows of y cover, padding included.
  Box window() const;
  // For kernels of one position: the same convolution over only those positions of x that y meets, numbered as y's.
  ConvGeometry thinned() const;
};

// Which weights a primitive is given: how the op's weights [rows, columns, taps] lie in `groups` matrices of outputs × inputs for
// each tap. Groups that do not fill blocks are put together, with zeros between; a convolution may be asked for with the roles of
// x and y swapped, or with some of the taps.
class WeightOrder {
 public:
  // Of `weight`, a box of the op's weights, all taps in their order; x is where its columns lie.
  WeightOrder(const Channels& channels, const Box& weight, Interval x);
  // The same with the roles of x and y swapped.
  WeightOrder swapped() const;
  // The same with these of the taps.
  WeightOrder picked(std::vector<std::int64_t> taps) const;
  // The same as so many groups.
  WeightOrder grouped(std::int64_t groups) const;

  std::int64_t groups() const { return groups_; }
  std::int64_t outputs() const { return outputs_ / groups_; }  // a group
  std::int64_t inputs() const { return inputs_ / groups_; }    // a group
  std::int64_t elements() const { return groups_ * outputs() * inputs() * static_cast<std::int64_t>(picks_.size()); }
  // True where that is the op's own order.
  bool same() const { return same_; }
  // Fills `staged` from the op's weights.
  void stage(const float* weight, float* staged) const;
  // The reverse: all of the op's weights from `staged`, or only those of one tap, all that is staged.
  void unstage(const float* staged, float* weight) const;
  void unstage_tap(const float* staged, std::int64_t tap, float* weight) const;

 private:
  template <class Body>
  void for_each(const Body& body) const;
  void settle();

  Channels channels_;
  Box weight_;
  Interval x_;
  std::int64_t groups_ = 1;
  std::int64_t outputs_ = 0;
  std::int64_t inputs_ = 0;
  std::int64_t taps_ = 1;            // of the op
  std::vector<std::int64_t> picks_;  // the op's tap for each staged one
  bool swapped_ = false;
  bool same_ = true;
};

struct ConvProblem {
  ConvPass pass;
  StorageRule storage;
  bool bias = false;
  bool relu = false;
  // Windows wider than x: x may be the same for several boxes of y, so that where they lie is known at run time only.
  bool slips = false;
  bool planar = false;  // x is stored N C D? H W: see sees_plain()
};

// Where a prepared convolution is run.
struct ConvPlace {
  const Box& x;
  const Box& y;
};

// Whether a part of y meets all of x along some dimension: then a loop over y may leave x where it is.
bool x_stands_still(const ConvGeometry& geometry);

// One prepared primitive with the ways of x and of the weights. It is not a kernel yet: its workspace is part of a kernel's.
class Convolution {
 public:
  // The first way with a fast implementation; where there is none, nothing, or, if `slow` is allowed, one by matrix products.
  static std::optional<Convolution> find(const ConvProblem& problem, const ConvGeometry& geometry, const WeightOrder& order,
                                         const std::string& what, bool slow = false);

  std::int64_t workspace_bytes() const { return workspace_.bytes(); }
  std::string name() const;
  // Whether x is given to the primitive without the padding of its block. Only then may it be planar.
  bool sees_plain() const { return passage_ == Passage::plain; }

  // Each brings x and the weights on their way and runs the primitive; `bias` has padded_channels() numbers or is null.
  void forward(std::byte* workspace, const ConvPlace& place, const float* x, const float* weight, const float* bias,
               float* y) const;
  void data(std::byte* workspace, const ConvPlace& place, const float* y, const float* weight, float* x) const;
  // With a `tap` the op's weights are those of more taps, and only this one is written.
  void weights(std::byte* workspace, const ConvPlace& place, const float* x, const float* y, float* weight, float* bias,
               std::optional<std::int64_t> tap = std::nullopt) const;

 private:
  // How the x side reaches the primitive.
  enum class Passage : std::uint8_t {
    direct,   // the call's own piece, with the padding that its box implies on each side
    window,   // another box: the part that the windows touch, or all they cover, so that no padding is needed
    thinned,  // a strided kernel of one position: those it meets, so that the stride is one
    plain,    // N C D? H W: a stem's few channels, for which the library has kernels that do not compute a block's padding
  };
  struct Choice;
  static std::optional<Choice> describe(const ConvProblem& problem, const ConvGeometry& geometry, const WeightOrder& order,
                                        Passage passage, const Box& x);
  static std::optional<Choice> choose(const ConvProblem& problem, const ConvGeometry& geometry, const WeightOrder& order,
                                      bool may_be_plain);
  static std::optional<Choice> choose_strided(const ConvProblem& problem, const ConvGeometry& geometry, const WeightOrder& order);

  Convolution(const ConvProblem& problem, const ConvGeometry& geometry, const Choice& choice, const std::string& what);
  Box seen(const ConvPlace& place) const;
  const float* pass_in(std::byte* workspace, const ConvPlace& place, const float* x) const;
  void load_weights(std::byte* workspace, const float* weight) const;

  StorageRule storage_;
  Steps steps_;
  Passage passage_;
  bool planar_;
  Box y_box_;
  Box seen_box_;
  WeightOrder order_;
  DnnlCall convolution_;
  std::optional<DnnlCall> reorder_;  // none: unblock_weights
  Dims plain_;                       // rows, columns and taps, for unblock_weights
  Workspace workspace_;
  std::int64_t weights_ = 0;
  std::int64_t staged_ = 0;
  std::int64_t passing_ = 0;
  std::int64_t scratchpad_ = 0;
};

// Weights (rows, columns, taps) from blocks of outputs × inputs, each taps × inputs × outputs, to the plain order. It is the layout
// of most weight gradients, for which the library's own reorder is up to eight times slower.
void unblock_weights(const StorageRule& storage, const float* blocked, const Dims& weight, float* plain);

// "conv3d down1 (x …, y …, kernel …)" for messages.
std::string describe_conv(const Call& call, const ConvGeometry& geometry);

// The geometry of a call with these boxes; `weight` and `x` are the shapes of the whole values.
ConvGeometry conv_geometry(const OpSite& site, const Dims& weight, const Dims& x, const Box& x_box, const Box& y_box);

// A kernel for x from y: in[0] is the y side, in[1] the weights and, if `bias`, in[2] a number a channel of x; out[0] is the x
// side. It is the gradient of a convolution with respect to x, and the transposed convolution.
std::unique_ptr<Kernel> make_conv_spread(const Call& call, const StorageRule& storage, bool bias);

}  // namespace outsize
