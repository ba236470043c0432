#pragma once

#include <string>
#include <vector>

#include "check/call.h"

// The driver's calls (src/check): what a kernel may not do is reported as a test failure.
namespace outsize::test {

using checks::convert;
using checks::crop;
using checks::invocation;
using checks::Invocation;
using checks::offers;
using checks::relative_error;
using checks::Tensor;
using checks::whole;

// What is checked.
struct Backend : checks::Kernels {
  // Block programs run from the last block and thread to the first: what depends on their order differs.
  bool backwards = false;
};

// Writes `part` over the part of `tensor` that it covers.
void paste(Tensor& tensor, const Tensor& part);
// Adds up or merges `part` into the part of `tensor` that it covers, as the product does (ops/combine.h).
void combine(Combine rule, Tensor& tensor, const Tensor& part);

// Everything that is checked; where OUTSIZE_TEST_CARD is set (to f32 or tf32), the card and nothing else.
const std::vector<Backend>& backends();
// Block programs for TF32 as loops of the host, in both orders: for folders that have own ones (subject.cpp). None where the card
// is checked.
const std::vector<Backend>& tf32_backends();
// Plain loops in f64: what everything is checked against.
const Backend& exact_backend();

// Reports a fault as a test failure.
void fail(const std::string& fault);
// Has block programs run in the backend's order.
void order_blocks(const Backend& backend);

// The outputs of one call from the boxes of its inputs.
std::vector<Tensor> run_op(const Backend& backend, const OpSite& site, const std::vector<Tensor>& inputs,
                           const Invocation& invocation);
// The same, from whole inputs that are cropped to the call's boxes.
std::vector<Tensor> run_cropped(const Backend& backend, const OpSite& site, const std::vector<Tensor>& whole_inputs,
                                const Invocation& invocation);

}  // namespace outsize::test
