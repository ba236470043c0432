#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/philox.h"
#include "base/positions.h"
#include "data/datasets.h"
#include "data/window.h"

namespace outsize {

namespace {

constexpr std::int64_t kMostClasses = 8;  // few enough that a handful of steps already shows the loss fall
constexpr double kNoise = 0.5;            // half-width of the noise, beside patterns of amplitude 1
constexpr std::int64_t kFrequencies = 4;
constexpr std::int64_t kMostLevels = 4;   // of a pattern, where positions have labels
constexpr std::int64_t kCycle = 6;        // tokens until a sequence repeats
constexpr std::int64_t kMostTokens = 64;  // that cycles are made of
constexpr double kTokenNoise = 0.1;       // the share of tokens that are noise

// A sample's value as [planes][rows][columns], whatever its rank.
struct Layout {
  std::int64_t planes = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;

  explicit Layout(const Dims& extents) {
    const int rank = extents.rank();
    if (rank > 0) columns = extents[rank - 1];
    if (rank > 1) planes = extents[0];
    for (int i = 1; i < rank - 1; ++i) rows *= extents[i];
  }
  // Of the positions of a sample: there are no planes.
  static Layout of_positions(const Dims& extents) {
    Layout layout(Dims{});
    layout.columns = extents[extents.rank() - 1];
    for (int i = 0; i < extents.rank() - 1; ++i) layout.rows *= extents[i];
    return layout;
  }
  std::int64_t elements() const { return planes * rows * columns; }
};

// One period of cosines a row and a column: the pattern of (class, plane) is their product.
struct Pattern {
  std::vector<float> by_row, by_column;

  Pattern(const RandomStream& stream, std::int64_t plane, const Layout& layout)
      : by_row(wave(stream, 4 * plane, layout.rows)), by_column(wave(stream, 4 * plane + 2, layout.columns)) {}

  static std::vector<float> wave(const RandomStream& stream, std::int64_t index, std::int64_t length) {
    const auto frequency = std::floor(stream.uniform(static_cast<std::uint64_t>(index)) * kFrequencies);
    const double phase = stream.uniform(static_cast<std::uint64_t>(index + 1));
    std::vector<float> values(length);
    for (std::int64_t i = 0; i < length; ++i) {
      const double turn = frequency * static_cast<double>(i) / static_cast<double>(length) + phase;
      values[i] = static_cast<float>(std::cos(2 * std::numbers::pi * turn));
    }
    return values;
  }
};

// What all samples share.
struct Task {
  BatchSpec spec;
  std::uint64_t seed = 0;
  std::string part;  // "" or ".test": other samples of the same classes
  std::int64_t classes = 0;

  RandomStream stream(std::string_view name) const { return {seed, fmt::format("synthetic.{}{}", name, part)}; }
  RandomStream of_class(std::string_view name, std::int64_t chosen) const {
    return {seed, fmt::format("synthetic.{}{}", name, chosen)};
  }
  // Cycles are of tokens that are classes too, so that the next one can be a label.
  std::int64_t tokens() const {
    const std::int64_t most = std::min(spec.x_classes, kMostTokens);
    return spec.classes > 0 && spec.y_shape.rank() > 1 ? std::min(most, spec.classes) : most;
  }
};

class SyntheticSample final : public Sample {
 public:
  SyntheticSample(const Task& task, std::int64_t index)
      : task_(task),
        index_(index),
        class_(task.stream("class").below(static_cast<std::uint64_t>(index), task.classes)),
        start_(task.stream("start").below(static_cast<std::uint64_t>(index), kCycle)),
        cycle_(task.of_class("cycle", class_)) {}

  bool for_several() const override { return true; }
  Dims x_extents() const override { return without_first(task_.spec.x_shape); }
  Dims y_extents() const override { return without_first(task_.spec.y_shape); }

  void read_x(const Box& window, DType dtype, std::byte* out) const override {
    if (dtype == DType::i32)
      read_tokens(window, out);
    else
      read_patterns(x_extents(), "x", window, dtype, out);
  }
  void read_y(const Box& window, DType dtype, std::byte* out) const override {
    if (task_.spec.classes == 0)
      read_patterns(y_extents(), "target", window, dtype, out);
    else if (y_extents().rank() == 0)
      integers(window, out, [&](std::int64_t) { return class_; });
    else if (task_.spec.x_dtype == DType::i32)
      integers(window, out, [&](std::int64_t i) { return cycle_token(i + 1); });
    else
      read_levels(window, out);
  }

 private:
  // Element i of y is `value(i)`.
  template <class Value>
  void integers(const Box& window, std::byte* out, const Value& value) const {
    for_each_row(y_extents(), window, [&](std::int64_t offset, std::int64_t count) {
      for (std::int64_t i = offset; i < offset + count; ++i, out += sizeof(std::int32_t)) {
        const auto integer = static_cast<std::int32_t>(value(i));
        std::memcpy(out, &integer, sizeof integer);
      }
    });
  }

