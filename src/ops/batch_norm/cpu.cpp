#include <cmath>

#include "ops/batch_norm/cpu_loops.h"
#include "ops/registry.h"

// All of these are bound by memory: every kernel reads each of its maps once and writes once. Sums are taken in f32 over short
// runs that stay in the cache and in f64 beyond, in an order that depends on the box alone, never on the number of threads.
namespace outsize {

namespace {

using namespace batch_norm_loops;

// Positions of a task, the unit that threads share.
constexpr std::int64_t kTask = 8192;

// A map piece cut into tasks, each inside one channel block: some positions of one sample, or all positions of some samples.
struct Tasks {
  explicit Tasks(const MapPiece& map)
      : piece(map),
        segments(std::max<std::int64_t>(1, chunks_of(map.positions(), kTask))),
        samples(std::max<std::int64_t>(1, kTask / std::max<std::int64_t>(1, map.positions()))),
        per_block(segments > 1 ? map.samples * segments : chunks_of(map.samples, samples)) {}

  std::int64_t count() const { return piece.blocks * per_block; }
  std::int64_t block_of(std::int64_t task) const { return task / per_block; }
  // visit(offset in elements, positions) for every contiguous part of a task.
  template <class Visit>
  void visit(std::int64_t task, const Visit& visit) const {
    const std::int64_t block = block_of(task);
    const std::int64_t index = task % per_block;
    if (segments > 1) {
      const std::int64_t from = index % segments * kTask;
      visit(((index / segments) * piece.blocks + block) * piece.plane() + from * piece.block,
            std::min(kTask, piece.positions() - from));
      return;
    }
    const std::int64_t end = std::min(piece.samples, (index + 1) * samples);
    for (std::int64_t n = index * samples; n < end; ++n) visit((n * piece.blocks + block) * piece.plane(), piece.positions());
  }

  MapPiece piece;
  std::int64_t segments;   // of one sample
  std::int64_t samples;    // of one task
  std::int64_t per_block;  // tasks a channel block
};

// The workspace's record of one task: count, then a mean and an m2 a channel.
std::int64_t moment_record(std::int64_t block) { return 1 + 2 * block; }

class Stats : public Kernel {
 public:
  Stats(const MapPiece& x, std::int64_t channels) : tasks_(x), channels_(channels) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return tasks_.count() * moment_record(tasks_.piece.block) * size_of(DType::f64); }

  void run(const KernelRun& run) const override {
    const float* const x = f32(run.in[0]);
    const MapPiece& piece = tasks_.piece;
    const std::int64_t record = moment_record(piece.block);
    double* const partial = f64(run.workspace);
    parallel_for(tasks_.count(), piece.elements() * 4, [&](std::int64_t task) {
      double* const moments = partial + task * record;
      std::fill_n(moments, record, 0.0);
      tasks_.visit(task,
                   [&](std::int64_t offset, std::int64_t positions) { add_moments(piece.block, x + offset, positions, moments); });
    });
    double* const stats = f64(run.out[0]);
    std::fill_n(stats, 3 * channels_, 0.0);
    const std::int64_t first = run.in_boxes[0].lo[1];
    for (std::int64_t c = 0; c < piece.channels; ++c)
      combine(partial + (c / piece.block) * tasks_.per_block * record, c % piece.block, stats + first + c);
  }

 private:
  // Merges one channel of all tasks of its block, pair by pair (Chan's rule).
  void combine(const double* records, std::int64_t lane, double* stats) const {
    const std::int64_t block = tasks_.piece.block;
    double count = 0, mean = 0, m2 = 0;
    for (std::int64_t task = 0; task < tasks_.per_block; ++task, records += moment_record(block)) {
      const double own = records[0];
      const double total = count + own;
      const double delta = records[1 + lane] - mean;
      mean += delta * (own / total);
      m2 += records[1 + block + lane] + delta * delta * (count * own / total);
      count = total;
    }
    stats[0] = count;
    stats[channels_] = mean;
    stats[2 * channels_] = m2;
  }

  Tasks tasks_;
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

class Apply : public Kernel {
 public:
  Apply(const MapPiece& x, std::int64_t channels, bool residual, bool relu)
      : piece_(x), channels_(channels), residual_(residual), relu_(relu) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return 3 * piece_.padded_channels() * size_of(DType::f32); }

