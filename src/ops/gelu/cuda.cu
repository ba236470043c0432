#include "ops/cuda/map.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// The standard normal distribution: the probability of less than x. By erfc, so that it keeps its digits where x is far below 0.
OUTSIZE_BOTH inline float probability_below(float x) { return 0.5f * erfcf(-0.707106781f * x); }

struct Gelu : WithoutFactors {
  static constexpr int kInputs = 1;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return x[0] * probability_below(x[0]); }
};

// From dy and x.
struct GeluGrad : WithoutFactors {
  static constexpr int kInputs = 2;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const {
    const float density = 0.398942280f * expf(-0.5f * x[1] * x[1]);
    return x[0] * (probability_below(x[1]) + x[1] * density);
  }
};

// With u = √(2/π) (x + 0.044715 x³), (1 + tanh u) / 2 is the sigmoid of 2u.
OUTSIZE_BOTH inline float sigmoid_of_tanh_form(float x) {
  return 1.0f / (1.0f + expf(-x * (1.59576912f + 0.0713548163f * (x * x))));
}

struct GeluTanh : WithoutFactors {
  static constexpr int kInputs = 1;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return x[0] * sigmoid_of_tanh_form(x[0]); }
};

// From dy and x.
struct GeluTanhGrad : WithoutFactors {
  static constexpr int kInputs = 2;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const {
    const float s = sigmoid_of_tanh_form(x[1]);
    const float slope = 1.59576912f + 0.214064449f * (x[1] * x[1]);
    return x[0] * (s + x[1] * slope * (s * (1.0f - s)));
  }
};

template <class Exact, class ByTanh>
std::unique_ptr<Kernel> make_gelu(const Call& call, const StorageRule& storage) {
  return call.site.word("approximate") == "tanh" ? map_kernel<ByTanh>(call, storage) : map_kernel<Exact>(call, storage);
}

}  // namespace

void cuda_gelu(KernelTable& table) {
  table.add("gelu", make_gelu<Gelu, GeluTanh>);
  table.add("gelu_grad", make_gelu<GeluGrad, GeluTanhGrad>);
}

}  // namespace outsize::OUTSIZE_PLACE
