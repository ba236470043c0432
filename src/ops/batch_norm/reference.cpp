#include <cmath>

#include "ops/reference_support.h"

namespace outsize {
namespace {

constexpr std::int64_t kCount = 0, kMean = 1, kM2 = 2;  // rows of stats
constexpr std::int64_t kMomentMean = 0, kInvStd = 1;    // rows of moments
constexpr std::int64_t kSum = 0, kSumNormalized = 1;    // rows of sums
constexpr int kChannelDim = 1;

// The part of a box that lies in one channel.
Box channel_of(Box box, std::int64_t channel) {
  box.set(kChannelDim, {channel, channel + 1});
  return box;
}

void stats(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto x = call.in<T>(0);
    const auto stats = call.out<double>(0);
    stats.clear();
    if (x.empty()) return;
    for (std::int64_t c = x.range(kChannelDim).lo; c < x.range(kChannelDim).hi; ++c) {
      const Box channel = channel_of(x.box(), c);
      const double count = static_cast<double>(channel.elements());
      double sum = 0;
      for_each_position(channel, [&](const Dims& at) { sum += x[at]; });
      const double mean = sum / count;
      double m2 = 0;
      for_each_position(channel, [&](const Dims& at) { m2 += (x[at] - mean) * (x[at] - mean); });
      stats(kCount, c) = count;
      stats(kMean, c) = mean;
      stats(kM2, c) = m2;
    }
  });
}

void finalize(const ReferenceCall& call) {
  const auto stats = call.in<double>(0);
  const auto moments = call.out<double>(0);
  const double eps = call.site().number("eps");
  for (std::int64_t c = 0; c < call.in_type(0).shape[1]; ++c) {
    moments(kMomentMean, c) = stats(kMean, c);
    moments(kInvStd, c) = 1 / std::sqrt(stats(kM2, c) / stats(kCount, c) + eps);
  }
}

void running(const ReferenceCall& call) {
  const auto moments = call.out<double>(0);
  const double eps = call.site().number("eps");
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto mean = call.in<T>(0);
    const auto var = call.in<T>(1);
    for (std::int64_t c = 0; c < call.in_type(0).shape[0]; ++c) {
      moments(kMomentMean, c) = static_cast<double>(mean(c));
      moments(kInvStd, c) = 1 / std::sqrt(static_cast<double>(var(c)) + eps);
    }
  });
}

void update(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto mean = call.in<T>(0);
    const auto var = call.in<T>(1);
    const auto stats = call.in<double>(2);
    const auto new_mean = call.out<T>(0);
    const auto new_var = call.out<T>(1);
    const double momentum = call.site().number("momentum");
    for (std::int64_t c = 0; c < call.in_type(0).shape[0]; ++c) {
      const double unbiased = stats(kM2, c) / (stats(kCount, c) - 1);
      new_mean(c) = static_cast<T>((1 - momentum) * mean(c) + momentum * stats(kMean, c));
      new_var(c) = static_cast<T>((1 - momentum) * var(c) + momentum * unbiased);
    }
  });
}

// Whether a relu lets the gradient of a norm's element through. Where the norm is NaN it passes.
bool passes(double normalized, double gamma, double beta) { return !(normalized * gamma + beta <= 0); }

void apply(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto x = call.in<T>(0);
    const auto moments = call.in<double>(1);
    const auto gamma = call.in<T>(2);
    const auto beta = call.in<T>(3);
    const bool has_residual = call.has_in(4);
    const auto residual = call.in<T>(has_residual ? 4 : 0);
    const auto y = call.out<T>(0);
    const bool relu = call.site().word("activation") == "relu";
    y.for_each([&](const Dims& at) {
      const std::int64_t c = at[kChannelDim];
      const double normalized = (x[at] - moments(kMomentMean, c)) * moments(kInvStd, c);
      double value = normalized * gamma(c) + beta(c);
      if (has_residual) value += residual[at];
      y[at] = static_cast<T>(relu && value < 0 ? 0 : value);
    });
    y.clear_padding();
  });
}

void grad_stats(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto dy = call.in<T>(0);
    const auto x = call.in<T>(1);
    const auto moments = call.in<double>(2);
    const bool gated = call.has_in(4);
    const auto gamma = call.in<T>(gated ? 3 : 0);
    const auto beta = call.in<T>(gated ? 4 : 0);
    const auto sums = call.out<double>(0);
    sums.clear();
    dy.for_each([&](const Dims& at) {
      const std::int64_t c = at[kChannelDim];
      const double normalized = (x[at] - moments(kMomentMean, c)) * moments(kInvStd, c);
      const double passed = gated && !passes(normalized, gamma(c), beta(c)) ? 0 : dy[at];
      sums(kSum, c) += passed;
      sums(kSumNormalized, c) += passed * normalized;
    });
  });
}

void grad_apply(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto dy = call.in<T>(0);
    const auto x = call.in<T>(1);
    const auto moments = call.in<double>(2);
    const auto sums = call.in<double>(3);
    const auto gamma = call.in<T>(4);
    const bool gated = call.has_in(5);
    const auto beta = call.in<T>(gated ? 5 : 4);
    const auto dx = call.out<T>(0);
    const Dims& shape = call.in_type(0).shape;
    const double count = static_cast<double>(shape.product() / shape[kChannelDim]);
    dx.for_each([&](const Dims& at) {
      const std::int64_t c = at[kChannelDim];
      const double inv_std = moments(kInvStd, c);
      const double normalized = (x[at] - moments(kMomentMean, c)) * inv_std;
      double value = gated && !passes(normalized, gamma(c), beta(c)) ? 0 : dy[at];
      if (holds(call.owned(), at)) {
        value -= (sums(kSum, c) + normalized * sums(kSumNormalized, c)) / count;
      }
      dx[at] = static_cast<T>(gamma(c) * inv_std * value);
    });
    dx.clear_padding();
  });
}

void grad_params(const ReferenceCall& call) {
  dispatch(call.out_type(0).dtype, [&]<class T>() {
    const auto sums = call.in<double>(0);
    const auto dgamma = call.out<T>(0);
    const auto dbeta = call.out<T>(1);
    for (std::int64_t c = 0; c < call.out_type(0).shape[0]; ++c) {
      dgamma(c) = static_cast<T>(sums(kSumNormalized, c));
      dbeta(c) = static_cast<T>(sums(kSum, c));
    }
  });
}

}  // namespace

void reference_batch_norm(KernelTable& table) {
  table.add("batch_norm_stats", reference_kernel<stats>);
  table.add("batch_norm_finalize", reference_kernel<finalize>);
  table.add("batch_norm_running", reference_kernel<running>);
  table.add("batch_norm_update", reference_kernel<update>);
  table.add("batch_norm_apply", reference_kernel<apply>);
  table.add("batch_norm_grad_stats", reference_kernel<grad_stats>);
  table.add("batch_norm_grad_apply", reference_kernel<grad_apply>);
  table.add("batch_norm_grad_params", reference_kernel<grad_params>);
}

}  // namespace outsize
