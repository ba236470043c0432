#include <cmath>

#include "ops/batch_norm/norm.h"
#include "ops/cpu_norm.h"
#include "ops/registry.h"

namespace outsize {

namespace {

using namespace map_norm;

class Stats : public Kernel {
 public:
  Stats(const MapPiece& x, std::int64_t channels) : pass_(x, Over::batch), channels_(channels) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return pass_.workspace_bytes(); }

  void run(const KernelRun& run) const override {
    pass_.run(f32(run.in[0]), f64(run.workspace));
    double* const stats = f64(run.out[0]);
    std::fill_n(stats, 3 * channels_, 0.0);
    const std::int64_t first = run.in_boxes[0].lo[1];
    for (std::int64_t c = 0; c < pass_.piece().channels; ++c) {
      const Moment moment = pass_.moment(f64(run.workspace), 0, c);
      stats[first + c] = moment.count;
      stats[channels_ + first + c] = moment.mean;
      stats[2 * channels_ + first + c] = moment.m2;
    }
  }

 private:
  MomentPass pass_;
  std::int64_t channels_;  // of the value
};

class Finalize : public Kernel {
 public:
  Finalize(std::int64_t channels, double eps) : channels_(channels), eps_(eps) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const double* const stats = f64(run.in[0]);
    double* const moments = f64(run.out[0]);
    for (std::int64_t c = 0; c < channels_; ++c) {
      moments[c] = stats[channels_ + c];
      moments[channels_ + c] = 1.0 / std::sqrt(stats[2 * channels_ + c] / stats[c] + eps_);
    }
  }

 private:
  std::int64_t channels_;
  double eps_;
};

class Running : public Kernel {
 public:
  Running(std::int64_t channels, double eps) : channels_(channels), eps_(eps) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const mean = f32(run.in[0]);
    const float* const var = f32(run.in[1]);
    double* const moments = f64(run.out[0]);
    for (std::int64_t c = 0; c < channels_; ++c) {
      moments[c] = static_cast<double>(mean[c]);
      moments[channels_ + c] = 1.0 / std::sqrt(static_cast<double>(var[c]) + eps_);
    }
  }

 private:
  std::int64_t channels_;
  double eps_;
};

class Update : public Kernel {
 public:
  Update(std::int64_t channels, double momentum) : channels_(channels), momentum_(momentum) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const double* const stats = f64(run.in[2]);
    const auto blend = [this](float old, double now) {
      return static_cast<float>((1.0 - momentum_) * static_cast<double>(old) + momentum_ * now);
    };
    for (std::int64_t c = 0; c < channels_; ++c) {
      f32(run.out[0])[c] = blend(f32(run.in[0])[c], stats[channels_ + c]);
      f32(run.out[1])[c] = blend(f32(run.in[1])[c], stats[2 * channels_ + c] / (stats[c] - 1.0));
    }
  }

 private:
  std::int64_t channels_;
  double momentum_;
};

// Of channel c of a value with `channels`.
NormFactors norm_factors_of(const double* moments, std::int64_t channels, std::int64_t c, float gamma, float beta) {
  return norm_factors(moments[c], moments[channels + c], gamma, beta);
}

class Apply : public Kernel {
 public:
  Apply(const MapPiece& x, std::int64_t channels, bool residual, bool relu)
      : piece_(x), rows_(x, Over::batch), channels_(channels), residual_(residual), relu_(relu) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return 3 * rows_.size() * size_of(DType::f32); }

  void run(const KernelRun& run) const override {
    const std::int64_t first = run.in_boxes[0].lo[1];
    float* const mean = f32(run.workspace);
    float* const scale = mean + rows_.size();
    float* const shift = scale + rows_.size();
    std::fill_n(mean, 3 * rows_.size(), 0.0f);
    for (std::int64_t c = 0; c < piece_.channels; ++c) {
      const NormFactors norm =
          norm_factors_of(f64(run.in[1]), channels_, first + c, f32(run.in[2])[first + c], f32(run.in[3])[first + c]);
      mean[c] = norm.mean;
      scale[c] = norm.scale;
      shift[c] = norm.shift;
    }
    apply_map(piece_, rows_, relu_, {mean, scale, shift}, f32(run.in[0]), residual_ ? f32(run.in[4]) : nullptr, f32(run.out[0]));
  }

 private:
  MapPiece piece_;
  FactorRows rows_;
  std::int64_t channels_;
  bool residual_;
  bool relu_;
};

