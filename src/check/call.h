#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/interface.h"
#include "graph/graph.h"
#include "ops/kernel.h"

// Runs single ops on single boxes, with no planner and no executor, and watches what a kernel may not do: read outside its boxes,
// write outside its outputs, change its inputs, or leave anything but zeros in the channels that pad a block.
namespace outsize::checks {

// A box of a value as numbers, in logical row-major order. Every dtype fits into double exactly.
struct Tensor {
  ValueType type;
  Box box;
  std::vector<double> numbers;

  // Zeros over that box of a value.
  static Tensor zeros(const ValueType& type, const Box& box);
  double& operator[](const Dims& position);
  double operator[](const Dims& position) const;
};

// The part of `tensor` in `box`, which it contains.
Tensor crop(const Tensor& tensor, const Box& box);
// The same numbers as another type of the same shape, rounded to what it can hold.
Tensor convert(const Tensor& tensor, DType dtype);

// ‖a − b‖₂ / ‖b‖₂ over the same box; infinite where either has a NaN or an infinity. Where `whole` is given, b is a part of it and
// counts as at least as large as an average part of that size: the rounding of a sum is relative to its terms, which may cancel in
// a small part.
double relative_error(const Tensor& a, const Tensor& b, const Tensor* whole = nullptr);

// Memory of a card that calls take turns in.
class CardMemory;

// A set of kernels in one precision and one layout.
struct Kernels {
  std::string name;
  const KernelTable* table = nullptr;  // null: those of `device`
  DType dtype = DType::f32;
  StorageRule storage;
  double box_tolerance = 1e-5;
  // False for a layout the backend does not use on this machine by itself: an op that it refuses there is passed over.
  bool every_op = true;
  // Where the kernels' memory is, unless they read and write the host's.
  Backend* device = nullptr;
  // How far a product of f32 factors may be off, relative: more where a card rounds the factors.
  double tolerance = 1e-5;
  mutable std::shared_ptr<CardMemory> card_memory = nullptr;  // of `device`, from its first call on
};

// One call of an op.
struct Invocation {
  CallBoxes boxes;
  Box owned;
  // Where the kernel is prepared, if not there: loops prepare once and shift.
  const CallBoxes* prepared = nullptr;
  Box prepared_owned = {};
  // Outputs that are written over inputs.
  InPlacePairs aliases = {};
  // An input holds a NaN or an infinity: channels that pad a block, weights of zero times the real ones, may then be NaN.
  bool not_finite = false;
};

// All inputs and outputs of an op whole.
Invocation whole(const OpSite& site);
// The boxes, with the driver's box as owned.
Invocation invocation(const OpSite& site, CallBoxes boxes);

// Told of what a kernel did that it may not do, in a sentence that names it.
using Fault = std::function<void(const std::string&)>;

// The outputs of one call from the boxes of its inputs.
std::vector<Tensor> run_op(const Kernels& kernels, const OpSite& site, const std::vector<Tensor>& inputs,
                           const Invocation& invocation, const Fault& fault);

// Whether there is a kernel for the op on whole values; true without trying where there must be.
bool offers(const Kernels& kernels, const OpSite& site);

}  // namespace outsize::checks
