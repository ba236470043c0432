#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/philox.h"
#include "data/source.h"

namespace outsize {

namespace {

constexpr std::int64_t kMostClasses = 8;  // few enough that a handful of steps already shows the loss fall
constexpr double kNoise = 0.5;            // half-width of the noise, beside patterns of amplitude 1
constexpr std::int64_t kFrequencies = 4;
constexpr std::int64_t kMostLevels = 4;   // of a pattern, where positions have labels
constexpr std::int64_t kCycle = 6;        // tokens until a sequence repeats
constexpr std::int64_t kMostTokens = 64;  // that cycles are made of
constexpr double kTokenNoise = 0.1;       // the share of tokens that are noise

// A value as [samples][planes][rows][columns], whatever its rank.
struct Layout {
  std::int64_t planes = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;

  explicit Layout(const Dims& shape) {
    const int rank = shape.rank();
    if (rank > 1) columns = shape[rank - 1];
    if (rank > 2) planes = shape[1];
    for (int i = 2; i < rank - 1; ++i) rows *= shape[i];
  }
  // Of the positions of samples: there are no planes.
  static Layout of_positions(const Dims& shape) {
    Layout layout(Dims{shape[0]});
    layout.columns = shape[shape.rank() - 1];
    for (int i = 1; i < shape.rank() - 1; ++i) layout.rows *= shape[i];
    return layout;
  }
  std::int64_t sample_elements() const { return planes * rows * columns; }
};

// One period of cosines a row and a column: the pattern of (class, plane) is their product.
struct Pattern {
  std::vector<float> by_row, by_column;

  Pattern(const RandomStream& stream, std::int64_t plane, const Layout& layout)
      : by_row(wave(stream, 4 * plane, layout.rows)), by_column(wave(stream, 4 * plane + 2, layout.columns)) {}

  static std::vector<float> wave(const RandomStream& stream, std::int64_t index, std::int64_t length) {
    const auto frequency = std::floor(stream.uniform(static_cast<std::uint64_t>(index)) * kFrequencies);
    const double phase = stream.uniform(static_cast<std::uint64_t>(index + 1));
    std::vector<float> values(static_cast<std::size_t>(length));
    for (std::int64_t i = 0; i < length; ++i) {
      const double turn = frequency * static_cast<double>(i) / static_cast<double>(length) + phase;
      values[static_cast<std::size_t>(i)] = static_cast<float>(std::cos(2 * std::numbers::pi * turn));
    }
    return values;
  }
};

class SyntheticSource final : public DataSource {
 public:
  SyntheticSource(const BatchSpec& spec, std::uint64_t seed)
      : spec_(spec), seed_(seed), classes_(spec.classes > 0 ? std::min(spec.classes, kMostClasses) : kMostClasses) {}

  std::string name() const override { return "synthetic"; }
  std::int64_t batches_per_epoch() const override { return 0; }

  void fill(std::int64_t step, Batch& batch) const override {
    const RandomStream drawn(seed_, "synthetic.class");
    std::vector<std::int64_t> chosen;
    for (std::int64_t i = 0; i < spec_.batch(); ++i)
      chosen.push_back(drawn.below(static_cast<std::uint64_t>(step * spec_.batch() + i), classes_));
    if (spec_.x_dtype == DType::i32)
      fill_tokens(batch.x, step, chosen);
    else
      fill_patterns(batch.x, spec_.x_dtype, spec_.x_shape, "x", step, chosen);
    if (spec_.classes == 0)
      fill_patterns(batch.y, spec_.y_dtype, spec_.y_shape, "target", step, chosen);
    else if (spec_.y_shape.rank() == 1)
      integers_of(batch.y, static_cast<std::int64_t>(chosen.size()), [&](std::int64_t sample) { return chosen[at(sample)]; });
    else if (spec_.x_dtype == DType::i32)
      fill_next_tokens(batch.y, step, chosen);
    else
      fill_levels(batch.y, chosen);
  }

 private:
  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

  // `count` integers, element i is `value(i)`.
  template <class Value>
  static void integers_of(std::vector<std::byte>& out, std::int64_t count, const Value& value) {
    out.resize(at(count) * sizeof(std::int32_t));
    for (std::int64_t i = 0; i < count; ++i) {
      const auto integer = static_cast<std::int32_t>(value(i));
      std::memcpy(out.data() + at(i) * sizeof integer, &integer, sizeof integer);
    }
  }

