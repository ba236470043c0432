#include <cmath>

#include "ops/cpu_support.h"
#include "ops/registry.h"

namespace outsize {

namespace {

const std::int32_t* i32(const std::byte* data) { return reinterpret_cast<const std::int32_t*>(data); }

// Labels come with the data, so a bad one is the user's to mend.
void check_labels(const std::int32_t* labels, std::int64_t rows, std::int64_t classes, std::int64_t first_row) {
  for (std::int64_t i = 0; i < rows; ++i)
    if (labels[i] < 0 || labels[i] >= classes)
      user_error("label {} of sample {} is outside [0, {}); labels must count the classes from 0", labels[i], first_row + i,
                 classes);
}

float largest(const float* row, std::int64_t classes) {
  float most = row[0];
  for (std::int64_t k = 1; k < classes; ++k) most = row[k] > most ? row[k] : most;
  return most;
}

// exp by lines of f32, summed in f64: a row of millions of classes keeps its small terms.
double sum_of_exponentials(const float* row, std::int64_t classes, float most) {
  double sum = 0;
  for (std::int64_t k = 0; k < classes; ++k) sum += static_cast<double>(std::exp(row[k] - most));
  return sum;
}

struct Rows {
  std::int64_t rows;
  std::int64_t classes;
  std::int64_t all_rows;  // of the value: what the mean divides by

  explicit Rows(const Call& call)
      : rows(call.boxes.in[0].extent(0)), classes(call.site.in(0).shape[1]), all_rows(call.site.in(0).shape[0]) {
    OUTSIZE_CHECK(call.boxes.in[0].extent(1) == classes);
  }
  std::int64_t work() const { return rows * classes * 32; }  // exp costs more than its bytes
};

class CrossEntropy : public Kernel {
 public:
  explicit CrossEntropy(const Rows& shape) : shape_(shape) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return shape_.rows * size_of(DType::f64); }
  void run(const KernelRun& run) const override {
    const float* const logits = f32(run.in[0]);
    const std::int32_t* const labels = i32(run.in[1]);
    check_labels(labels, shape_.rows, shape_.classes, run.in_boxes[0].lo[0]);
    double* const losses = f64(run.workspace);
    parallel_for(shape_.rows, shape_.work(), [&](std::int64_t n) {
      const float* const row = logits + n * shape_.classes;
      const float most = largest(row, shape_.classes);
      losses[n] = std::log(sum_of_exponentials(row, shape_.classes, most)) - static_cast<double>(row[labels[n]] - most);
    });
    double total = 0;
    for (std::int64_t n = 0; n < shape_.rows; ++n) total += losses[n];
    *f32(run.out[0]) = static_cast<float>(total / static_cast<double>(shape_.all_rows));
  }

 private:
  Rows shape_;
};

class CrossEntropyGrad : public Kernel {
 public:
  explicit CrossEntropyGrad(const Rows& shape) : shape_(shape) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const logits = f32(run.in[0]);
    const std::int32_t* const labels = i32(run.in[1]);
    check_labels(labels, shape_.rows, shape_.classes, run.in_boxes[0].lo[0]);
    const float scale = *f32(run.in[2]) / static_cast<float>(shape_.all_rows);
    float* const gradient = f32(run.out[0]);
    parallel_for(shape_.rows, shape_.work(), [&](std::int64_t n) {
      const float* const row = logits + n * shape_.classes;
      float* const out = gradient + n * shape_.classes;
      const float most = largest(row, shape_.classes);
      double sum = 0;
      for (std::int64_t k = 0; k < shape_.classes; ++k) {
        out[k] = std::exp(row[k] - most);
        sum += static_cast<double>(out[k]);
      }
      const float factor = static_cast<float>(static_cast<double>(scale) / sum);
      for (std::int64_t k = 0; k < shape_.classes; ++k) out[k] *= factor;
      out[labels[n]] -= scale;
    });
  }

 private:
  Rows shape_;
};

template <class Made>
std::unique_ptr<Kernel> make(const Call& call, const StorageRule&) {
  require_f32(call);
  return std::make_unique<Made>(Rows(call));
}

}  // namespace

void cpu_softmax_cross_entropy(KernelTable& table) {
  table.add("softmax_cross_entropy", make<CrossEntropy>);
  table.add("softmax_cross_entropy_grad", make<CrossEntropyGrad>);
}

}  // namespace outsize
