#include "ops/cpu_norm.h"
#include "ops/registry.h"

namespace outsize {

namespace {

using namespace map_norm;

// Where a piece lies in its value, and the columns of statistics that belong to it.
struct Columns {
  Columns(const OpSite& site, const MapPiece& map)
      : piece(map),
        samples(site.in(0).shape[0]),
        channels(site.in(0).shape[1]),
        groups(site.integer("groups")),
        width(channels / groups),
        group_size(site.in(0).elements() / (samples * groups)) {}

  // visit(sample and channel of the piece, column of the channel, column of its group) for every channel of every sample of a piece
  // that begins at `box`.
  template <class Visit>
  void visit(const Box& box, const Visit& visit) const {
    for (std::int64_t n = 0; n < piece.samples; ++n)
      for (std::int64_t c = 0; c < piece.channels; ++c) {
        const std::int64_t sample = box.lo[0] + n, channel = box.lo[1] + c;
        visit(n, c, sample * channels + channel, sample * groups + channel / width);
      }
  }
  std::int64_t group_columns() const { return samples * groups; }
  std::int64_t channel_columns() const { return samples * channels; }

  MapPiece piece;
  std::int64_t samples;  // of the value
  std::int64_t channels;
  std::int64_t groups;      // of a sample
  std::int64_t width;       // channels of a group
  std::int64_t group_size;  // elements of a group
};

class Stats : public Kernel {
 public:
  explicit Stats(const Columns& columns) : columns_(columns), pass_(columns.piece, Over::sample) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return pass_.workspace_bytes(); }

  void run(const KernelRun& run) const override {
    pass_.run(f32(run.in[0]), f64(run.workspace));
    double* const stats = f64(run.out[0]);
    const std::int64_t row = columns_.group_columns();
    std::fill_n(stats, 3 * row, 0.0);
    columns_.visit(run.in_boxes[0], [&](std::int64_t n, std::int64_t c, std::int64_t, std::int64_t group) {
      Moment moment{stats[group], stats[row + group], stats[2 * row + group]};
      moment.merge(pass_.moment(f64(run.workspace), n, c));
      stats[group] = moment.count;
      stats[row + group] = moment.mean;
      stats[2 * row + group] = moment.m2;
    });
  }

 private:
  Columns columns_;
  MomentPass pass_;
};

class Apply : public Kernel {
 public:
  Apply(const Columns& columns, int inputs, bool relu)
      : columns_(columns), rows_(columns.piece, Over::sample), inputs_(inputs), relu_(relu) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return 3 * rows_.size() * size_of(DType::f32); }

  void run(const KernelRun& run) const override {
    const std::int64_t first = run.in_boxes[0].lo[1];
    const double* const means = f64(run.in[1]);
    const double* const inv_stds = means + columns_.group_columns();
    float* const mean = f32(run.workspace);
    float* const scale = mean + rows_.size();
    float* const shift = scale + rows_.size();
    std::fill_n(mean, 3 * rows_.size(), 0.0f);
    columns_.visit(run.in_boxes[0], [&](std::int64_t n, std::int64_t c, std::int64_t, std::int64_t group) {
      const std::int64_t i = rows_.at(n, c);
      const double factor = inv_stds[group] * (inputs_ > 2 ? static_cast<double>(f32(run.in[2])[first + c]) : 1.0);
      const double beta = inputs_ > 3 ? static_cast<double>(f32(run.in[3])[first + c]) : 0.0;
      mean[i] = static_cast<float>(means[group]);
      scale[i] = static_cast<float>(factor);
      shift[i] = static_cast<float>(beta - (means[group] - static_cast<double>(mean[i])) * factor);
    });
    apply_map(columns_.piece, rows_, relu_, {mean, scale, shift}, f32(run.in[0]), nullptr, f32(run.out[0]));
  }

 private:
  Columns columns_;
  FactorRows rows_;
  int inputs_;
  bool relu_;
};

class GradStats : public Kernel {
 public:
  explicit GradStats(const Columns& columns)
      : columns_(columns), rows_(columns.piece, Over::sample), pass_(columns.piece, Over::sample) {
    sums_ = workspace_.book(pass_.workspace_bytes());
    mean_ = workspace_.book(rows_.size() * size_of(DType::f32));
  }
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }

  void run(const KernelRun& run) const override {
    const double* const means = f64(run.in[2]);
    const double* const inv_stds = means + columns_.group_columns();
    float* const mean = f32(run.workspace + mean_);
    std::fill_n(mean, rows_.size(), 0.0f);
    columns_.visit(run.in_boxes[0], [&](std::int64_t n, std::int64_t c, std::int64_t, std::int64_t group) {
      mean[rows_.at(n, c)] = static_cast<float>(means[group]);
    });
    double* const partial = f64(run.workspace + sums_);
    pass_.run(false, f32(run.in[0]), f32(run.in[1]), {mean, nullptr, nullptr}, partial);
    double* const sums = f64(run.out[0]);
    const std::int64_t row = columns_.channel_columns();
    std::fill_n(sums, 2 * row, 0.0);
    columns_.visit(run.in_boxes[0], [&](std::int64_t n, std::int64_t c, std::int64_t channel, std::int64_t group) {
      const GradientPass::Sums found = pass_.sums(partial, n, c);
      // The pass took deviations from the mean as f32 has it.
      const double drift = means[group] - static_cast<double>(mean[rows_.at(n, c)]);
      sums[channel] = found.total;
      sums[row + channel] = (found.weighted - drift * found.total) * inv_stds[group];
    });
  }

 private:
  Columns columns_;
  FactorRows rows_;
  GradientPass pass_;
  Workspace workspace_;
  std::int64_t sums_;
  std::int64_t mean_;
};

