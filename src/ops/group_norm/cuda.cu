#include "ops/cuda/each.h"
#include "ops/cuda/moments.h"
#include "ops/cuda/reduce.h"

// Statistics are whole values with a column for each group of each sample, sums with one for each channel of each sample; the maps
// of a call may hold a range of the samples and channels only, also one that cuts groups.
namespace outsize::OUTSIZE_PLACE {
namespace {

// The columns that belong to a sample and a channel of a piece.
struct StatColumns {
  std::int64_t samples, channels;                    // of the value
  std::int64_t groups, width;                        // of a sample; channels of a group
  std::int64_t first_sample = 0, first_channel = 0;  // of the piece

  explicit StatColumns(const OpSite& site)
      : samples(site.in(0).shape[0]), channels(site.in(0).shape[1]), groups(site.integer("groups")), width(channels / groups) {}
  StatColumns of_piece(const Box& box) const {
    StatColumns columns = *this;
    columns.first_sample = box.lo[0];
    columns.first_channel = box.lo[1];
    return columns;
  }
  std::int64_t all_groups() const { return samples * groups; }

  OUTSIZE_BOTH std::int64_t group(int channel, std::int64_t sample) const {
    return (first_sample + sample) * groups + (first_channel + channel) / width;
  }
  OUTSIZE_BOTH std::int64_t channel(int channel, std::int64_t sample) const {
    return (first_sample + sample) * channels + first_channel + channel;
  }
};

// A piece as one sheet for each sample.
struct Piece {
  std::int64_t samples;
  Sheet sheet;

  Piece(const ValueType& type, const Box& box) : samples(box.extent(0)), sheet(sheet_of(type, box)) {
    if (samples > 0) sheet.positions /= samples;
  }
};

// Rows count, mean and M2 of all groups. Targets are the groups that the piece has channels of.
struct StatsEnd {
  double* stats;
  StatColumns columns;
  std::int64_t row;
  int groups_each;  // of a sample
  OUTSIZE_BOTH void finish(int target, const MomentsPartial& partial) const {
    const std::int64_t group = columns.group(0, target / groups_each) + target % groups_each;
    stats[group] = partial.count;
    stats[row + group] = partial.mean;
    stats[2 * row + group] = partial.m2;
  }
};

// y = (x − mean) · scale + shift, where the mean's rounding to f32 is in the shift. gamma and beta may be null.
template <bool kRelu>
struct Apply {
  static constexpr int kInputs = 1;
  struct Factors {
    float mean, scale, shift;
  };
  const double* means;
  const double* inv_stds;
  const float* gamma;
  const float* beta;
  StatColumns columns;

  OUTSIZE_BOTH Factors factors(int channel, std::int64_t sample) const {
    const std::int64_t group = columns.group(channel, sample), c = columns.first_channel + channel;
    const double exact = means[group];
    const double scale = gamma == nullptr ? inv_stds[group] : inv_stds[group] * gamma[c];
    const double own = beta == nullptr ? 0.0 : static_cast<double>(beta[c]);
    const float mean = static_cast<float>(exact);
    return {mean, static_cast<float>(scale), static_cast<float>(own - (exact - mean) * scale)};
  }
  OUTSIZE_BOTH float operator()(const float* x, const Factors& factors) const {
    const float y = (x[0] - factors.mean) * factors.scale + factors.shift;
    return kRelu && y < 0 ? 0.0f : y;
  }
};

struct GradStats : GradSumsReduction {
  const double* means;
  StatColumns columns;
  GradStats(const double* of, const StatColumns& by) : means(of), columns(by) {}
  OUTSIZE_BOTH Factors factors(int channel, std::int64_t sample) const {
    return {static_cast<float>(means[columns.group(channel, sample)])};
  }
};

struct GradStatsEnd {
  double* sums;
  const double* means;
  const double* inv_stds;
  StatColumns columns;
  std::int64_t row;
  int channels_each;  // of a sample of the piece
  OUTSIZE_BOTH void finish(int target, const GradSums& found) const {
    const std::int64_t sample = target / channels_each;
    const int channel = target % channels_each;
    const std::int64_t group = columns.group(channel, sample), column = columns.channel(channel, sample);
    sums[column] = found.total;
    sums[row + column] = found.normalized(means[group], inv_stds[group]);
  }
};

// The means over each group, of all its channels in the value, of gamma · dy and of gamma · dy · normalized x: two rows.
struct GroupMeans {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 4;

