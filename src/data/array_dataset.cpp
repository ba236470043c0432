#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/positions.h"
#include "data/datasets.h"
#include "data/npy_file.h"
#include "data/npz.h"
#include "data/window.h"

namespace outsize {

namespace {

void check_samples(const ArrayReader& array, const Dims& wanted, std::string_view what) {
  if (array.shape().rank() == 0 || without_first(array.shape()) != without_first(wanted))
    user_error("{}: expected shape {} after the number of samples, found the shape {}", what, to_string(without_first(wanted)),
               to_string(array.shape()));
}

template <class T>
void scale_bytes(std::byte* data, std::int64_t count) {
  T* values = reinterpret_cast<T*>(data);
  for (std::int64_t i = 0; i < count; ++i) values[i] /= T{255};
}

// Arrays x and y with the names that messages give them.
struct Named {
  std::string path;
  std::string x_name, y_name;
};

class ArrayDataset final : public Dataset {
 public:
  ArrayDataset(Named named, ArrayReader x, ArrayReader y, const DataOptions& options)
      : named_(std::move(named)), x_(std::move(x)), y_(std::move(y)), tokens_(options.spec.x_dtype == DType::i32) {
    const BatchSpec& spec = options.spec;
    if (options.part == Part::test) user_error("{}: has no test set of its own", named_.path);
    if (!tokens_ && is_integer(x_.type()) && x_.type() != ElementType::u8)
      user_error("{}: expected float32, float64 or uint8, found {}", named_.x_name, name_of(x_.type()));
    if (tokens_ && !is_integer(x_.type())) user_error("{}: expected whole numbers, found {}", named_.x_name, name_of(x_.type()));
    check_samples(x_, spec.x_shape, named_.x_name);
    if (spec.classes > 0 && spec.y_shape.rank() == 1 && y_.shape().rank() != 1)
      user_error("{}: expected one label a sample (one dimension), found the shape {}", named_.y_name, to_string(y_.shape()));
    check_samples(y_, spec.y_shape, named_.y_name);
    if (x_.shape()[0] != y_.shape()[0])
      user_error("{}: 'x' has {} samples, but 'y' has {}", named_.path, x_.shape()[0], y_.shape()[0]);
    if (size() == 0) user_error("{}: has no samples", named_.path);
    // All of them now, so that a wrong number is not found hours later.
    if (tokens_) check_integers(x_, named_.x_name, "token", spec.x_classes, {}, "tokens of its vocabulary");
    if (spec.classes > 0) check_integers(y_, named_.y_name, "label", spec.classes, spec.ignored_label, "classes (--classes)");
  }

  std::string name() const override { return named_.path; }
  std::string description() const override {
    return fmt::format("{}: {} samples of {}{}", named_.path, size(), to_string(without_first(x_.shape())),
                       x_.type() == ElementType::u8 && !tokens_ ? ", scaled to [0, 1]" : "");
  }
  std::int64_t size() const override { return x_.shape()[0]; }
  std::uint32_t fingerprint() const override {
    const std::uint32_t both[]{x_.fingerprint(), y_.fingerprint()};
    return checksum_of(std::as_bytes(std::span(both)));
  }
  std::unique_ptr<Sample> open(std::int64_t index) const override;

  void read_x(std::int64_t index, const Box& window, DType dtype, std::byte* out) const {
    read(x_, named_.x_name, index, window, dtype, out);
    if (tokens_ || x_.type() != ElementType::u8) return;
    dtype == DType::f64 ? scale_bytes<double>(out, window.elements()) : scale_bytes<float>(out, window.elements());
  }
  void read_y(std::int64_t index, const Box& window, DType dtype, std::byte* out) const {
    read(y_, named_.y_name, index, window, dtype, out);
  }
  Dims x_extents() const { return without_first(x_.shape()); }
  Dims y_extents() const { return without_first(y_.shape()); }

 private:
  static void read(const ArrayReader& array, const std::string& what, std::int64_t index, const Box& window, DType dtype,
                   std::byte* out) {
    const std::vector<std::byte> bytes = converted(read_window(array, index, window), dtype, what);
    std::memcpy(out, bytes.data(), bytes.size());
  }

  static Array read_window(const ArrayReader& array, std::int64_t index, const Box& window) {
    const Dims extents = without_first(array.shape());
    Array part = make_array(array.type(), window.shape());
    std::byte* to = part.data.data();
    const auto element = static_cast<std::size_t>(size_of(array.type()));
    const auto copy = [&](std::int64_t offset, std::int64_t count) {
      const std::size_t bytes = static_cast<std::size_t>(count) * element;
      array.read(index * extents.product() + offset, {to, bytes});
      to += bytes;
    };
    if (window == Box::whole(extents))
      copy(0, extents.product());
    else
      for_each_row(extents, window, copy);
    return part;
  }

