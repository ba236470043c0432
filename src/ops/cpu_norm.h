#pragma once

#include "ops/cpu_norm_loops.h"

// What batch norm and group norm share on the CPU: passes over a map piece with factors or sums a channel, for all samples together
// or for each alone. All are bound by memory: every pass reads each of its maps once and writes once. Sums are taken in an order
// that depends on the box alone, never on the number of threads.
namespace outsize::map_norm {

// Which elements share a channel's statistics and factors.
enum class Over : std::uint8_t { batch, sample };

// Positions of a task, the unit that threads share.
inline constexpr std::int64_t kTask = 8192;

// A map piece cut into tasks. A cell is what has statistics of its own: a channel block, of all samples or of one. Each task lies
// in one cell: some positions of one sample, or all positions of some samples.
struct Tasks {
  Tasks(const MapPiece& map, Over over)
      : piece(map),
        segments(std::max<std::int64_t>(1, chunks_of(map.positions(), kTask))),
        samples(over == Over::sample ? 1 : std::max<std::int64_t>(1, kTask / std::max<std::int64_t>(1, map.positions()))),
        cells(over == Over::sample ? map.planes() : map.blocks),
        per_cell(over == Over::sample ? segments
                 : segments > 1       ? map.samples * segments
                                      : chunks_of(map.samples, samples)) {}

  std::int64_t count() const { return cells * per_cell; }
  std::int64_t cell_of(std::int64_t task) const { return task / per_cell; }
  // The cell of a channel of the piece; of all samples together only sample 0 counts.
  std::int64_t cell(std::int64_t sample, std::int64_t channel) const { return sample * piece.blocks + channel / piece.block; }
  // visit(offset in elements, positions) for every contiguous part of a task.
  template <class Visit>
  void visit(std::int64_t task, const Visit& visit) const {
    const std::int64_t index = task % per_cell;
    // In a cell of one sample, `first` is its plane; else the first plane of its block.
    const std::int64_t first = cell_of(task);
    if (segments > 1) {
      const std::int64_t from = index % segments * kTask;
      visit((index / segments * piece.blocks + first) * piece.plane() + from * piece.block,
            std::min(kTask, piece.positions() - from));
      return;
    }
    const std::int64_t end = std::min(piece.samples, (index + 1) * samples);
    for (std::int64_t n = index * samples; n < end; ++n) visit((n * piece.blocks + first) * piece.plane(), piece.positions());
  }

  MapPiece piece;
  std::int64_t segments;  // of one sample
  std::int64_t samples;   // of one task
  std::int64_t cells;
  std::int64_t per_cell;  // tasks a cell
};

// Count, mean and sum of squared deviations.
struct Moment {
  double count = 0;
  double mean = 0;
  double m2 = 0;

  // Chan's rule.
  void merge(const Moment& part) {
    if (part.count == 0) return;
    const double total = count + part.count;
    const double delta = part.mean - mean;
    mean += delta * (part.count / total);
    m2 += part.m2 + delta * delta * (count * part.count / total);
    count = total;
  }
};

// The moments of every channel of every cell, kept in a workspace as a record a task: a count, then means, then m2s.
class MomentPass {
 public:
  MomentPass(const MapPiece& x, Over over) : tasks_(x, over), record_(1 + 2 * x.block) {}
  std::int64_t workspace_bytes() const { return tasks_.count() * record_ * size_of(DType::f64); }
  const MapPiece& piece() const { return tasks_.piece; }

  void run(const float* x, double* workspace) const {
    parallel_for(tasks_.count(), piece().elements() * 4, [&](std::int64_t task) {
      double* const moments = workspace + task * record_;
      std::fill_n(moments, record_, 0.0);
      tasks_.visit(task, [&](std::int64_t offset, std::int64_t positions) {
        norm_loops::add_moments(piece().block, x + offset, positions, moments);
      });
    });
  }

  // After run: of one channel of the piece in one sample, or in all (sample 0).
  Moment moment(const double* workspace, std::int64_t sample, std::int64_t channel) const {
    const std::int64_t lane = channel % piece().block;
    const double* record = workspace + tasks_.cell(sample, channel) * tasks_.per_cell * record_;
    Moment all;
    for (std::int64_t task = 0; task < tasks_.per_cell; ++task, record += record_)
      all.merge({record[0], record[1 + lane], record[1 + piece().block + lane]});
    return all;
  }

 private:
  Tasks tasks_;
  std::int64_t record_;
};

// Σ dy and Σ dy · (x − mean) of every channel of every cell, kept in a workspace as a record a task.
class GradientPass {
 public:
  GradientPass(const MapPiece& x, Over over) : tasks_(x, over), record_(2 * x.block) {}
  std::int64_t workspace_bytes() const { return tasks_.count() * record_ * size_of(DType::f64); }
  const MapPiece& piece() const { return tasks_.piece; }
  // Of each factor that run() wants: a number for each channel, padding included, of each cell.
  std::int64_t factors() const { return tasks_.cells * piece().block; }

  // Of the factors only the mean is wanted, unless the norm gates dy: then what meets a norm of 0 or less is left out.
  void run(bool gated, const float* dy, const float* x, const norm_loops::ApplyFactors& factors, double* workspace) const {
    parallel_for(tasks_.count(), piece().elements() * 8, [&](std::int64_t task) {
      double* const sums = workspace + task * record_;
      std::fill_n(sums, record_, 0.0);
      tasks_.visit(task, [&](std::int64_t offset, std::int64_t positions) {
        norm_loops::add_gradient_sums(piece().block, gated, dy + offset, x + offset,
                                      factors.at(tasks_.cell_of(task) * piece().block), positions, sums);
      });
    });
  }

