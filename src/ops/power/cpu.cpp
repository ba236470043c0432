// Square roots that would set errno and divisions that might trap keep loops from being vectorized.
#pragma GCC optimize("no-math-errno", "no-trapping-math")

#include "ops/cpu_math.h"
#include "ops/cpu_pointwise.h"

// y = x^p and dx = dy · e · x^(e - 1): one table of powers, the common ones without logarithms. Factors: a is p, b is e.
namespace outsize {
namespace {

struct Square {
  OUTSIZE_INLINE static float apply(float x, float) { return x * x; }
};
struct Cube {
  OUTSIZE_INLINE static float apply(float x, float) { return x * x * x; }
};
struct Self {
  OUTSIZE_INLINE static float apply(float x, float) { return x; }
};
struct One {
  OUTSIZE_INLINE static float apply(float, float) { return 1.0f; }
};
struct Root {
  OUTSIZE_INLINE static float apply(float x, float) { return std::sqrt(x); }
};
struct InverseRoot {
  OUTSIZE_INLINE static float apply(float x, float) { return 1.0f / std::sqrt(x); }
};
struct Inverse {
  OUTSIZE_INLINE static float apply(float x, float) { return 1.0f / x; }
};
struct InverseSquare {
  OUTSIZE_INLINE static float apply(float x, float) { return 1.0f / (x * x); }
};
// Of x < 0 only where p is an integer: with the sign of x if it is odd.
struct Odd {
  OUTSIZE_INLINE static float apply(float x, float p) { return std::copysign(lane::power_of_size(x, static_cast<double>(p)), x); }
};
struct Even {
  OUTSIZE_INLINE static float apply(float x, float p) { return lane::power_of_size(x, static_cast<double>(p)); }
};
struct Fraction {
  OUTSIZE_INLINE static float apply(float x, float p) {
    const float power = lane::power_of_size(x, static_cast<double>(p));
    return x < 0 ? NAN : power;
  }
};

template <class Power>
OUTSIZE_INLINE void powers(const float* x, float* y, std::int64_t count, float p) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = Power::apply(x[i], p);
}

template <class Power>
OUTSIZE_INLINE void gradients(const float* dy, const float* x, float* dx, std::int64_t count, Factors factors) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) dx[i] = dy[i] * (factors.b * Power::apply(x[i], factors.a));
}

// The power as a type, so that `use` is compiled for each.
template <class Use>
OUTSIZE_INLINE void with_power(float p, const Use& use) {
  if (p == 2) return use.template operator()<Square>();
  if (p == 3) return use.template operator()<Cube>();
  if (p == 1) return use.template operator()<Self>();
  if (p == 0) return use.template operator()<One>();
  if (p == 0.5f) return use.template operator()<Root>();
  if (p == -0.5f) return use.template operator()<InverseRoot>();
  if (p == -1) return use.template operator()<Inverse>();
  if (p == -2) return use.template operator()<InverseSquare>();
  const bool integer = p == std::nearbyint(p);
  if (!integer) return use.template operator()<Fraction>();
  return std::fmod(p, 2.0f) != 0 ? use.template operator()<Odd>() : use.template operator()<Even>();
}

struct UsePower {
  const float* x;
  float* y;
  std::int64_t count;
  float p;
  template <class Power>
  OUTSIZE_INLINE void operator()() const {
    powers<Power>(x, y, count, p);
  }
};

struct UseGradient {
  const float* dy;
  const float* x;
  float* dx;
  std::int64_t count;
  Factors factors;
  template <class Power>
  OUTSIZE_INLINE void operator()() const {
    gradients<Power>(dy, x, dx, count, factors);
  }
};

OUTSIZE_CLONES void power(const float* x, float* y, std::int64_t count, Factors factors) {
  with_power(factors.a, UsePower{x, y, count, factors.a});
}

// A constant (exponent 0) has the gradient 0 everywhere.
OUTSIZE_CLONES void power_grad(const float* dy, const float* x, float* dx, std::int64_t count, Factors factors) {
  if (factors.b == 0)
    std::fill_n(dx, count, 0.0f);
  else
    with_power(factors.a, UseGradient{dy, x, dx, count, factors});
}

Factors exponent(const OpSite& site) { return {static_cast<float>(site.number("exponent"))}; }

Factors exponent_below(const OpSite& site) {
  const double e = site.number("exponent");
  return {static_cast<float>(e - 1), static_cast<float>(e)};
}

}  // namespace

void cpu_power(KernelTable& table) {
  table.add("power", make_padded_pointwise<power, exponent>);
  table.add("power_grad", make_padded_pointwise_grad<power_grad, exponent_below>);
}

}  // namespace outsize