  // Cycles are of tokens that are classes too, so that the next one can be a label.
  std::int64_t tokens() const {
    const std::int64_t most = std::min(spec_.x_classes, kMostTokens);
    return spec_.classes > 0 && spec_.y_shape.rank() > 1 ? std::min(most, spec_.classes) : most;
  }
  // Token t of a sequence without noise; a sample starts anywhere in its cycle.
  std::int64_t cycle_token(std::int64_t chosen, std::int64_t sample, std::int64_t t) const {
    const RandomStream cycle(seed_, fmt::format("synthetic.cycle{}", chosen));
    const std::int64_t start = RandomStream(seed_, "synthetic.start").below(static_cast<std::uint64_t>(sample), kCycle);
    return cycle.below(static_cast<std::uint64_t>((start + t) % kCycle), tokens());
  }

  void fill_tokens(std::vector<std::byte>& out, std::int64_t step, const std::vector<std::int64_t>& chosen) const {
    const RandomStream noise(seed_, "synthetic.tokens.noise"), replaced(seed_, "synthetic.tokens.replaced");
    const std::int64_t length = spec_.x_shape.product() / spec_.batch();
    integers_of(out, spec_.x_shape.product(), [&](std::int64_t i) {
      const std::int64_t sample = step * spec_.batch() + i / length;
      const auto index = static_cast<std::uint64_t>(sample * length + i % length);
      if (replaced.uniform(index) < kTokenNoise) return noise.below(index, tokens());
      return cycle_token(chosen[at(i / length)], sample, i % length);
    });
  }

  void fill_next_tokens(std::vector<std::byte>& out, std::int64_t step, const std::vector<std::int64_t>& chosen) const {
    const std::int64_t length = spec_.y_shape.product() / spec_.batch();
    integers_of(out, spec_.y_shape.product(), [&](std::int64_t i) {
      return cycle_token(chosen[at(i / length)], step * spec_.batch() + i / length, i % length + 1);
    });
  }

  // Which of a few levels the pattern of x's first plane has at each position: with two, its sign.
  void fill_levels(std::vector<std::byte>& out, const std::vector<std::int64_t>& chosen) const {
    const Layout layout = Layout::of_positions(spec_.y_shape);
    const std::int64_t levels = std::min(spec_.classes, kMostLevels);
    std::vector<Pattern> patterns;
    for (std::int64_t c = 0; c < classes_; ++c)
      patterns.emplace_back(RandomStream(seed_, fmt::format("synthetic.x.class{}", c)), 0, layout);
    const std::int64_t positions = layout.sample_elements();
    integers_of(out, spec_.y_shape.product(), [&](std::int64_t i) {
      const Pattern& pattern = patterns[at(chosen[at(i / positions)])];
      const float height = pattern.by_row[at(i % positions / layout.columns)] * pattern.by_column[at(i % layout.columns)];
      return std::clamp<std::int64_t>(static_cast<std::int64_t>((height + 1) / 2 * static_cast<float>(levels)), 0, levels - 1);
    });
  }

  void fill_patterns(std::vector<std::byte>& out, DType dtype, const Dims& shape, const char* what, std::int64_t step,
                     const std::vector<std::int64_t>& chosen) const {
    out.resize(static_cast<std::size_t>(shape.product() * size_of(dtype)));
    if (dtype == DType::f64)
      fill_as(reinterpret_cast<double*>(out.data()), Layout(shape), what, step, chosen);
    else
      fill_as(reinterpret_cast<float*>(out.data()), Layout(shape), what, step, chosen);
  }

  template <class T>
  void fill_as(T* out, const Layout& layout, const char* what, std::int64_t step, const std::vector<std::int64_t>& chosen) const {
    const RandomStream noise(seed_, fmt::format("synthetic.{}.noise", what));
    for (std::size_t sample = 0; sample < chosen.size(); ++sample) {
      const RandomStream shape_of_class(seed_, fmt::format("synthetic.{}.class{}", what, chosen[sample]));
      const auto index = step * spec_.batch() + static_cast<std::int64_t>(sample);
      // Whole blocks of four a sample, so that a sample's noise does not depend on the batch size.
      auto block = static_cast<std::uint64_t>(index) * static_cast<std::uint64_t>((layout.sample_elements() + 3) / 4);
      std::array<std::uint32_t, 4> words{};
      std::size_t used = 4;
      for (std::int64_t plane = 0; plane < layout.planes; ++plane) {
        const Pattern pattern(shape_of_class, plane, layout);
        for (float row : pattern.by_row)
          for (float column : pattern.by_column) {
            if (used == 4) {
              words = noise.block(block++);
              used = 0;
            }
            const float unit = static_cast<float>(words[used++]) * 0x1p-31F - 1;
            *out++ = static_cast<T>(row * column + static_cast<float>(kNoise) * unit);
          }
      }
    }
  }

  BatchSpec spec_;
  std::uint64_t seed_;
  std::int64_t classes_;
};

}  // namespace

std::unique_ptr<DataSource> make_synthetic_source(const BatchSpec& spec, std::uint64_t seed) {
  return std::make_unique<SyntheticSource>(spec, seed);
}

}  // namespace outsize