  // Token t of the sequence without noise; a sample starts anywhere in its cycle.
  std::int64_t cycle_token(std::int64_t t) const {
    return cycle_.below(static_cast<std::uint64_t>((start_ + t) % kCycle), task_.tokens());
  }

  void read_tokens(const Box& window, std::byte* out) const {
    const RandomStream noise = task_.stream("tokens.noise"), replaced = task_.stream("tokens.replaced");
    const std::int64_t length = x_extents().product();
    for_each_row(x_extents(), window, [&](std::int64_t offset, std::int64_t count) {
      for (std::int64_t i = offset; i < offset + count; ++i, out += sizeof(std::int32_t)) {
        const auto index = static_cast<std::uint64_t>(index_ * length + i);
        const bool noisy = replaced.uniform(index) < kTokenNoise;
        const auto token = static_cast<std::int32_t>(noisy ? noise.below(index, task_.tokens()) : cycle_token(i));
        std::memcpy(out, &token, sizeof token);
      }
    });
  }

  // Which of a few levels the pattern of x's first plane has at each position: with two, its sign.
  void read_levels(const Box& window, std::byte* out) const {
    const Layout layout = Layout::of_positions(y_extents());
    const std::int64_t levels = std::min(task_.spec.classes, kMostLevels);
    const Pattern pattern(task_.of_class("x.class", class_), 0, layout);
    integers(window, out, [&](std::int64_t i) {
      const float height = pattern.by_row[i / layout.columns] * pattern.by_column[i % layout.columns];
      return std::clamp<std::int64_t>(static_cast<std::int64_t>((height + 1) / 2 * static_cast<float>(levels)), 0, levels - 1);
    });
  }

  void read_patterns(const Dims& extents, const char* what, const Box& window, DType dtype, std::byte* out) const {
    if (dtype == DType::f64)
      read_as(extents, what, window, reinterpret_cast<double*>(out));
    else
      read_as(extents, what, window, reinterpret_cast<float*>(out));
  }

  template <class T>
  void read_as(const Dims& extents, const char* what, const Box& window, T* out) const {
    const Layout layout(extents);
    const RandomStream noise = task_.stream(fmt::format("{}.noise", what));
    const RandomStream shape_of_class = task_.of_class(fmt::format("{}.class", what), class_);
    // Whole blocks of four a sample.
    const auto first_block = static_cast<std::uint64_t>(index_) * static_cast<std::uint64_t>((layout.elements() + 3) / 4);
    std::unique_ptr<Pattern> pattern;
    std::int64_t plane = -1;
    for_each_row(extents, window, [&](std::int64_t offset, std::int64_t count) {
      if (const std::int64_t of_row = offset / (layout.rows * layout.columns); of_row != plane) {
        plane = of_row;
        pattern = std::make_unique<Pattern>(shape_of_class, plane, layout);
      }
      const float row = pattern->by_row[offset / layout.columns % layout.rows];
      const float* columns = pattern->by_column.data() + offset % layout.columns;
      std::array<std::uint32_t, 4> words{};
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t element = offset + i;
        if (i == 0 || element % 4 == 0) words = noise.block(first_block + static_cast<std::uint64_t>(element / 4));
        const float unit = static_cast<float>(words[element % 4]) * 0x1p-31F - 1;
        *out++ = static_cast<T>(row * columns[i] + static_cast<float>(kNoise) * unit);
      }
    });
  }

  const Task& task_;
  std::int64_t index_;
  std::int64_t class_;
  std::int64_t start_;  // in its class's cycle of tokens
  RandomStream cycle_;
};

class SyntheticDataset final : public Dataset {
 public:
  explicit SyntheticDataset(const DataOptions& options)
      : task_{options.spec, options.seed, options.part == Part::test ? ".test" : "",
              options.spec.classes > 0 ? std::min(options.spec.classes, kMostClasses) : kMostClasses} {
    if (task_.spec.x_shape.product() == 0) user_error("synthetic samples have the model's size; give --image");
  }

  std::string name() const override { return "synthetic"; }
  std::string description() const override { return fmt::format("a synthetic task of {} classes", task_.classes); }
  std::int64_t size() const override { return 0; }
  std::unique_ptr<Sample> open(std::int64_t index) const override { return std::make_unique<SyntheticSample>(task_, index); }

 private:
  Task task_;
};

}  // namespace

std::shared_ptr<const Dataset> make_synthetic_dataset(const DataOptions& options) {
  return std::make_shared<SyntheticDataset>(options);
}

}  // namespace outsize
