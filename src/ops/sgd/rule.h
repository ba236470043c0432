#pragma once

#include "ops/both.h"
#include "ops/optimizer.h"

namespace outsize {

// The numbers of one step of gradient descent, the same for every element, and what a step does to one.
template <class T>
struct SgdRule {
  T momentum, weight_decay;
  T lr = 0, factor = 1;  // of the step

  explicit SgdRule(const OpSite& site)
      : momentum(static_cast<T>(site.number("momentum"))), weight_decay(static_cast<T>(site.number("weight_decay"))) {}

  OUTSIZE_BOTH T gradient(T param, T grad) const { return multiply_add(weight_decay, param, factor * grad); }
  OUTSIZE_BOTH T next_buffer(T buffer, T gradient) const { return multiply_add(momentum, buffer, gradient); }
  OUTSIZE_BOTH T next_param(T param, T gradient) const { return multiply_add(-lr, gradient, param); }
  OUTSIZE_BOTH T nesterov_gradient(T gradient, T next_buffer) const { return multiply_add(momentum, next_buffer, gradient); }
};

}  // namespace outsize