class GradStats : public Kernel {
 public:
  GradStats(const MapPiece& x, std::int64_t channels, bool gated) : pass_(x, Over::batch), channels_(channels), gated_(gated) {
    sums_ = workspace_.book(pass_.workspace_bytes());
    factors_ = workspace_.book((gated ? 3 : 1) * pass_.factors() * size_of(DType::f32));
  }
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }

  void run(const KernelRun& run) const override {
    const MapPiece& piece = pass_.piece();
    const std::int64_t first = run.in_boxes[0].lo[1], width = pass_.factors();
    const double* const moments = f64(run.in[2]);
    float* const mean = f32(run.workspace + factors_);
    std::fill_n(mean, (gated_ ? 3 : 1) * width, 0.0f);
    float* const scale = gated_ ? mean + width : nullptr;
    float* const shift = gated_ ? scale + width : nullptr;
    for (std::int64_t c = 0; c < piece.channels; ++c) {
      mean[c] = static_cast<float>(moments[first + c]);
      if (!gated_) continue;
      const NormFactors norm = norm_factors_of(moments, channels_, first + c, f32(run.in[3])[first + c], f32(run.in[4])[first + c]);
      scale[c] = norm.scale;
      shift[c] = norm.shift;
    }
    double* const partial = f64(run.workspace + sums_);
    pass_.run(gated_, f32(run.in[0]), f32(run.in[1]), {mean, scale, shift}, partial);
    double* const sums = f64(run.out[0]);
    std::fill_n(sums, 2 * channels_, 0.0);
    for (std::int64_t c = 0; c < piece.channels; ++c) {
      const GradientPass::Sums found = pass_.sums(partial, 0, c);
      // The pass took deviations from the mean as f32 has it.
      const double drift = moments[first + c] - static_cast<double>(mean[c]);
      sums[first + c] = found.total;
      sums[channels_ + first + c] = (found.weighted - drift * found.total) * moments[channels_ + first + c];
    }
  }

 private:
  GradientPass pass_;
  std::int64_t channels_;
  bool gated_;
  Workspace workspace_;
  std::int64_t sums_;
  std::int64_t factors_;
};

class GradApply : public Kernel {
 public:
  GradApply(const MapPiece& x, const Dims& shape, bool gated)
      : piece_(x), rows_(x, Over::batch), channels_(shape[1]), count_(shape.product() / shape[1]), gated_(gated) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return kFactors * rows_.size() * size_of(DType::f32); }

  void run(const KernelRun& run) const override {
    grad_map(piece_, rows_, prepare_factors(run), run.in_boxes[0], run.owned, f32(run.in[0]), f32(run.in[1]), f32(run.out[0]));
  }

 private:
  static constexpr std::int64_t kFactors = 5;

  norm_loops::GradFactors prepare_factors(const KernelRun& run) const {
    const std::int64_t first = run.in_boxes[0].lo[1];
    float* const scale = f32(run.workspace);
    float* const shift = scale + rows_.size();
    float* const mean = shift + rows_.size();
    float* const slope = mean + rows_.size();
    float* const norm_shift = slope + rows_.size();
    std::fill_n(scale, kFactors * rows_.size(), 0.0f);
    const double* const moments = f64(run.in[2]);
    const double* const sums = f64(run.in[3]);
    const double n = static_cast<double>(count_);
    for (std::int64_t c = 0; c < piece_.channels; ++c) {
      const std::int64_t at = first + c;
      const float gamma = f32(run.in[4])[at];
      const NormFactors norm = norm_factors_of(moments, channels_, at, gamma, gated_ ? f32(run.in[5])[at] : 0.0f);
      scale[c] = norm.scale;
      mean[c] = norm.mean;
      norm_shift[c] = norm.shift;
      if (!owns_channel(run, at)) continue;
      const double inv_std = moments[channels_ + at], factor = static_cast<double>(gamma) * inv_std;
      const double exact_slope = factor * inv_std * sums[channels_ + at] / n;
      shift[c] = static_cast<float>(factor * sums[at] / n - (moments[at] - static_cast<double>(norm.mean)) * exact_slope);
      slope[c] = static_cast<float>(exact_slope);
    }
    return {{mean, scale, gated_ ? norm_shift : nullptr}, shift, slope};
  }

  MapPiece piece_;
  FactorRows rows_;
  std::int64_t channels_;
  std::int64_t count_;  // elements a channel of the value
  bool gated_;
};

