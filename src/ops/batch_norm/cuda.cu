#include "ops/batch_norm/norm.h"
#include "ops/cuda/each.h"
#include "ops/cuda/moments.h"
#include "ops/cuda/reduce.h"

// Statistics are whole values [rows, C]; the maps of a call may hold a range of the channels only, which begins at `first`.
namespace outsize::OUTSIZE_PLACE {
namespace {

constexpr int kResidual = 4;
constexpr int kChannelDim = 1;

// Rows count, mean and M2 of `channels` channels.
struct StatsEnd {
  double* stats;
  std::int64_t channels;
  OUTSIZE_BOTH void finish(int channel, const MomentsPartial& partial) const {
    stats[channel] = partial.count;
    stats[channels + channel] = partial.mean;
    stats[2 * channels + channel] = partial.m2;
  }
};

struct Finalize {
  const double* stats;
  double* moments;
  std::int64_t channels;
  double eps;
  OUTSIZE_BOTH void operator()(std::int64_t c) const {
    moments[c] = stats[channels + c];
    moments[channels + c] = 1 / sqrt(stats[2 * channels + c] / stats[c] + eps);
  }
};

struct Running {
  const float* mean;
  const float* var;
  double* moments;
  std::int64_t channels;
  double eps;
  OUTSIZE_BOTH void operator()(std::int64_t c) const {
    moments[c] = mean[c];
    moments[channels + c] = 1 / sqrt(static_cast<double>(var[c]) + eps);
  }
};

struct Update {
  const float* mean;
  const float* var;
  const double* stats;
  float* new_mean;
  float* new_var;
  std::int64_t channels;
  double momentum;
  OUTSIZE_BOTH void operator()(std::int64_t c) const {
    const double unbiased = stats[2 * channels + c] / (stats[c] - 1);
    new_mean[c] = static_cast<float>((1 - momentum) * mean[c] + momentum * stats[channels + c]);
    new_var[c] = static_cast<float>((1 - momentum) * var[c] + momentum * unbiased);
  }
};

// Forward and backward both work y out here, so that backward finds the signs that forward found.
OUTSIZE_BOTH float normalized(float x, const NormFactors& norm) { return (x - norm.mean) * norm.scale + norm.shift; }
// What a relu after the norm lets through of dy. Where the norm is NaN it passes.
OUTSIZE_BOTH float passed(float dy, float x, const NormFactors& norm) { return normalized(x, norm) <= 0 ? 0.0f : dy; }

// A norm's moments, gamma and beta, of which a call has the channels from `first` on. `beta` may be null where no relu follows.
struct Norm {
  const double* moments;
  const float* gamma;
  const float* beta;
  std::int64_t channels, first;
  OUTSIZE_BOTH NormFactors factors(int channel) const {
    const std::int64_t c = first + channel;
    return norm_factors(moments[c], moments[channels + c], gamma[c], beta == nullptr ? 0.0f : beta[c]);
  }
};

template <bool kHasResidual, bool kRelu>
struct Apply : Norm {
  static constexpr int kInputs = kHasResidual ? 2 : 1;
  using Factors = NormFactors;

  OUTSIZE_BOTH float operator()(const float* x, const Factors& factors) const {
    float y = normalized(x[0], factors);
    if (kHasResidual) y += x[1];
    return kRelu && y < 0 ? 0.0f : y;
  }
};

struct GradStats : GradSumsReduction {
  const double* mean;
  explicit GradStats(const Norm& norm) : mean(norm.moments + norm.first) {}
  OUTSIZE_BOTH Factors factors(int channel) const { return {static_cast<float>(mean[channel])}; }
};

// Of what a relu after the norm lets through of dy.
struct GatedGradStats : Norm {
  static constexpr int kInputs = 2;
  using Factors = NormFactors;
  using Partial = GradSums;
  struct Run : GradSumsReduction::Run {
    OUTSIZE_BOTH void add(const float* x, const Factors& factors) {
      const float gated[]{passed(x[0], x[1], factors), x[1]};
      GradSumsReduction::Run::add(gated, {factors.mean});
    }
  };
  explicit GatedGradStats(const Norm& norm) : Norm(norm) {}
};

struct GradStatsEnd {
  double* sums;
  const double* moments;  // both from the first channel of the call on
  std::int64_t channels;
  OUTSIZE_BOTH void finish(int c, const GradSums& found) const {
    sums[c] = found.total;
    sums[channels + c] = found.normalized(moments[c], moments[channels + c]);
  }
};

// dx = scale · dy − (shift + (x − mean) · slope); the second term, which stands for the whole batch, inside the owned box only.
// Gated: of what a relu after the norm lets through of dy.
template <bool kOwnsAll, bool kGated>
struct GradApply {
  static constexpr int kInputs = 2;
  struct Factors {
    NormFactors norm;
    float shift, slope;
  };
  Norm norm;
  const double* sums;
  double count;  // elements a channel of the whole value
  OwnedBox owned;