class GradApply : public Kernel {
 public:
  GradApply(const Columns& columns, bool gamma) : columns_(columns), rows_(columns.piece, Over::sample), gamma_(gamma) {
    factors_ = workspace_.book(4 * rows_.size() * size_of(DType::f32));
    means_ = workspace_.book(2 * columns_.group_columns() * size_of(DType::f64));
  }
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }

  void run(const KernelRun& run) const override {
    grad_map(columns_.piece, rows_, prepare_factors(run), run.in_boxes[0], run.owned, f32(run.in[0]), f32(run.in[1]),
             f32(run.out[0]));
  }

 private:
  double gamma(const KernelRun& run, std::int64_t channel) const {
    return gamma_ ? static_cast<double>(f32(run.in[4])[channel]) : 1.0;
  }

  // The means over each group, of all its channels in the value, of gamma · dy and gamma · dy · normalized x: two rows.
  const double* prepare_means(const KernelRun& run) const {
    double* const means = f64(run.workspace + means_);
    const double* const sums = f64(run.in[3]);
    const std::int64_t row = columns_.group_columns();
    for (std::int64_t group = 0; group < row; ++group) {
      const std::int64_t sample = group / columns_.groups;
      const std::int64_t first = group % columns_.groups * columns_.width;
      double total = 0, normalized = 0;
      for (std::int64_t channel = first; channel < first + columns_.width; ++channel) {
        const std::int64_t column = sample * columns_.channels + channel;
        total += gamma(run, channel) * sums[column];
        normalized += gamma(run, channel) * sums[columns_.channel_columns() + column];
      }
      means[group] = total / static_cast<double>(columns_.group_size);
      means[row + group] = normalized / static_cast<double>(columns_.group_size);
    }
    return means;
  }

  norm_loops::GradFactors prepare_factors(const KernelRun& run) const {
    const double* const means = prepare_means(run);
    const double* const moments = f64(run.in[2]);
    const std::int64_t row = columns_.group_columns();
    const std::int64_t first = run.in_boxes[0].lo[1];
    float* const scale = f32(run.workspace + factors_);
    float* const shift = scale + rows_.size();
    float* const mean = shift + rows_.size();
    float* const slope = mean + rows_.size();
    std::fill_n(scale, 4 * rows_.size(), 0.0f);
    columns_.visit(run.in_boxes[0], [&](std::int64_t n, std::int64_t c, std::int64_t, std::int64_t group) {
      const std::int64_t i = rows_.at(n, c);
      const double inv_std = moments[row + group];
      const double exact_slope = inv_std * inv_std * means[row + group];
      scale[i] = static_cast<float>(gamma(run, first + c) * inv_std);
      if (!owns_channel(run, first + c)) return;
      mean[i] = static_cast<float>(moments[group]);
      shift[i] = static_cast<float>(inv_std * means[group] - (moments[group] - static_cast<double>(mean[i])) * exact_slope);
      slope[i] = static_cast<float>(exact_slope);
    });
    return {{mean, scale, nullptr}, shift, slope};
  }

  Columns columns_;
  FactorRows rows_;
  bool gamma_;
  Workspace workspace_;
  std::int64_t factors_;
  std::int64_t means_;
};

class GradParams : public Kernel {
 public:
  GradParams(std::int64_t samples, std::int64_t channels) : samples_(samples), channels_(channels) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const double* const sums = f64(run.in[0]);
    for (std::int64_t c = 0; c < channels_; ++c) {
      double normalized = 0, total = 0;
      for (std::int64_t n = 0; n < samples_; ++n) {
        total += sums[n * channels_ + c];
        normalized += sums[(samples_ + n) * channels_ + c];
      }
      f32(run.out[0])[c] = static_cast<float>(normalized);
      f32(run.out[1])[c] = static_cast<float>(total);
    }
  }

 private:
  std::int64_t samples_;
  std::int64_t channels_;
};

// The statistics are f64 by definition; everything else must be f32.
void check(const Call& call, const StorageRule& storage, const ValueType& type) {
  require_blocks(call, storage);
  if (type.dtype != DType::f32) internal_error("the cpu backend computes in f32; {} has {}", call.site.op.name, to_string(type));
}

Columns columns_of(const Call& call, const StorageRule& storage) {
  check(call, storage, call.site.in(0));
  return {call.site, MapPiece(storage, call.boxes.in[0])};
}

std::unique_ptr<Kernel> make_stats(const Call& call, const StorageRule& storage) {
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  return std::make_unique<Stats>(columns_of(call, storage));
}

std::unique_ptr<Kernel> make_apply(const Call& call, const StorageRule& storage) {
  return std::make_unique<Apply>(columns_of(call, storage), call.site.inputs(), call.site.word("activation") == "relu");
}

std::unique_ptr<Kernel> make_grad_stats(const Call& call, const StorageRule& storage) {
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  return std::make_unique<GradStats>(columns_of(call, storage));
}

std::unique_ptr<Kernel> make_grad_apply(const Call& call, const StorageRule& storage) {
  return std::make_unique<GradApply>(columns_of(call, storage), call.site.inputs() > 4);
}

std::unique_ptr<Kernel> make_grad_params(const Call& call, const StorageRule& storage) {
  check(call, storage, call.site.out(0));
  const std::int64_t channels = call.site.out(0).shape[0];
  return std::make_unique<GradParams>(call.site.in(0).shape[1] / channels, channels);
}

}  // namespace

void cpu_group_norm(KernelTable& table) {
  table.add("group_norm_stats", make_stats);
  table.add("group_norm_apply", make_apply);
  table.add("group_norm_grad_stats", make_grad_stats);
  table.add("group_norm_grad_apply", make_grad_apply);
  table.add("group_norm_grad_params", make_grad_params);
}

}  // namespace outsize
