#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "base/philox.h"
#include "ops/attention/attention.h"
#include "ops/dropout/dropout.h"
#include "ops/reference_support.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// Scores and dropout of single weights, at global coordinates.
template <class T>
class Weights {
 public:
  Weights(const ReferenceCall& call, const AttentionShape& shape, int q) : shape_(shape), q_(call.in<T>(q)), k_(call.in<T>(q + 1)) {
    if (shape.mask >= 0) mask_.emplace(call.in<T>(shape.mask));
    if (shape.key >= 0) {
      const View<const std::int32_t> key = call.in<std::int32_t>(shape.key);
      for (std::int64_t i = 0; i < 4; ++i) key_[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(key(i));
    }
  }

  // scale · q·k + mask
  T score(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    T sum{0};
    for (std::int64_t d = h * shape_.width; d < (h + 1) * shape_.width; ++d) sum += q_(b, i, d) * k_(b, j, d);
    sum *= static_cast<T>(shape_.scale);
    if (!mask_) return sum;
    const auto at = [&](int dim, std::int64_t coordinate) { return mask_->range(dim) == Interval{0, 1} ? 0 : coordinate; };
    return sum + (*mask_)(at(0, b), at(1, h), at(2, i), j);
  }

  // 0 or 1 / (1 − p): what dropout multiplies the weight by.
  T factor(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    if (shape_.key < 0) return T{1};
    const auto place = static_cast<std::uint64_t>(shape_.place(b, h, i) + j);
    const std::uint64_t block = place / 4;
    const std::array<std::uint32_t, 4> words = philox(
        {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), shape_.stream, key_[2]}, {key_[0], key_[1]});
    return words[place % 4] >= dropout_threshold(shape_.dropout) ? static_cast<T>(1 / (1 - shape_.dropout)) : T{0};
  }

 private:
  const AttentionShape& shape_;
  View<const T> q_;
  View<const T> k_;
  std::optional<View<const T>> mask_;
  std::array<std::uint32_t, 4> key_{};
};

void attention(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const AttentionShape shape = attention_shape(call.site());
    const Weights<T> weights(call, shape, 0);
    const View<const T> v = call.in<T>(2);
    const View<T> y = call.out<T>(0);
    const View<T> lse = call.out<T>(1);
    y.clear();
    std::vector<T> score(static_cast<std::size_t>(shape.keys));
    lse.for_each([&](const Dims& p) {
      const std::int64_t b = p[0], h = p[1], i = p[2], keys = shape.keys_of(i);
      constexpr T kNothing = -std::numeric_limits<T>::infinity();
      T most = kNothing;
      bool masked = true;  // every key: a score that is NaN is not
      for (std::int64_t j = 0; j < keys; ++j) {
        const T own = score[static_cast<std::size_t>(j)] = weights.score(b, h, i, j);
        most = std::max(most, own);
        masked = masked && own == kNothing;
      }
      lse[p] = T{0};
      if (masked) return;
      T sum{0};
      for (std::int64_t j = 0; j < keys; ++j) sum += std::exp(score[static_cast<std::size_t>(j)] - most);
      for (std::int64_t j = 0; j < keys; ++j) {
        const T weight = std::exp(score[static_cast<std::size_t>(j)] - most) / sum * weights.factor(b, h, i, j);
        for (std::int64_t d = h * shape.width; d < (h + 1) * shape.width; ++d) y(b, i, d) += weight * v(b, j, d);
      }
      lse[p] = most + std::log(sum);
    });
  });
}

// With P the weights, F dropout's factors and D_i = dy_i · y_i (Dao et al. 2022, B.4):
// dv = (P ∘ F)ᵀ dy, dS = P ∘ (F ∘ dy vᵀ − D), dq = scale · dS k, dk = scale · dSᵀ q.
void attention_grad(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const AttentionShape shape = attention_grad_shape(call.site());
    const Weights<T> weights(call, shape, 1);
    const View<const T> dy = call.in<T>(0), q = call.in<T>(1), k = call.in<T>(2), v = call.in<T>(3), y = call.in<T>(4);
    const View<const T> lse = call.in<T>(5);
    const View<T> dq = call.out<T>(0), dk = call.out<T>(1), dv = call.out<T>(2);
    dq.clear();
    dk.clear();
    dv.clear();
    const T scale = static_cast<T>(shape.scale);
    lse.for_each([&](const Dims& p) {
      const std::int64_t b = p[0], h = p[1], i = p[2], lo = h * shape.width, hi = lo + shape.width;
      T mean{0};
      for (std::int64_t d = lo; d < hi; ++d) mean += dy(b, i, d) * y(b, i, d);
      for (std::int64_t j = 0; j < shape.keys_of(i); ++j) {
        const T weight = std::exp(weights.score(b, h, i, j) - lse[p]);
        const T factor = weights.factor(b, h, i, j);
        T product{0};
        for (std::int64_t d = lo; d < hi; ++d) product += dy(b, i, d) * v(b, j, d);
        const T ds = scale * weight * (factor * product - mean);
        for (std::int64_t d = lo; d < hi; ++d) {
          dv(b, j, d) += weight * factor * dy(b, i, d);
          dq(b, i, d) += ds * k(b, j, d);
          dk(b, j, d) += ds * q(b, i, d);
        }
      }
    });
  });
}

}  // namespace

void reference_attention(KernelTable& table) {
  table.add("attention", reference_kernel<attention>);
  table.add("attention_grad", reference_kernel<attention_grad>);
}

}  // namespace outsize
