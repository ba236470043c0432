#include "ops/reference_support.h"
#include "ops/registry.h"

namespace outsize {
namespace {

constexpr std::int64_t kCount = 0, kMean = 1, kM2 = 2;  // rows of stats
constexpr std::int64_t kMomentMean = 0, kInvStd = 1;    // rows of moments
constexpr std::int64_t kSum = 0, kSumNormalized = 1;    // rows of sums
constexpr int kChannelDim = 1;

// The columns of statistics.
struct Columns {
  Columns(const OpSite& site, const Dims& map)
      : channels(map[kChannelDim]),
        groups(site.integer("groups")),
        width(channels / groups),
        group_size(map.product() / map[0] / groups) {}
  std::int64_t group(const Dims& at) const { return at[0] * groups + at[kChannelDim] / width; }
  std::int64_t channel(const Dims& at) const { return at[0] * channels + at[kChannelDim]; }

  std::int64_t channels;
  std::int64_t groups;      // of a sample
  std::int64_t width;       // channels of a group
  std::int64_t group_size;  // elements of a group
};

void stats(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto x = call.in<T>(0);
    const auto stats = call.out<double>(0);
    const Columns columns(call.site(), call.in_type(0).shape);
    stats.clear();
    x.for_each([&](const Dims& at) {
      stats(kCount, columns.group(at)) += 1;
      stats(kMean, columns.group(at)) += x[at];
    });
    for (std::int64_t g = 0; g < call.out_type(0).shape[1]; ++g)
      if (stats(kCount, g) > 0) stats(kMean, g) /= stats(kCount, g);
    x.for_each([&](const Dims& at) {
      const double deviation = x[at] - stats(kMean, columns.group(at));
      stats(kM2, columns.group(at)) += deviation * deviation;
    });
  });
}

void apply(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto x = call.in<T>(0);
    const auto moments = call.in<double>(1);
    const auto y = call.out<T>(0);
    const Columns columns(call.site(), call.in_type(0).shape);
    const bool relu = call.site().word("activation") == "relu";
    y.for_each([&](const Dims& at) {
      const std::int64_t c = at[kChannelDim];
      double value = (x[at] - moments(kMomentMean, columns.group(at))) * moments(kInvStd, columns.group(at));
      if (call.has_in(2)) value *= call.in<T>(2)(c);
      if (call.has_in(3)) value += call.in<T>(3)(c);
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
    const auto sums = call.out<double>(0);
    const Columns columns(call.site(), call.in_type(0).shape);
    sums.clear();
    dy.for_each([&](const Dims& at) {
      const double normalized = (x[at] - moments(kMomentMean, columns.group(at))) * moments(kInvStd, columns.group(at));
      sums(kSum, columns.channel(at)) += dy[at];
      sums(kSumNormalized, columns.channel(at)) += dy[at] * normalized;
    });
  });
}

void grad_apply(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto dy = call.in<T>(0);
    const auto x = call.in<T>(1);
    const auto moments = call.in<double>(2);
    const auto sums = call.in<double>(3);
    const auto dx = call.out<T>(0);
    const Columns columns(call.site(), call.in_type(0).shape);
    const auto gamma = [&](std::int64_t c) { return call.has_in(4) ? static_cast<double>(call.in<T>(4)(c)) : 1.0; };
    // The mean over a group of gamma times a row of the sums.
    const auto mean = [&](std::int64_t row, const Dims& at) {
      const std::int64_t first = at[kChannelDim] / columns.width * columns.width;
      double sum = 0;
      for (std::int64_t c = first; c < first + columns.width; ++c) sum += gamma(c) * sums(row, at[0] * columns.channels + c);
      return sum / static_cast<double>(columns.group_size);
    };
    dx.for_each([&](const Dims& at) {
      const double inv_std = moments(kInvStd, columns.group(at));
      double value = gamma(at[kChannelDim]) * dy[at];
      if (holds(call.owned(), at)) {
        const double normalized = (x[at] - moments(kMomentMean, columns.group(at))) * inv_std;
        value -= mean(kSum, at) + normalized * mean(kSumNormalized, at);
      }
      dx[at] = static_cast<T>(inv_std * value);
    });
    dx.clear_padding();
  });
}

void grad_params(const ReferenceCall& call) {
  dispatch(call.out_type(0).dtype, [&]<class T>() {
    const auto sums = call.in<double>(0);
    const auto dgamma = call.out<T>(0);
    const auto dbeta = call.out<T>(1);
    const std::int64_t channels = call.out_type(0).shape[0];
    for (std::int64_t c = 0; c < channels; ++c) {
      double normalized = 0, total = 0;
      for (std::int64_t i = c; i < call.in_type(0).shape[1]; i += channels) {
        normalized += sums(kSumNormalized, i);
        total += sums(kSum, i);
      }
      dgamma(c) = static_cast<T>(normalized);
      dbeta(c) = static_cast<T>(total);
    }
  });
}

}  // namespace

void reference_group_norm(KernelTable& table) {
  table.add("group_norm_stats", reference_kernel<stats>);
  table.add("group_norm_apply", reference_kernel<apply>);
  table.add("group_norm_grad_stats", reference_kernel<grad_stats>);
  table.add("group_norm_grad_apply", reference_kernel<grad_apply>);
  table.add("group_norm_grad_params", reference_kernel<grad_params>);
}

}  // namespace outsize