  OUTSIZE_BOTH Factors factors(int channel) const {
    const std::int64_t c = norm.first + channel;
    const double mean = norm.moments[c], inv_std = norm.moments[norm.channels + c], scale = inv_std * norm.gamma[c];
    const double slope = scale * sums[norm.channels + c] * inv_std / count;
    const NormFactors own = norm.factors(channel);
    return {own, static_cast<float>(scale * sums[c] / count + (own.mean - mean) * slope), static_cast<float>(slope)};
  }
  OUTSIZE_BOTH float operator()(const float* x, const Factors& f) const requires kOwnsAll {
    return own_term(x, f) - batch_term(x, f);
  }
  OUTSIZE_BOTH float operator()(const float* x, const Factors& f, Place place) const requires(!kOwnsAll) {
    return owned.holds(place) ? own_term(x, f) - batch_term(x, f) : own_term(x, f);
  }

 private:
  static OUTSIZE_BOTH float own_term(const float* x, const Factors& f) {
    return f.norm.scale * (kGated ? passed(x[0], x[1], f.norm) : x[0]);
  }
  static OUTSIZE_BOTH float batch_term(const float* x, const Factors& f) { return f.shift + (x[1] - f.norm.mean) * f.slope; }
};

struct GradParams {
  const double* sums;
  float* dgamma;
  float* dbeta;
  std::int64_t channels;
  OUTSIZE_BOTH void operator()(std::int64_t c) const {
    dgamma[c] = static_cast<float>(sums[channels + c]);
    dbeta[c] = static_cast<float>(sums[c]);
  }
};

// A reduction of the maps of a call to a statistic [rows, C], of which channels that the call has not are zeros.
template <class A, class Run>
std::unique_ptr<Kernel> make_statistic(const Call& call, const StorageRule& storage, Run run) {
  expect_card_call(call, storage);
  if (has_empty_input(call)) return make_zeros(call, storage);
  const ReduceShape shape{1, input_sheet(call, 0), 1};
  const std::int64_t channels = call.site.in(0).shape[kChannelDim], bytes = call.site.out(0).elements() * size_of(DType::f64);
  return make_kernel("reduce", reduce_workspace<A>(shape), [=](const KernelRun& kernel_run) {
    if (shape.sheet.channels < channels) fill_zero(kernel_run.out[0], bytes, kernel_run.queue);
    run(kernel_run, shape, channels, kernel_run.in_boxes[0].lo[kChannelDim]);
  });
}

std::unique_ptr<Kernel> make_stats(const Call& call, const StorageRule& storage) {
  return make_statistic<
      Moments>(call, storage, [](const KernelRun& run, const ReduceShape& shape, std::int64_t channels, std::int64_t first) {
    run_reduce(Moments(), StatsEnd{out<double>(run, 0) + first, channels}, {in<float>(run, 0)}, shape, run.workspace, run.queue);
  });
}

template <class A>
std::unique_ptr<Kernel> make_grad_stats_as(const Call& call, const StorageRule& storage) {
  const bool gated = call.site.inputs() > 3;
  return make_statistic<A>(
      call, storage, [=](const KernelRun& run, const ReduceShape& shape, std::int64_t channels, std::int64_t first) {
        const double* const moments = in<double>(run, 2);
        const Norm norm{moments, gated ? in<float>(run, 3) : nullptr, gated ? in<float>(run, 4) : nullptr, channels, first};
        run_reduce(A(norm), GradStatsEnd{out<double>(run, 0) + first, moments + first, channels},
                   {in<float>(run, 0), in<float>(run, 1)}, shape, run.workspace, run.queue);
      });
}

std::unique_ptr<Kernel> make_grad_stats(const Call& call, const StorageRule& storage) {
  return call.site.inputs() > 3 ? make_grad_stats_as<GatedGradStats>(call, storage) : make_grad_stats_as<GradStats>(call, storage);
}

std::unique_ptr<Kernel> make_finalize(const Call& call, const StorageRule&) {
  const std::int64_t channels = call.site.in(0).shape[1];
  const double eps = call.site.number("eps");
  return make_kernel("each", 0, [=](const KernelRun& run) {
    run_each(Finalize{in<double>(run, 0), out<double>(run, 0), channels, eps}, channels, run.queue);
  });
}

std::unique_ptr<Kernel> make_running(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const std::int64_t channels = call.site.in(0).shape[0];
  const double eps = call.site.number("eps");
  return make_kernel("each", 0, [=](const KernelRun& run) {
    run_each(Running{in<float>(run, 0), in<float>(run, 1), out<double>(run, 0), channels, eps}, channels, run.queue);
  });
}

std::unique_ptr<Kernel> make_update(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const std::int64_t channels = call.site.in(0).shape[0];
  const double momentum = call.site.number("momentum");
  return make_kernel("each", 0, [=](const KernelRun& run) {
    run_each(Update{in<float>(run, 0), in<float>(run, 1), in<double>(run, 2), out<float>(run, 0), out<float>(run, 1), channels,
                    momentum},
             channels, run.queue);
  });
}

template <bool kHasResidual, bool kRelu>
std::unique_ptr<Kernel> make_apply_as(const Call& call, const StorageRule& storage) {
  using F = Apply<kHasResidual, kRelu>;
  std::array<int, F::kInputs> inputs{0};
  if constexpr (kHasResidual) inputs[1] = kResidual;
  const std::int64_t channels = call.site.in(0).shape[kChannelDim];
  return make_map_kernel<F>(call, storage, inputs, [=](const KernelRun& run) {
    return F{{in<double>(run, 1), in<float>(run, 2), in<float>(run, 3), channels, run.in_boxes[0].lo[kChannelDim]}};
  });
}

std::unique_ptr<Kernel> make_apply(const Call& call, const StorageRule& storage) {
  const bool relu = call.site.word("activation") == "relu";
  if (call.site.inputs() > kResidual)
    return relu ? make_apply_as<true, true>(call, storage) : make_apply_as<true, false>(call, storage);
  return relu ? make_apply_as<false, true>(call, storage) : make_apply_as<false, false>(call, storage);
}

template <bool kGated>
std::unique_ptr<Kernel> make_grad_apply_as(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const Sheet sheet = output_sheet(call, 0);
  const Dims& shape = call.site.in(0).shape;
  const std::int64_t channels = shape[kChannelDim];
  const double count = static_cast<double>(shape.product() / channels);
  return make_kernel("map", 0, [=](const KernelRun& run) {
    const Box& box = run.in_boxes[0];
    const auto start = [&]<bool kOwnsAll>() {
      const Norm norm{in<double>(run, 2), in<float>(run, 4), kGated ? in<float>(run, 5) : nullptr, channels, box.lo[kChannelDim]};
      run_map(GradApply<kOwnsAll, kGated>{norm, in<double>(run, 3), count, OwnedBox(box, run.owned)},
              {in<float>(run, 0), in<float>(run, 1)}, out<float>(run, 0), sheet, run.queue);
    };
    run.owned.contains(box) ? start.template operator()<true>() : start.template operator()<false>();
  });
}

std::unique_ptr<Kernel> make_grad_apply(const Call& call, const StorageRule& storage) {
  return call.site.inputs() > 5 ? make_grad_apply_as<true>(call, storage) : make_grad_apply_as<false>(call, storage);
}

std::unique_ptr<Kernel> make_grad_params(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const std::int64_t channels = call.site.in(0).shape[1];
  return make_kernel("each", 0, [=](const KernelRun& run) {
    run_each(GradParams{in<double>(run, 0), out<float>(run, 0), out<float>(run, 1), channels}, channels, run.queue);
  });
}

}  // namespace

void cuda_batch_norm(KernelTable& table) {
  table.add("batch_norm_stats", make_stats);
  table.add("batch_norm_finalize", make_finalize);
  table.add("batch_norm_running", make_running);
  table.add("batch_norm_update", make_update);
  table.add("batch_norm_apply", make_apply);
  table.add("batch_norm_grad_stats", make_grad_stats);
  table.add("batch_norm_grad_apply", make_grad_apply);
  table.add("batch_norm_grad_params", make_grad_params);
}

}  // namespace outsize::OUTSIZE_PLACE