  // Every element must be in [0, limit), or `ignored`.
  void check_integers(const ArrayReader& array, const std::string& what, std::string_view element, std::int64_t limit,
                      std::optional<std::int64_t> ignored, std::string_view counted) const {
    if (!is_integer(array.type())) user_error("{}: expected whole numbers, found {}", what, name_of(array.type()));
    const Box whole = Box::whole(without_first(array.shape()));
    for (std::int64_t sample = 0; sample < size(); ++sample) {
      const Array values = read_window(array, sample, whole);
      for (std::int64_t i = 0; i < values.elements(); ++i) {
        const std::int64_t value = integer_at(values, i);
        if ((value >= 0 && value < limit) || value == ignored) continue;
        const std::string where = values.elements() == 1 ? std::string() : fmt::format(" (element {} of it)", i);
        user_error("{}: {} {} of sample {}{} is not one of the model's {} {}: {}", what, element, value, sample, where, limit,
                   counted, expected_integers(limit, ignored));
      }
    }
  }

  Named named_;
  ArrayReader x_, y_;
  bool tokens_;
};

class ArraySample final : public Sample {
 public:
  ArraySample(const ArrayDataset& dataset, std::int64_t index) : dataset_(dataset), index_(index) {}

  bool for_several() const override { return true; }
  Dims x_extents() const override { return dataset_.x_extents(); }
  Dims y_extents() const override { return dataset_.y_extents(); }
  void read_x(const Box& window, DType dtype, std::byte* out) const override { dataset_.read_x(index_, window, dtype, out); }
  void read_y(const Box& window, DType dtype, std::byte* out) const override { dataset_.read_y(index_, window, dtype, out); }

 private:
  const ArrayDataset& dataset_;
  std::int64_t index_;
};

std::unique_ptr<Sample> ArrayDataset::open(std::int64_t index) const { return std::make_unique<ArraySample>(*this, index); }

// "y.npy" for "x.npy", "train_y.npy" for "train_x.npy", and "train_y.npy" for "train.npy".
std::string labels_beside(const std::string& x_path) {
  const std::filesystem::path path(x_path);
  std::string stem = path.stem().string();
  const bool is_x = stem == "x" || stem.ends_with("_x") || stem.ends_with("-x");
  is_x ? void(stem.back() = 'y') : void(stem += "_y");
  return (path.parent_path() / (stem + ".npy")).string();
}

// Labels of each token, [N, T], are of a vocabulary.
std::optional<std::int64_t> classes_in(const ArrayReader& y) {
  if (!is_integer(y.type()) || y.shape().rank() == 0 || y.shape().rank() == 2) return {};
  constexpr std::int64_t kPart = 1 << 16;
  std::int64_t highest = -1;
  for (std::int64_t first = 0; first < y.shape().product(); first += kPart) {
    Array part = make_array(y.type(), {std::min(kPart, y.shape().product() - first)});
    y.read(first, part.data);
    for (std::int64_t i = 0; i < part.elements(); ++i) highest = std::max(highest, integer_at(part, i));
  }
  if (highest < 0 || highest >= std::numeric_limits<std::int32_t>::max()) return {};
  return highest + 1;
}

}  // namespace

std::optional<std::int64_t> npz_classes(const std::string& path) {
  const NpzFile file(path);
  if (!file.has("y")) return {};
  return classes_in(file.open("y"));
}

std::optional<std::int64_t> npy_classes(const std::string& path) {
  const std::string labels = labels_beside(path);
  if (!std::filesystem::exists(labels)) return {};
  return classes_in(ArrayReader(labels));
}

std::shared_ptr<const Dataset> make_npz_dataset(const std::string& path, const DataOptions& options) {
  const NpzFile file(path);
  return std::make_shared<ArrayDataset>(Named{path, path + ": array 'x'", path + ": array 'y'"}, file.open("x"), file.open("y"),
                                        options);
}

std::shared_ptr<const Dataset> make_npy_dataset(const std::string& path, const DataOptions& options) {
  const std::string labels = labels_beside(path);
  ArrayReader x(path);
  if (!std::filesystem::exists(labels)) user_error("{}: expected its labels or targets beside it in {}", path, labels);
  return std::make_shared<ArrayDataset>(Named{path, path, labels}, std::move(x), ArrayReader(labels), options);
}

}  // namespace outsize