  const double* sums;
  const float* gamma;  // may be null
  double* means;
  std::int64_t channels, width, groups;  // channels of a sample; groups of all samples
  double size;                           // elements of a group
  int lanes;                             // threads that share a group

  GroupMeans(const double* from, const float* weights, double* to, const StatColumns& columns, double elements)
      : sums(from),
        gamma(weights),
        means(to),
        channels(columns.channels),
        width(columns.width),
        groups(columns.all_groups()),
        size(elements),
        lanes(1) {
    while (lanes < kThreads && 2 * lanes <= width) lanes *= 2;
  }
  Grid grid() const { return {ceil_divide(groups, kThreads / lanes), 1, 2 * kThreads * static_cast<std::int64_t>(sizeof(double))}; }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    double* const totals = reinterpret_cast<double*>(block.shared());
    double* const normalized = totals + kThreads;
    const std::int64_t first = block.x() * (kThreads / lanes);
    block.each([&](int thread) {
      const std::int64_t group = first + thread / lanes;
      double of_dy = 0, of_both = 0;
      if (group < groups)
        for (std::int64_t i = thread % lanes; i < width; i += lanes) {
          const std::int64_t column = group * width + i;
          const double weight = gamma == nullptr ? 1.0 : static_cast<double>(gamma[column % channels]);
          of_dy += weight * sums[column];
          of_both += weight * sums[groups * width + column];
        }
      totals[thread] = of_dy;
      normalized[thread] = of_both;
    });
    for (int half = lanes / 2; half > 0; half /= 2)
      block.each([&](int thread) {
        if (thread % lanes >= half) return;
        totals[thread] += totals[thread + half];
        normalized[thread] += normalized[thread + half];
      });
    block.last([&](int thread) {
      const std::int64_t group = first + thread / lanes;
      if (thread % lanes != 0 || group >= groups) return;
      means[group] = totals[thread] / size;
      means[groups + group] = normalized[thread] / size;
    });
  }
};

// dx = scale · dy − (shift + (x − mean) · slope); the second term, which stands for the whole group, inside the owned box only.
template <bool kOwnsAll>
struct GradApply {
  static constexpr int kInputs = 2;
  struct Factors {
    float mean, scale, shift, slope;
  };
  const double* moments;
  const double* means;  // as of GroupMeans
  const float* gamma;   // may be null
  StatColumns columns;
  std::int64_t row;  // of moments and of means
  OwnedBox owned;

