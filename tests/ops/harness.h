#pragma once

#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "backend/interface.h"
#include "graph/graph.h"
#include "ops/kernel.h"

// Runs single ops on single boxes, with no planner and no executor, and watches what a kernel may not do: read outside its boxes,
// write outside its outputs, change its inputs, or leave anything but zeros in the channels that pad a block.
namespace outsize::test {

using Random = std::mt19937_64;

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
// Writes `part` over the part of `tensor` that it covers.
void paste(Tensor& tensor, const Tensor& part);
// Adds up or merges `part` into the part of `tensor` that it covers, as the product does (ops/combine.h).
void combine(Combine rule, Tensor& tensor, const Tensor& part);
// The same numbers as another type of the same shape, rounded to what it can hold.
Tensor convert(const Tensor& tensor, DType dtype);

// ‖a − b‖₂ / ‖b‖₂ over the same box; infinite where either has a NaN or an infinity. Where `whole` is given, b is a part of it and
// counts as at least as large as an average part of that size: the rounding of a sum is relative to its terms, which may cancel in
// a small part.
double relative_error(const Tensor& a, const Tensor& b, const Tensor* whole = nullptr);

// A set of kernels in one precision and one layout.
struct Backend {
  std::string name;
  const KernelTable* kernels = nullptr;
  DType dtype = DType::f32;
  StorageRule storage;
  double box_tolerance = 1e-5;
  // False for a layout the backend does not use on this machine by itself: an op that it refuses there is passed over.
  bool every_op = true;
  // Of a card: where its memory is. Otherwise kernels read and write the host's.
  outsize::Backend* device = nullptr;
  // How far a product of f32 factors may be off, relative: more where a card rounds the factors.
  double tolerance = 1e-5;
  // Block programs run from the last block and thread to the first: what depends on their order differs.
  bool backwards = false;
};

// Everything that is checked; where OUTSIZE_TEST_CARD is set (to f32 or tf32), the card and nothing else.
const std::vector<Backend>& backends();
// Block programs for TF32 as loops of the host, in both orders: for folders that have own ones (subject.cpp). None where the card
// is checked.
const std::vector<Backend>& tf32_backends();
// Plain loops in f64: what everything is checked against.
const Backend& exact_backend();

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

// The outputs of one call from the boxes of its inputs. What the kernel may not do is reported as a test failure.
std::vector<Tensor> run_op(const Backend& backend, const OpSite& site, const std::vector<Tensor>& inputs,
                           const Invocation& invocation);
// The same, from whole inputs that are cropped to the call's boxes.
std::vector<Tensor> run_cropped(const Backend& backend, const OpSite& site, const std::vector<Tensor>& whole_inputs,
                                const Invocation& invocation);

// Whether the backend has a kernel for the op on whole values; true without trying where it must have.
bool offers(const Backend& backend, const OpSite& site);

}  // namespace outsize::test