  void run(const KernelRun& run) const override {
    const std::int64_t first = run.in_boxes[0].lo[1];
    const std::int64_t padded = piece_.padded_channels();
    float* const mean = f32(run.workspace);
    float* const scale = mean + padded;
    float* const shift = scale + padded;
    std::fill_n(mean, 3 * padded, 0.0f);
    for (std::int64_t c = 0; c < piece_.channels; ++c) {
      const double exact = f64(run.in[1])[first + c];
      const double factor = f64(run.in[1])[channels_ + first + c] * static_cast<double>(f32(run.in[2])[first + c]);
      mean[c] = static_cast<float>(exact);
      scale[c] = static_cast<float>(factor);
      shift[c] =
          static_cast<float>(static_cast<double>(f32(run.in[3])[first + c]) - (exact - static_cast<double>(mean[c])) * factor);
    }
    const float* const x = f32(run.in[0]);
    const float* const residual = residual_ ? f32(run.in[4]) : nullptr;
    float* const y = f32(run.out[0]);
    const std::int64_t parts = chunks_of(piece_.positions(), kPart);
    parallel_for(piece_.planes() * parts, piece_.elements() * (residual_ ? 12 : 8), [&](std::int64_t i) {
      const std::int64_t plane = i / parts;
      const std::int64_t from = i % parts * kPart;
      const std::int64_t offset = plane * piece_.plane() + from * piece_.block;
      const std::int64_t channel = plane % piece_.blocks * piece_.block;
      apply(piece_.block, relu_, {mean + channel, scale + channel, shift + channel}, x + offset,
            residual == nullptr ? nullptr : residual + offset, y + offset, std::min(kPart, piece_.positions() - from));
    });
  }

 private:
  static constexpr std::int64_t kPart = 1024;
  MapPiece piece_;
  std::int64_t channels_;
  bool residual_;
  bool relu_;
};

class GradStats : public Kernel {
 public:
  GradStats(const MapPiece& x, std::int64_t channels) : tasks_(x), channels_(channels) {
    sums_ = workspace_.book(tasks_.count() * 2 * x.block * size_of(DType::f64));
    mean_ = workspace_.book(x.padded_channels() * size_of(DType::f32));
  }
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }

  void run(const KernelRun& run) const override {
    const MapPiece& piece = tasks_.piece;
    const std::int64_t first = run.in_boxes[0].lo[1];
    const double* const moments = f64(run.in[2]);
    float* const mean = f32(run.workspace + mean_);
    std::fill_n(mean, piece.padded_channels(), 0.0f);
    for (std::int64_t c = 0; c < piece.channels; ++c) mean[c] = static_cast<float>(moments[first + c]);
    const float* const dy = f32(run.in[0]);
    const float* const x = f32(run.in[1]);
    double* const partial = f64(run.workspace + sums_);
    const std::int64_t record = 2 * piece.block;
    parallel_for(tasks_.count(), piece.elements() * 8, [&](std::int64_t task) {
      double* const sums = partial + task * record;
      std::fill_n(sums, record, 0.0);
      tasks_.visit(task, [&](std::int64_t offset, std::int64_t positions) {
        add_gradient_sums(piece.block, dy + offset, x + offset, mean + tasks_.block_of(task) * piece.block, positions, sums);
      });
    });
    double* const sums = f64(run.out[0]);
    std::fill_n(sums, 2 * channels_, 0.0);
    for (std::int64_t c = 0; c < piece.channels; ++c) {
      const double* records = partial + (c / piece.block) * tasks_.per_block * record + c % piece.block;
      double total = 0, weighted = 0;
      for (std::int64_t task = 0; task < tasks_.per_block; ++task, records += record) {
        total += records[0];
        weighted += records[piece.block];
      }
      // The runs took deviations from the mean as f32 has it.
      const double drift = moments[first + c] - static_cast<double>(mean[c]);
      sums[first + c] = total;
      sums[channels_ + first + c] = (weighted - drift * total) * moments[channels_ + first + c];
    }
  }

 private:
  Tasks tasks_;
  std::int64_t channels_;
  Workspace workspace_;
  std::int64_t sums_;
  std::int64_t mean_;
};

