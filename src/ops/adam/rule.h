#pragma once

#include <cmath>

#include "ops/both.h"
#include "ops/optimizer.h"

namespace outsize {

// The attributes of an adam op.
struct AdamAttributes {
  double beta1, beta2, eps, weight_decay;
  bool decoupled;

  explicit AdamAttributes(const OpSite& site)
      : beta1(site.number("beta1")),
        beta2(site.number("beta2")),
        eps(site.number("eps")),
        weight_decay(site.number("weight_decay")),
        decoupled(site.integer("decoupled") != 0) {}
};

// Throws UserError unless the step counts from 1: the bias corrections would divide by 0. A card cannot look, and gives parameters
// there that are not finite.
inline std::int64_t expect_adam_step(std::int64_t step) {
  if (step < 1) user_error("adam: steps count from 1, found step {}", step);
  return step;
}

// The numbers of one step of Adam, the same for every element; worked out in double, as PyTorch does, and then used in T:
//   g  = factor · grad + decay · p      m' = beta1 · m + rest1 · g      v' = beta2 · v + rest2 · g²
//   p' = keep · p - rate · m' / (√v' · root + eps)
template <class T>
struct AdamRule {
  T beta1, rest1, beta2, rest2, eps;
  T decay, keep, rate, root;
  T factor;

  OUTSIZE_BOTH AdamRule(const AdamAttributes& attributes, double lr, std::int64_t step, T clip_factor)
      : beta1(static_cast<T>(attributes.beta1)),
        rest1(static_cast<T>(1 - attributes.beta1)),
        beta2(static_cast<T>(attributes.beta2)),
        rest2(static_cast<T>(1 - attributes.beta2)),
        eps(static_cast<T>(attributes.eps)),
        decay(static_cast<T>(attributes.decoupled ? 0 : attributes.weight_decay)),
        keep(static_cast<T>(attributes.decoupled ? multiply_add(-lr, attributes.weight_decay, 1.0) : 1)),
        rate(static_cast<T>(lr / (1 - std::pow(attributes.beta1, static_cast<double>(step))))),
        root(static_cast<T>(1 / std::sqrt(1 - std::pow(attributes.beta2, static_cast<double>(step))))),
        factor(clip_factor) {}

  OUTSIZE_BOTH T gradient(T param, T grad) const { return multiply_add(decay, param, factor * grad); }
  OUTSIZE_BOTH T next_m(T m, T g) const { return multiply_add(beta1, m, rest1 * g); }
  OUTSIZE_BOTH T next_v(T v, T g) const { return multiply_add(beta2, v, rest2 * g * g); }
  OUTSIZE_BOTH T next_param(T param, T next_m, T next_v) const {
    return multiply_add(keep, param, -(rate * next_m / multiply_add(std::sqrt(next_v), root, eps)));
  }
};

}  // namespace outsize
