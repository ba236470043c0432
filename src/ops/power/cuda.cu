#include "ops/cuda/map.h"

// y = x^p and dx = dy · e · x^(e - 1): one table of powers, the common ones without logarithms.
namespace outsize::OUTSIZE_PLACE {
namespace {

struct Square {
  OUTSIZE_BOTH static float apply(float x, float) { return x * x; }
};
struct Cube {
  OUTSIZE_BOTH static float apply(float x, float) { return x * x * x; }
};
struct Self {
  OUTSIZE_BOTH static float apply(float x, float) { return x; }
};
struct One {
  OUTSIZE_BOTH static float apply(float, float) { return 1.0f; }
};
struct Root {
  OUTSIZE_BOTH static float apply(float x, float) { return sqrtf(x); }
};
struct InverseRoot {
  OUTSIZE_BOTH static float apply(float x, float) { return 1.0f / sqrtf(x); }
};
struct Inverse {
  OUTSIZE_BOTH static float apply(float x, float) { return 1.0f / x; }
};
struct InverseSquare {
  OUTSIZE_BOTH static float apply(float x, float) { return 1.0f / (x * x); }
};
struct Integer {
  OUTSIZE_BOTH static float apply(float x, float p) { return powf(x, p); }
};
// Of x < 0 there is no power, not of −∞ either.
struct Fraction {
  OUTSIZE_BOTH static float apply(float x, float p) { return x < 0 ? NAN : powf(x, p); }
};

template <class Rule>
struct Power : WithoutFactors {
  static constexpr int kInputs = 1;
  float p;
  explicit Power(const OpSite& site) : p(static_cast<float>(site.number("exponent"))) {}
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return Rule::apply(x[0], p); }
};

// From dy and x.
template <class Rule>
struct PowerGrad : WithoutFactors {
  static constexpr int kInputs = 2;
  float e, p;
  explicit PowerGrad(const OpSite& site)
      : e(static_cast<float>(site.number("exponent"))), p(static_cast<float>(site.number("exponent") - 1)) {}
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return x[0] * (e * Rule::apply(x[1], p)); }
};

// The kernel F<rule for the power p>.
template <template <class> class F>
std::unique_ptr<Kernel> make_power_of(double p, const Call& call, const StorageRule& storage) {
  if (p == 2) return map_kernel<F<Square>>(call, storage);
  if (p == 3) return map_kernel<F<Cube>>(call, storage);
  if (p == 1) return map_kernel<F<Self>>(call, storage);
  if (p == 0) return map_kernel<F<One>>(call, storage);
  if (p == 0.5) return map_kernel<F<Root>>(call, storage);
  if (p == -0.5) return map_kernel<F<InverseRoot>>(call, storage);
  if (p == -1) return map_kernel<F<Inverse>>(call, storage);
  if (p == -2) return map_kernel<F<InverseSquare>>(call, storage);
  return p == std::nearbyint(p) ? map_kernel<F<Integer>>(call, storage) : map_kernel<F<Fraction>>(call, storage);
}

std::unique_ptr<Kernel> make_power(const Call& call, const StorageRule& storage) {
  return make_power_of<Power>(call.site.number("exponent"), call, storage);
}

// A constant (exponent 0) has the gradient 0 everywhere.
std::unique_ptr<Kernel> make_power_grad(const Call& call, const StorageRule& storage) {
  const double e = call.site.number("exponent");
  return e == 0 ? make_zeros(call, storage) : make_power_of<PowerGrad>(e - 1, call, storage);
}

}  // namespace

void cuda_power(KernelTable& table) {
  table.add("power", make_power);
  table.add("power_grad", make_power_grad);
}

}  // namespace outsize::OUTSIZE_PLACE