class GradApply : public Kernel {
 public:
  GradApply(const MapPiece& x, const Dims& shape) : piece_(x), channels_(shape[1]), count_(shape[0] * shape[2] * shape[3]) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return 4 * piece_.padded_channels() * size_of(DType::f32); }

  void run(const KernelRun& run) const override {
    const Box& box = run.in_boxes[0];
    const float* const factors = prepare_factors(run, box.lo[1]);
    const Box owned = intersect(run.owned, box);
    const bool all_channels = owned[1] == box[1];
    OUTSIZE_CHECK(owned.empty() || all_channels);
    const float* const dy = f32(run.in[0]);
    const float* const x = f32(run.in[1]);
    float* const dx = f32(run.out[0]);
    const bool whole_rows = owned.empty() || owned[3] == box[3];
    // Rows are grouped so that a task is neither a few bytes nor more than a share of the cache.
    const std::int64_t group = std::max<std::int64_t>(1, 1024 / std::max<std::int64_t>(1, piece_.width));
    const std::int64_t groups = chunks_of(piece_.height, group);
    parallel_for(piece_.planes() * groups, piece_.elements() * 12, [&](std::int64_t i) {
      const std::int64_t plane = i / groups;
      const std::int64_t padded = piece_.padded_channels();
      const float* const own = factors + plane % piece_.blocks * piece_.block;
      const GradFactors here{own, own + padded, own + 2 * padded, own + 3 * padded};
      const bool owned_sample = !owned.empty() && contains(owned[0], box.lo[0] + plane / piece_.blocks);
      const auto part = [&](bool is_owned, std::int64_t row, Interval columns, std::int64_t rows) {
        const std::int64_t offset = plane * piece_.plane() + row * piece_.row() + columns.lo * piece_.block;
        grad_positions(piece_.block, is_owned, here, dy + offset, x + offset, dx + offset,
                       rows > 1 ? rows * piece_.width : columns.size());
      };
      const Interval all{0, piece_.width};
      const Interval rows{i % groups * group, std::min(piece_.height, (i % groups + 1) * group)};
      const Interval inside = owned_sample ? intersect(rows, {owned.lo[2] - box.lo[2], owned.hi[2] - box.lo[2]}) : Interval{};
      if (inside.empty()) return part(false, rows.lo, all, rows.size());
      if (inside.lo > rows.lo) part(false, rows.lo, all, inside.lo - rows.lo);
      if (whole_rows) {
        part(true, inside.lo, all, inside.size());
      } else {
        const Interval columns{owned.lo[3] - box.lo[3], owned.hi[3] - box.lo[3]};
        for (std::int64_t row = inside.lo; row < inside.hi; ++row) {
          part(false, row, {0, columns.lo}, 1);
          part(true, row, columns, 1);
          part(false, row, {columns.hi, piece_.width}, 1);
        }
      }
      if (inside.hi < rows.hi) part(false, inside.hi, all, rows.hi - inside.hi);
    });
  }

 private:
  static bool contains(Interval range, std::int64_t position) { return position >= range.lo && position < range.hi; }

  // scale, shift, mean and slope of every channel, in the workspace.
  const float* prepare_factors(const KernelRun& run, std::int64_t first) const {
    const std::int64_t padded = piece_.padded_channels();
    float* const scale = f32(run.workspace);
    std::fill_n(scale, 4 * padded, 0.0f);
    const double* const moments = f64(run.in[2]) + first;
    const double* const sums = f64(run.in[3]) + first;
    const double n = static_cast<double>(count_);
    for (std::int64_t c = 0; c < piece_.channels; ++c) {
      const double inv_std = moments[channels_ + c];
      const double slope = sums[channels_ + c] / n * inv_std;
      const float mean = static_cast<float>(moments[c]);
      scale[c] = static_cast<float>(static_cast<double>(f32(run.in[4])[first + c]) * inv_std);
      scale[padded + c] = static_cast<float>(sums[c] / n - (moments[c] - static_cast<double>(mean)) * slope);
      scale[2 * padded + c] = mean;
      scale[3 * padded + c] = static_cast<float>(slope);
    }
    return scale;
  }

  MapPiece piece_;
  std::int64_t channels_;
  std::int64_t count_;  // elements a channel of the value
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
  return std::make_unique<GradStats>(MapPiece(storage, call.boxes.in[0]), call.site.in(0).shape[1]);
}

std::unique_ptr<Kernel> make_grad_apply(const Call& call, const StorageRule& storage) {
  check(call, storage, call.site.in(0));
  return std::make_unique<GradApply>(MapPiece(storage, call.boxes.in[0]), call.site.in(0).shape);
}

std::unique_ptr<Kernel> make_grad_params(const Call& call, const StorageRule& storage) {
  check(call, storage, call.site.out(0));
  return std::make_unique<GradParams>(call.site.in(0).shape[1]);
}

}  // namespace

void cpu_batch_norm(KernelTable& table) {
  table.add("batch_norm_stats", make_stats);
  table.add("batch_norm_finalize", make_finalize);
  table.add("batch_norm_update", make_update);
  table.add("batch_norm_apply", make_apply);
  table.add("batch_norm_grad_stats", make_grad_stats);
  table.add("batch_norm_grad_apply", make_grad_apply);
  table.add("batch_norm_grad_params", make_grad_params);
}

}  // namespace outsize
