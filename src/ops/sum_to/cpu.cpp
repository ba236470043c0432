#include "ops/cpu_reduction.h"

// Sums are taken in f32 over short runs, and in f64 beyond. The axes of x as stored are kept or summed, in turn; the innermost two
// are a matrix, whose rows (a summed axis inside) or columns (a kept axis inside) are added up.
namespace outsize {

namespace {

constexpr std::int64_t kRun = 256;         // terms added in f32
constexpr std::int64_t kSegment = 512;     // results that a task holds
constexpr std::int64_t kPart = 1 << 16;    // elements worth a task
constexpr std::int64_t kEnoughTasks = 64;  // then summed axes are not cut

template <int B>
OUTSIZE_INLINE void add_blocks(const float* x, std::int64_t rows, float* sum) {
  std::int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    const float* const p = x + i * B;
#pragma omp simd
    for (int c = 0; c < B; ++c) sum[c] += (p[c] + p[B + c]) + (p[2 * B + c] + p[3 * B + c]);
  }
  for (; i < rows; ++i) {
#pragma omp simd
    for (int c = 0; c < B; ++c) sum[c] += x[i * B + c];
  }
}

// Adds the sum of each row of `length` elements.
OUTSIZE_CLONES void add_rows(const float* x, std::int64_t rows, std::int64_t stride, std::int64_t length, double* sums) {
  constexpr int B = 16;
  for (std::int64_t row = 0; row < rows; ++row, x += stride) {
    double total = 0;
    for (std::int64_t from = 0; from < length; from += kRun * B) {
      const std::int64_t count = std::min(kRun * B, length - from);
      float lanes[B] = {};
      add_blocks<B>(x + from, count / B, lanes);
      float rest = 0;
      for (std::int64_t i = count / B * B; i < count; ++i) rest += x[from + i];
#pragma omp simd reduction(+ : rest)
      for (int c = 0; c < B; ++c) rest += lanes[c];
      total += static_cast<double>(rest);
    }
    sums[row] += total;
  }
}

template <int B>
OUTSIZE_INLINE void add_narrow_columns(const float* x, std::int64_t rows, double* sums) {
  for (std::int64_t from = 0; from < rows; from += kRun) {
    float lanes[B] = {};
    add_blocks<B>(x + from * B, std::min(kRun, rows - from), lanes);
    for (int c = 0; c < B; ++c) sums[c] += static_cast<double>(lanes[c]);
  }
}

// Adds the sum of each of `width` <= kSegment columns.
OUTSIZE_CLONES void add_columns(const float* x, std::int64_t rows, std::int64_t stride, std::int64_t width, double* sums) {
  if (width == 8 && stride == 8) return add_narrow_columns<8>(x, rows, sums);
  if (width == 16 && stride == 16) return add_narrow_columns<16>(x, rows, sums);
  float lanes[kSegment];
  for (std::int64_t from = 0; from < rows; from += kRun) {
    const std::int64_t to = std::min(rows, from + kRun);
    std::fill_n(lanes, width, 0.0f);
    std::int64_t row = from;
    for (; row + 4 <= to; row += 4) {
      const float* const p0 = x + row * stride;
      const float* const p1 = p0 + stride;
      const float* const p2 = p1 + stride;
      const float* const p3 = p2 + stride;
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j) lanes[j] += (p0[j] + p1[j]) + (p2[j] + p3[j]);
    }
    for (; row < to; ++row) {
      const float* const p = x + row * stride;
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j) lanes[j] += p[j];
    }
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) sums[j] += static_cast<double>(lanes[j]);
  }
}

OUTSIZE_CLONES void scale_to(const double* sums, std::int64_t stride, double scale, float* y, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(scale * sums[i * stride]);
}

