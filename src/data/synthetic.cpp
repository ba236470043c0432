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
    fill_patterns(batch.x, spec_.x_dtype, spec_.x_shape, "x", step, chosen);
    if (spec_.classes > 0) {
      batch.y.resize(chosen.size() * sizeof(std::int32_t));
      const std::vector<std::int32_t> labels(chosen.begin(), chosen.end());
      std::memcpy(batch.y.data(), labels.data(), batch.y.size());
    } else {
      fill_patterns(batch.y, spec_.y_dtype, spec_.y_shape, "target", step, chosen);
    }
  }

 private:
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