  struct Sums {
    double total = 0;     // Σ dy
    double weighted = 0;  // Σ dy · (x − mean)
  };
  // After run: of one channel of the piece in one sample, or in all (sample 0).
  Sums sums(const double* workspace, std::int64_t sample, std::int64_t channel) const {
    const double* record = workspace + tasks_.cell(sample, channel) * tasks_.per_cell * record_ + channel % piece().block;
    Sums all;
    for (std::int64_t task = 0; task < tasks_.per_cell; ++task, record += record_) {
      all.total += record[0];
      all.weighted += record[piece().block];
    }
    return all;
  }

 private:
  Tasks tasks_;
  std::int64_t record_;
};

// Rows of factors: one for all samples, or one for each; a row has a number for each channel, padding included.
struct FactorRows {
  FactorRows(const MapPiece& piece, Over over)
      : blocks(piece.blocks), width(piece.padded_channels()), rows(over == Over::sample ? piece.samples : 1) {}
  std::int64_t size() const { return rows * width; }
  std::int64_t at(std::int64_t sample, std::int64_t channel) const { return sample * width + channel; }
  // Where the factors of a plane (a channel block of a sample) begin.
  std::int64_t of_plane(std::int64_t plane, std::int64_t block) const { return plane % (rows * blocks) * block; }

  std::int64_t blocks;
  std::int64_t width;
  std::int64_t rows;
};

// y = activation((x - mean) * scale + shift + residual). `factors` points to the rows; the residual may be null.
inline void apply_map(const MapPiece& piece, const FactorRows& rows, bool relu, const norm_loops::ApplyFactors& factors,
                      const float* x, const float* residual, float* y) {
  constexpr std::int64_t kPart = 1024;
  const std::int64_t parts = chunks_of(piece.positions(), kPart);
  parallel_for(piece.planes() * parts, piece.elements() * (residual != nullptr ? 12 : 8), [&](std::int64_t i) {
    const std::int64_t plane = i / parts;
    const std::int64_t from = i % parts * kPart;
    const std::int64_t offset = plane * piece.plane() + from * piece.block;
    const std::int64_t row = rows.of_plane(plane, piece.block);
    norm_loops::apply(piece.block, relu, factors.at(row), x + offset, residual == nullptr ? nullptr : residual + offset, y + offset,
                      std::min(kPart, piece.positions() - from));
  });
}

// Whether a call applies the terms that belong to all of a channel to its elements of this one.
inline bool owns_channel(const KernelRun& run, std::int64_t channel) {
  return channel >= run.owned.lo[1] && channel < run.owned.hi[1];
}

// dx = scale * dy - (shift + (x - mean) * slope) in the samples and the space of `owned`; elsewhere scale * dy. `factors` points to
// the rows; shift and slope of channels that are not owned are 0. Where the factors have the norm's shift, dy counts where the norm
// is above 0.
inline void grad_map(const MapPiece& piece, const FactorRows& rows, const norm_loops::GradFactors& factors, const Box& box,
                     const Box& owned_by_call, const float* dy, const float* x, float* dx) {
  const Box owned = intersect(owned_by_call, box);
  const int w = box.rank() - 1;
  const int h = w - 1;
  const auto inside = [&](int dim, std::int64_t position) { return position >= owned.lo[dim] && position < owned.hi[dim]; };
  const bool whole_lines = owned[w] == box[w];
  // Lines are grouped so that a task is neither a few bytes nor more than a share of the cache.
  const std::int64_t lines = piece.depth * piece.height;
  const std::int64_t group = std::max<std::int64_t>(1, 1024 / std::max<std::int64_t>(1, piece.width));
  const std::int64_t groups = chunks_of(lines, group);
  parallel_for(piece.planes() * groups, piece.elements() * 12, [&](std::int64_t i) {
    const std::int64_t plane = i / groups;
    const std::int64_t row = rows.of_plane(plane, piece.block);
    const norm_loops::GradFactors here = factors.at(row);
    const bool owned_sample = !owned.empty() && inside(0, box.lo[0] + plane / piece.blocks);
    const auto owned_line = [&](std::int64_t line) {
      return owned_sample && inside(h, box.lo[h] + line % piece.height) && (h == 2 || inside(2, box.lo[2] + line / piece.height));
    };
    const auto part = [&](bool is_owned, std::int64_t from, std::int64_t to) {
      const std::int64_t offset = plane * piece.plane() + from * piece.block;
      norm_loops::grad_positions(piece.block, is_owned, here, dy + offset, x + offset, dx + offset, to - from);
    };
    const std::int64_t end = std::min(lines, (i % groups + 1) * group);
    for (std::int64_t line = i % groups * group; line < end;) {
      const bool is_owned = owned_line(line);
      const std::int64_t start = line * piece.width;
      if (is_owned && !whole_lines) {
        part(false, start, start + owned.lo[w] - box.lo[w]);
        part(true, start + owned.lo[w] - box.lo[w], start + owned.hi[w] - box.lo[w]);
        part(false, start + owned.hi[w] - box.lo[w], start + piece.width);
        ++line;
        continue;
      }
      while (line < end && owned_line(line) == is_owned) ++line;
      part(is_owned, start, line * piece.width);
    }
  });
}

}  // namespace outsize::map_norm