OUTSIZE_CLONES void add_into(const double* from, double* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

// Up to as many loops as a stored value has axes, the last the innermost.
struct Loops {
  std::array<std::int64_t, Dims::kMaxRank + 1> extent{};
  std::array<std::int64_t, Dims::kMaxRank + 1> step{};
  int depth = 0;
  std::int64_t count = 1;

  void prepend(std::int64_t loop_extent, std::int64_t loop_step) {
    for (int i = depth++; i > 0; --i) {
      extent[at(i)] = extent[at(i - 1)];
      step[at(i)] = step[at(i - 1)];
    }
    extent[0] = loop_extent;
    step[0] = loop_step;
    count *= loop_extent;
  }
  std::int64_t offset(std::int64_t index) const {
    std::int64_t total = 0;
    for (int i = depth - 1; i >= 0; --i) {
      total += index % extent[at(i)] * step[at(i)];
      index /= extent[at(i)];
    }
    return total;
  }
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
};

class ReductionKernel final : public Kernel {
 public:
  ReductionKernel(const Call& call, const StorageRule& storage, const Reduction& reduction, double scale)
      : reduction_(reduction), scale_(scale), block_(reduction.x_map ? storage.channel_block : 1) {
    y_map_ = call.site.out(0).format == Format::map;
    y_elements_ = output_elements(call, storage, 0);
    x_elements_ = input_elements(call, storage, 0);
    read_axes(call.boxes.in[0]);
    results_ = outer_.count * rows_ * width_;
    // The sums are in the order of the axes kept: y itself unless y has no channel blocks, or only one channel, where x has more.
    direct_ = !reduction.x_map || (y_map_ && !reduction.sums(1));
    cut();
  }
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return in_place() ? 0 : results_ * parts_ * size_of(DType::f64); }

  void run(const KernelRun& run) const override {
    const float* const x = f32(run.in[0]);
    float* const y = f32(run.out[0]);
    double* const sums = f64(run.workspace);
    parallel_for(outer_.count * segments_ * parts_, x_elements_ * 4, [&](std::int64_t task) {
      const std::int64_t part = task / (outer_.count * segments_);
      const std::int64_t segment = task % segments_;
      const std::int64_t outer = task / segments_ % outer_.count;
      double own[kSegment] = {};
      const std::int64_t first = segment * segment_size_;
      const std::int64_t count = std::min(segment_size_, rows_ * width_ - first);
      add_part(x + outer_.offset(outer), part, first, count, own);
      const std::int64_t at = outer * rows_ * width_ + first;
      if (in_place())
        scale_to(own, 1, scale_, y + at, count);
      else
        std::copy_n(own, count, sums + part * results_ + at);
    });
    if (in_place()) return;
    parallel_chunks(results_, results_ * parts_ * 8, [&](std::int64_t from, std::int64_t count) {
      for (std::int64_t part = 1; part < parts_; ++part) add_into(sums + part * results_ + from, sums + from, count);
      if (direct_) scale_to(sums + from, 1, scale_, y + from, count);
    });
    if (!direct_) write(sums, run.out_boxes[0], y);
  }

 private:
  bool in_place() const { return direct_ && parts_ == 1; }

  // The axes of x as stored, from the innermost outwards; neighbours of one kind are one.
  void read_axes(const Box& box) {
    struct Axis {
      std::int64_t extent;
      bool summed;
    };
    std::array<Axis, Dims::kMaxRank + 1> axes{};
    int count = 0;
    const auto add = [&](std::int64_t extent, bool summed) {
      if (extent == 1) return;
      if (count > 0 && axes[Loops::at(count - 1)].summed == summed)
        axes[Loops::at(count - 1)].extent *= extent;
      else
        axes[Loops::at(count++)] = {extent, summed};
    };
    kept_ = Dims::filled(box.rank(), 0);
    std::int64_t next = 1;
    const auto keep = [&](int dim, std::int64_t extent) {
      if (reduction_.sums(dim)) return;
      kept_[dim] = next;
      next *= extent;
    };
    if (reduction_.x_map) {
      add(block_, reduction_.sums(1));
      if (!reduction_.sums(1)) next = block_;
    }
    for (int dim = box.rank() - 1; dim >= 0; --dim) {
      const std::int64_t extent = reduction_.x_map && dim == 1 ? (box.extent(1) + block_ - 1) / block_ : box.extent(dim);
      add(extent, reduction_.sums(dim));
      keep(dim, extent);
    }

    int axis = 0;
    std::int64_t step = 1;
    if (count > 0 && axes[0].summed) {
      length_ = axes[0].extent;
      rows_ = count > 1 ? axes[1].extent : 1;
      axis = std::min(count, 2);
    } else if (count > 0) {
      width_ = axes[0].extent;
      length_ = count > 1 ? axes[1].extent : 1;
      axis = std::min(count, 2);
    }
    step = length_ * rows_ * width_;
    for (; axis < count; ++axis) {
      (axes[Loops::at(axis)].summed ? summed_ : outer_).prepend(axes[Loops::at(axis)].extent, step);
      step *= axes[Loops::at(axis)].extent;
    }
  }

  // Decides on tasks: segments of results, and parts of what is summed where that leaves too few.
  void cut() {
    const std::int64_t inner = rows_ * width_;
    segment_size_ =
        width_ > 1 ? std::min(kSegment, width_) : std::clamp(kPart / length_, std::int64_t{1}, std::min(kSegment, rows_));
    segments_ = chunks_of(inner, segment_size_);
    part_length_ = length_;
    part_loops_ = summed_.count;
    if (outer_.count * segments_ < kEnoughTasks) {
      part_length_ = std::clamp(kPart / segment_size_, std::int64_t{1}, length_);
      part_loops_ = std::clamp(kPart / (part_length_ * segment_size_), std::int64_t{1}, summed_.count);
      if (part_length_ < length_) part_loops_ = 1;
    }
    length_parts_ = chunks_of(length_, part_length_);
    parts_ = length_parts_ * chunks_of(summed_.count, part_loops_);
  }

  void add_part(const float* x, std::int64_t part, std::int64_t first, std::int64_t count, double* sums) const {
    const std::int64_t from = part % length_parts_ * part_length_;
    const std::int64_t length = std::min(part_length_, length_ - from);
    const std::int64_t loop = part / length_parts_ * part_loops_;
    for (std::int64_t i = loop; i < std::min(summed_.count, loop + part_loops_); ++i) {
      const float* const matrix = x + summed_.offset(i);
      if (width_ > 1)
        add_columns(matrix + from * width_ + first, length, width_, count, sums);
      else
        add_rows(matrix + first * length_ + from, count, length_, length, sums);
    }
  }

  // From the order of x's axes to y's, one row of y's last dimension after the other.
  void write(const double* sums, const Box& box, float* y) const {
    // The step of the sums along each dimension of y; that along the channels is by block.
    Dims steps = Dims::filled(box.rank(), 0);
    int channels = -1;
    for (int dim = 0; dim < reduction_.x.rank(); ++dim)
      if (!reduction_.sums(dim)) {
        steps[reduction_.to(dim)] = kept_[dim];
        if (dim == 1) channels = reduction_.to(dim);
      }
    const auto offset = [&](int dim, std::int64_t at) {
      return dim == channels ? at / block_ * steps[dim] + at % block_ : at * steps[dim];
    };
    const int last = box.rank() - 1;
    const std::int64_t length = box.extent(last);
    // A map here has one channel: an element is followed by the padding of its block.
    const std::int64_t spread = y_map_ ? block_ : 1;
    if (y_map_) fill_zero(y, y_elements_ * size_of(DType::f32));
    parallel_for(box.elements() / length, box.elements() * 12, [&](std::int64_t row) {
      std::int64_t from = 0;
      std::int64_t rest = row;
      for (int dim = last - 1; dim >= 0; --dim) {
        from += offset(dim, rest % box.extent(dim));
        rest /= box.extent(dim);
      }
      float* const to = y + row * length * spread;
      if (spread == 1 && last != channels)
        scale_to(sums + from, steps[last], scale_, to, length);
      else
        for (std::int64_t i = 0; i < length; ++i) to[i * spread] = static_cast<float>(scale_ * sums[from + offset(last, i)]);
    });
  }

  Reduction reduction_;
  double scale_;
  std::int64_t block_;
  bool y_map_;
  bool direct_;
  std::int64_t y_elements_;
  std::int64_t x_elements_;
  Dims kept_;     // the step of the sums along each dimension of x that is kept
  Loops outer_;   // kept
  Loops summed_;  // outside the matrix
  std::int64_t rows_ = 1;
  std::int64_t length_ = 1;
  std::int64_t width_ = 1;
  std::int64_t results_ = 1;
  std::int64_t segment_size_ = 1;
  std::int64_t segments_ = 1;
  std::int64_t part_length_ = 1;
  std::int64_t part_loops_ = 1;
  std::int64_t length_parts_ = 1;
  std::int64_t parts_ = 1;
};

std::unique_ptr<Kernel> make_sum_to(const Call& call, const StorageRule& storage) {
  return make_reduction(call, storage, reduction_to(call.site.in(0), call.site.out(0)), 1);
}

}  // namespace

std::unique_ptr<Kernel> make_reduction(const Call& call, const StorageRule& storage, const Reduction& reduction, double scale) {
  require_f32(call);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  if (reduction.x_map) require_blocks(call, storage);
  return std::make_unique<ReductionKernel>(call, storage, reduction, scale);
}

void cpu_sum_to(KernelTable& table) { table.add("sum_to", make_sum_to); }

}  // namespace outsize
