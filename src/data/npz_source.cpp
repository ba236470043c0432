#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/philox.h"
#include "data/npz.h"
#include "data/source.h"

namespace outsize {

namespace {

// The extents after the first.
Dims sample_shape(const Dims& shape) {
  Dims rest;
  for (int i = 1; i < shape.rank(); ++i) rest.push_back(shape[i]);
  return rest;
}

void check_samples(const Array& array, const Dims& wanted, std::string_view what) {
  if (array.shape.rank() == 0 || sample_shape(array.shape) != sample_shape(wanted))
    user_error("{}: expected shape {} after the number of samples, found the shape {}", what, to_string(sample_shape(wanted)),
               to_string(array.shape));
}

template <class T>
void scale_bytes(std::vector<std::byte>& data) {
  const std::size_t count = data.size() / sizeof(T);
  T* values = reinterpret_cast<T*>(data.data());
  for (std::size_t i = 0; i < count; ++i) values[i] /= T{255};
}

class NpzSource final : public DataSource {
 public:
  NpzSource(const std::string& path, const BatchSpec& spec, bool shuffle, std::uint64_t seed)
      : path_(path), spec_(spec), shuffle_(shuffle), seed_(seed) {
    const NpzFile file(path);
    const std::string x_name = path + ": array 'x'", y_name = path + ": array 'y'";
    const Array x = file.read("x");
    const bool tokens = spec.x_dtype == DType::i32;
    if (!tokens && is_integer(x.type) && x.type != ElementType::u8)
      user_error("{}: expected float32, float64 or uint8, found {}", x_name, name_of(x.type));
    check_samples(x, spec.x_shape, x_name);
    const Array y = file.read("y");
    if (spec.classes > 0 && spec.y_shape.rank() == 1 && y.shape.rank() != 1)
      user_error("{}: expected one label a sample (one dimension), found the shape {}", y_name, to_string(y.shape));
    check_samples(y, spec.y_shape, y_name);
    if (x.shape[0] != y.shape[0]) user_error("{}: 'x' has {} samples, but 'y' has {}", path, x.shape[0], y.shape[0]);
    if (x.shape[0] < spec.batch())
      user_error("{}: has {} samples, fewer than one batch of {}; give a smaller --batch", path, x.shape[0], spec.batch());

    x_ = converted(x, spec.x_dtype, x_name);
    if (!tokens && x.type == ElementType::u8) spec.x_dtype == DType::f64 ? scale_bytes<double>(x_) : scale_bytes<float>(x_);
    y_ = converted(y, spec.y_dtype, y_name);
    samples_ = x.shape[0];
    if (tokens) check_integers(x_, x_name, "token", spec.x_classes, {}, "tokens of its vocabulary");
    if (spec.classes > 0) check_integers(y_, y_name, "label", spec.classes, spec.ignored_label, "classes (--classes)");
  }

  std::string name() const override { return path_; }
  std::int64_t batches_per_epoch() const override { return samples_ / spec_.batch(); }

  void fill(std::int64_t step, Batch& batch) const override {
    const std::int64_t epoch = step / batches_per_epoch();
    const std::int64_t first = step % batches_per_epoch() * spec_.batch();
    if (shuffle_ && epoch != order_epoch_) draw_order(epoch);
    const std::size_t x_bytes = x_.size() / static_cast<std::size_t>(samples_);
    const std::size_t y_bytes = y_.size() / static_cast<std::size_t>(samples_);
    batch.x.resize(x_bytes * static_cast<std::size_t>(spec_.batch()));
    batch.y.resize(y_bytes * static_cast<std::size_t>(spec_.batch()));
    for (std::int64_t i = 0; i < spec_.batch(); ++i) {
      const auto from = static_cast<std::size_t>(shuffle_ ? order_[static_cast<std::size_t>(first + i)] : first + i);
      const auto to = static_cast<std::size_t>(i);
      std::memcpy(batch.x.data() + to * x_bytes, x_.data() + from * x_bytes, x_bytes);
      std::memcpy(batch.y.data() + to * y_bytes, y_.data() + from * y_bytes, y_bytes);
    }
  }

 private:
  // Every element must be in [0, limit), or `ignored`.
  void check_integers(const std::vector<std::byte>& data, const std::string& what, std::string_view element, std::int64_t limit,
                      std::optional<std::int64_t> ignored, std::string_view counted) const {
    const auto count = static_cast<std::int64_t>(data.size() / sizeof(std::int32_t));
    const std::int64_t of_sample = count / samples_;
    for (std::int64_t i = 0; i < count; ++i) {
      std::int32_t value = 0;
      std::memcpy(&value, data.data() + static_cast<std::size_t>(i) * sizeof value, sizeof value);
      if ((value >= 0 && value < limit) || (ignored && value == *ignored)) continue;
      const std::string where = of_sample == 1 ? std::string() : fmt::format(" (element {} of it)", i % of_sample);
      user_error("{}: {} {} of sample {}{} is not below the model's {} {}", what, element, value, i / of_sample, where, limit,
                 counted);
    }
  }

  // Fisher and Yates.
  void draw_order(std::int64_t epoch) const {
    const RandomStream stream(seed_, fmt::format("shuffle.{}", epoch));
    order_.resize(static_cast<std::size_t>(samples_));
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
    for (std::size_t i = order_.size(); i > 1; --i)
      std::swap(order_[i - 1], order_[static_cast<std::size_t>(stream.below(i, static_cast<std::int64_t>(i)))]);
    order_epoch_ = epoch;
  }

  std::string path_;
  BatchSpec spec_;
  bool shuffle_;
  std::uint64_t seed_;
  std::int64_t samples_ = 0;
  std::vector<std::byte> x_, y_;
  mutable std::vector<std::int64_t> order_;  // of the epoch asked for last
  mutable std::int64_t order_epoch_ = -1;
};

}  // namespace

std::unique_ptr<DataSource> make_npz_source(const std::string& path, const BatchSpec& spec, bool shuffle, std::uint64_t seed) {
  return std::make_unique<NpzSource>(path, spec, shuffle, seed);
}

}  // namespace outsize