  OUTSIZE_BOTH Factors factors(int channel, std::int64_t sample) const {
    const std::int64_t group = columns.group(channel, sample);
    const double exact = moments[group], inv_std = moments[row + group];
    const double weight = gamma == nullptr ? 1.0 : static_cast<double>(gamma[columns.first_channel + channel]);
    const double slope = inv_std * inv_std * means[row + group];
    const float mean = static_cast<float>(exact);
    return {mean, static_cast<float>(weight * inv_std), static_cast<float>(inv_std * means[group] + (mean - exact) * slope),
            static_cast<float>(slope)};
  }
  OUTSIZE_BOTH float operator()(const float* x, const Factors& f) const requires kOwnsAll {
    return f.scale * x[0] - (f.shift + (x[1] - f.mean) * f.slope);
  }
  OUTSIZE_BOTH float operator()(const float* x, const Factors& f, Place place) const requires(!kOwnsAll) {
    const float own = f.scale * x[0];
    return owned.holds(place) ? own - (f.shift + (x[1] - f.mean) * f.slope) : own;
  }
};

// Of the two rows of sums: dbeta, then dgamma.
struct GradParamsEnd {
  float* dgamma;
  float* dbeta;
  int channels;
  OUTSIZE_BOTH void finish(int target, const SumPartial& sum) const {
    (target < channels ? dbeta : dgamma)[target % channels] = static_cast<float>(sum.value);
  }
};

// What a graph without gamma or beta has not is null.
const float* optional_in(const KernelRun& run, std::size_t i) {
  return i < run.in.size() ? in<float>(run, static_cast<int>(i)) : nullptr;
}

std::unique_ptr<Kernel> make_stats(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  if (has_empty_input(call)) return make_zeros(call, storage);
  const StatColumns whole(call.site);
  const Piece piece(call.site.in(0), call.boxes.in[0]);
  const ReduceShape shape{piece.samples, piece.sheet, static_cast<int>(whole.width)};
  return make_kernel("reduce", reduce_workspace<Moments>(shape), [=](const KernelRun& run) {
    const StatColumns columns = whole.of_piece(run.in_boxes[0]);
    const std::int64_t row = columns.all_groups();
    ReduceShape here = shape;
    here.channels_before = static_cast<int>(columns.first_channel % columns.width);
    if (here.targets() < row) fill_zero(run.out[0], 3 * row * size_of(DType::f64), run.queue);
    run_reduce(Moments(), StatsEnd{out<double>(run, 0), columns, row, static_cast<int>(here.targets() / here.batches)},
               {in<float>(run, 0)}, here, run.workspace, run.queue);
  });
}

template <bool kRelu>
std::unique_ptr<Kernel> make_apply_as(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const StatColumns whole(call.site);
  const Piece piece(call.site.out(0), call.boxes.out[0]);
  return make_kernel("map", 0, [=](const KernelRun& run) {
    const double* const means = in<double>(run, 1);
    run_map(
        Apply<kRelu>{means, means + whole.all_groups(), optional_in(run, 2), optional_in(run, 3), whole.of_piece(run.in_boxes[0])},
        {in<float>(run, 0)}, out<float>(run, 0), piece.samples, piece.sheet, run.queue);
  });
}

std::unique_ptr<Kernel> make_apply(const Call& call, const StorageRule& storage) {
  return call.site.word("activation") == "relu" ? make_apply_as<true>(call, storage) : make_apply_as<false>(call, storage);
}

std::unique_ptr<Kernel> make_grad_stats(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  if (has_empty_input(call)) return make_zeros(call, storage);
  const StatColumns whole(call.site);
  const Piece piece(call.site.in(0), call.boxes.in[0]);
  const ReduceShape shape{piece.samples, piece.sheet, 1};
  return make_kernel("reduce", reduce_workspace<GradStats>(shape), [=](const KernelRun& run) {
    const StatColumns columns = whole.of_piece(run.in_boxes[0]);
    const std::int64_t row = columns.samples * columns.channels;
    if (shape.targets() < row) fill_zero(run.out[0], 2 * row * size_of(DType::f64), run.queue);
    const double* const means = in<double>(run, 2);
    run_reduce(GradStats(means, columns),
               GradStatsEnd{out<double>(run, 0), means, means + columns.all_groups(), columns, row,
                            static_cast<int>(shape.sheet.channels)},
               {in<float>(run, 0), in<float>(run, 1)}, shape, run.workspace, run.queue);
  });
}

std::unique_ptr<Kernel> make_grad_apply(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const StatColumns whole(call.site);
  const Piece piece(call.site.out(0), call.boxes.out[0]);
  const double size = static_cast<double>(call.site.in(0).elements() / whole.all_groups());
  return make_kernel("map", 2 * whole.all_groups() * size_of(DType::f64), [=](const KernelRun& run) {
    const float* const gamma = optional_in(run, 4);
    double* const means = reinterpret_cast<double*>(run.workspace);
    const GroupMeans program(in<double>(run, 3), gamma, means, whole, size);
    launch(program, program.grid(), run.queue);
    const Box& box = run.in_boxes[0];
    const auto start = [&]<bool kOwnsAll>() {
      run_map(
          GradApply<kOwnsAll>{in<double>(run, 2), means, gamma, whole.of_piece(box), whole.all_groups(), OwnedBox(box, run.owned)},
          {in<float>(run, 0), in<float>(run, 1)}, out<float>(run, 0), piece.samples, piece.sheet, run.queue);
    };
    run.owned.contains(box) ? start.template operator()<true>() : start.template operator()<false>();
  });
}

// The sums are partial results of two rows, each of as many splits as there are samples.
std::unique_ptr<Kernel> make_grad_params(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const int channels = static_cast<int>(call.site.out(0).shape[0]);
  const std::int64_t samples = call.site.in(0).shape[1] / channels;
  return make_kernel("fold", 0, [=](const KernelRun& run) {
    FoldProgram<SumPartial, GradParamsEnd> fold{
        in<SumPartial>(run, 0), samples, channels, channels, 1, 0, 2 * channels, {out<float>(run, 0), out<float>(run, 1), channels}};
    fold.start(run.queue);
  });
}

}  // namespace

void cuda_group_norm(KernelTable& table) {
  table.add("group_norm_stats", make_stats);
  table.add("group_norm_apply", make_apply);
  table.add("group_norm_grad_stats", make_grad_stats);
  table.add("group_norm_grad_apply", make_grad_apply);
  table.add("group_norm_grad_params", make_grad_params);
}

}  // namespace outsize::OUTSIZE_PLACE
