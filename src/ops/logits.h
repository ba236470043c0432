#pragma once

#include "ops/expect.h"

namespace outsize {

// Logits as losses and metrics read them: plain [..., K] or a map [N, K, ...], with one label (plain i32) for each row or position.

inline constexpr int kLogits = 0, kLabels = 1;  // the first two inputs

// Coordinates of logits without the one of the class.
inline Dims without_class(const ValueType& logits, const Dims& dims) {
  Dims rest;
  for (int i = 0; i < dims.rank(); ++i)
    if (i != class_dim(logits)) rest.push_back(dims[i]);
  return rest;
}

// Throws UserError unless inputs 0 and 1 are logits and their labels.
inline void expect_logits_and_labels(const OpSite& site) {
  expect_float(site, kLogits);
  const ValueType& logits = site.in(kLogits);
  if (logits.shape.rank() < 2) user_error("input logits must be plain [..., K] or a map [N, K, ...], found {}", to_string(logits));
  expect_type(site, kLabels, {DType::i32, without_class(logits, logits.shape), Format::plain}, "one label a row of logits");
}

// All classes of the rows of `box`, a box of logits.
inline Box logits_box(const OpSite& site, Box box) {
  const int dim = class_dim(site.in(kLogits));
  box.set(dim, {0, site.in(kLogits).shape[dim]});
  return box;
}

// Their labels.
inline Box labels_box(const OpSite& site, const Box& box) {
  return {without_class(site.in(kLogits), box.lo), without_class(site.in(kLogits), box.hi)};
}

}  // namespace outsize
