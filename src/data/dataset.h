#pragma once

#include <memory>
#include <string>

#include "base/box.h"
#include "base/dtype.h"
#include "base/error.h"

namespace outsize {

// One sample cannot be read: a damaged image, a file that is gone. The others can, so a Loader may go on without it.
class SampleError : public UserError {
 public:
  using UserError::UserError;
};

// Throws SampleError with a formatted message.
template <class... Args>
[[noreturn]] void sample_error(fmt::format_string<Args...> format, Args&&... args) {
  throw SampleError(fmt::format(format, std::forward<Args>(args)...));
}

// An open sample, used by one thread at a time where it does not say otherwise, and not longer than its dataset. Its elements
// depend on the dataset and its number alone, never on the windows they are read by, so that an image too large for memory can be
// read piece by piece.
class Sample {
 public:
  virtual ~Sample() = default;
  // Channels first, then rows and columns; or whatever the model takes for one sample.
  virtual Dims x_extents() const = 0;
  // Of its label: none. Of a label map: rows and columns.
  virtual Dims y_extents() const = 0;
  // Writes `window`, which lies in the sample, dense and row-major.
  virtual void read_x(const Box& window, DType dtype, std::byte* out) const = 0;
  virtual void read_y(const Box& window, DType dtype, std::byte* out) const = 0;
  // Whether several threads may read windows of x at a time.
  virtual bool for_several() const { return false; }
};

// A set of samples that can be opened at random and from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  // "synthetic", or what the user called it.
  virtual std::string name() const = 0;
  // A line for the user: how many samples of how many classes, and what is done to them.
  virtual std::string description() const = 0;
  // The number of samples; 0: there is no end.
  virtual std::int64_t size() const = 0;
  // Another, in all likelihood, where the samples are others: from names, sizes and a part of the contents, so that it is quick
  // for any set. 0 where name, seed and spec say everything.
  virtual std::uint32_t fingerprint() const { return 0; }
  // What messages call a sample: its file, where it has one.
  virtual std::string sample_name(std::int64_t index) const { return fmt::format("{}: sample {}", name(), index); }
  // Throws SampleError when this one sample cannot be read.
  virtual std::unique_ptr<Sample> open(std::int64_t index) const = 0;
};

}  // namespace outsize
