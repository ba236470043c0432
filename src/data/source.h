#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace outsize {

// What a training step takes: samples `x` and their labels or targets `y`, samples first in both.
struct BatchSpec {
  DType x_dtype = DType::f32;
  Dims x_shape;
  DType y_dtype = DType::i32;
  Dims y_shape;
  std::int64_t classes = 0;                   // where y holds labels: they are in [0, classes)
  std::int64_t x_classes = 0;                 // where x holds tokens (i32): they are in [0, x_classes)
  std::optional<std::int64_t> ignored_label;  // a label that stands for none

  std::int64_t batch() const { return x_shape[0]; }
};

// One batch, dense row-major in the dtypes of its spec.
struct Batch {
  std::vector<std::byte> x;
  std::vector<std::byte> y;
};

// Where batches come from. Batch i is always the same, whenever it is asked for.
class DataSource {
 public:
  virtual ~DataSource() = default;
  // "synthetic" or the file's name.
  virtual std::string name() const = 0;
  // How many full batches make an epoch; 0: there is no end.
  virtual std::int64_t batches_per_epoch() const = 0;
  virtual void fill(std::int64_t step, Batch& batch) const = 0;
};

// A task that can be learnt, drawn from `seed`: each class is a pattern of low frequency, each sample a pattern plus noise. Targets
// are a second pattern of the sample's class; labels of every position say how high its pattern is there. Where x holds tokens, a
// class is a cycle of a few tokens, of which some are replaced by noise, and labels of every position are the cycle's next token.
std::unique_ptr<DataSource> make_synthetic_source(const BatchSpec& spec, std::uint64_t seed);

// The arrays `x` (float32, float64, or uint8 that is scaled to [0, 1]; whole numbers of any type where it holds tokens) and `y` of
// an .npz file. An incomplete last batch is left out. With `shuffle` each epoch has its own order, drawn from `seed`. Throws
// UserError when the arrays do not fit the spec.
std::unique_ptr<DataSource> make_npz_source(const std::string& path, const BatchSpec& spec, bool shuffle, std::uint64_t seed);

}  // namespace outsize