class GradParams : public Kernel {
 public:
  explicit GradParams(std::int64_t channels) : channels_(channels) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const double* const sums = f64(run.in[0]);
    for (std::int64_t c = 0; c < channels_; ++c) {
      f32(run.out[0])[c] = static_cast<float>(sums[channels_ + c]);
      f32(run.out[1])[c] = static_cast<float>(sums[c]);
    }
  }

 private:
  std::int64_t channels_;
};

// The statistics are f64 by definition; everything else must be f32.
void check(const Call& call, const StorageRule& storage, const ValueType& type) {
  require_blocks(call, storage);
  if (type.dtype != DType::f32) internal_error("the cpu backend computes in f32; {} has {}", call.site.op.name, to_string(type));
}

std::unique_ptr<Kernel> make_stats(const Call& call, const StorageRule& storage) {
  check(call, storage, call.site.in(0));
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  return std::make_unique<Stats>(MapPiece(storage, call.boxes.in[0]), call.site.in(0).shape[1]);
}

std::unique_ptr<Kernel> make_finalize(const Call& call, const StorageRule&) {
  return std::make_unique<Finalize>(call.site.in(0).shape[1], call.site.number("eps"));
}

std::unique_ptr<Kernel> make_running(const Call& call, const StorageRule& storage) {
  check(call, storage, call.site.in(0));
  return std::make_unique<Running>(call.site.in(0).shape[0], call.site.number("eps"));
}

std::unique_ptr<Kernel> make_update(const Call& call, const StorageRule& storage) {
  check(call, storage, call.site.in(0));
  return std::make_unique<Update>(call.site.in(0).shape[0], call.site.number("momentum"));
}

std::unique_ptr<Kernel> make_apply(const Call& call, const StorageRule& storage) {
  check(call, storage, call.site.in(0));
  return std::make_unique<Apply>(MapPiece(storage, call.boxes.in[0]), call.site.in(0).shape[1], call.site.inputs() > 4,
                                 call.site.word("activation") == "relu");
}

std::unique_ptr<Kernel> make_grad_stats(const Call& call, const StorageRule& storage) {
  check(call, storage, call.site.in(0));
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  return std::make_unique<GradStats>(MapPiece(storage, call.boxes.in[0]), call.site.in(0).shape[1], call.site.inputs() > 3);
}

std::unique_ptr<Kernel> make_grad_apply(const Call& call, const StorageRule& storage) {
  check(call, storage, call.site.in(0));
  return std::make_unique<GradApply>(MapPiece(storage, call.boxes.in[0]), call.site.in(0).shape, call.site.inputs() > 5);
}

std::unique_ptr<Kernel> make_grad_params(const Call& call, const StorageRule& storage) {
  check(call, storage, call.site.out(0));
  return std::make_unique<GradParams>(call.site.in(0).shape[1]);
}

}  // namespace

void cpu_batch_norm(KernelTable& table) {
  table.add("batch_norm_stats", make_stats);
  table.add("batch_norm_finalize", make_finalize);
  table.add("batch_norm_running", make_running);
  table.add("batch_norm_update", make_update);
  table.add("batch_norm_apply", make_apply);
  table.add("batch_norm_grad_stats", make_grad_stats);
  table.add("batch_norm_grad_apply", make_grad_apply);
  table.add("batch_norm_grad_params", make_grad_params);
}

}  // namespace outsize
