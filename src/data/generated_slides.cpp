#include <algorithm>
#include <limits>

#include "base/philox.h"
#include "base/text.h"
#include "data/datasets.h"
#include "data/pixels.h"

namespace outsize {

namespace {

constexpr std::int64_t kMostExtent = 100'000;
constexpr std::int64_t kSpotCell = 32;      // one spot at most in each square of this side
constexpr std::int64_t kStripedRadius = 8;  // of the spots that tell the class
// The side of the squares that have one striped spot each: a few in a small image, and rare in a large one.
constexpr std::int64_t kLeastStripedCell = 24, kMostStripedCell = 512, kStripedCellsAcross = 4;
constexpr int kStripes = 70;  // their amplitude
constexpr std::array<int, 3> kSpotColour{100, 80, 130};
constexpr std::array<int, 3> kTissueColour{205, 165, 190};

// Uneven colour: random levels on a lattice, interpolated in between.
struct Octave {
  int spacing;
  int amplitude;
};
constexpr Octave kFine{32, 14}, kCoarse{512, 24};

// A class: stripes across this direction, and their period along it.
struct Stripes {
  std::int64_t by_column, by_row, period;
};
constexpr std::array<Stripes, 8> kClasses{
    {{1, 0, 4}, {0, 1, 4}, {1, 1, 6}, {1, -1, 6}, {1, 0, 8}, {0, 1, 8}, {1, 1, 12}, {1, -1, 12}}};

std::int64_t modulo(std::int64_t value, std::int64_t by) { return (value % by + by) % by; }

// Half the width of a disc at a distance from its centre; below 0 outside.
std::int64_t half_width(std::int64_t radius, std::int64_t distance) {
  std::int64_t width = -1;
  while ((width + 1) * (width + 1) + distance * distance <= radius * radius) ++width;
  return width;
}

// Everything is made of whole numbers that belong to places of the slide, so that a pixel is the same in every window, on every
// machine.
class GeneratedSlide final : public PixelSample {
 public:
  // `positions`: y is a label map.
  GeneratedSlide(const PixelScale& scale, std::uint64_t seed, const std::string& name, std::int64_t chosen, std::int64_t rows,
                 std::int64_t columns, bool positions)
      : PixelSample(scale),
        fine_(seed, name + ".fine"),
        coarse_(seed, name + ".coarse"),
        grain_(seed, name + ".grain"),
        spots_(seed, name + ".spots"),
        striped_(seed, name + ".striped"),
        channels_(scale.channels()),
        class_(chosen),
        rows_(rows),
        columns_(columns),
        cell_(std::clamp(std::min(rows, columns) / kStripedCellsAcross, kLeastStripedCell, kMostStripedCell)),
        positions_(positions) {
    const auto words = RandomStream(seed, name + ".tint").block(0);
    for (std::size_t c = 0; c < 3; ++c) tint_[c] = kTissueColour[c] + static_cast<int>(words[c] % 31) - 15;
  }

  bool for_several() const override { return true; }
  Dims y_extents() const override { return positions_ ? Dims{rows_, columns_} : Dims{}; }
  void read_y(const Box& window, DType dtype, std::byte* out) const override {
    OUTSIZE_CHECK(dtype == DType::i32);
    auto* labels = reinterpret_cast<std::int32_t*>(out);
    if (!positions_) {
      *labels = static_cast<std::int32_t>(class_);
      return;
    }
    const Interval columns = window[1];
    for (std::int64_t row = window.lo[0]; row < window.hi[0]; ++row, labels += columns.size()) {
      std::fill_n(labels, columns.size(), 0);
      for_each_striped(row, columns, [&](Interval span, std::uint32_t) {
        std::fill(labels + span.lo - columns.lo, labels + span.hi - columns.lo, static_cast<std::int32_t>(1 + class_));
      });
    }
  }

 protected:
  std::int64_t rows() const override { return rows_; }
  std::int64_t columns() const override { return columns_; }
  void read_pixels(Interval rows, Interval columns, std::uint8_t* out) const override {
    std::vector<int> level(columns.size());
    std::vector<Interval> spots;
    for (std::int64_t row = rows.lo; row < rows.hi; ++row) {
      std::ranges::fill(level, 0);
      spots.clear();
      add_octave<kFine>(fine_, row, columns, level);
      add_octave<kCoarse>(coarse_, row, columns, level);
      paint_spots(row, columns, spots, level);
      paint_striped(row, columns, spots, level);
      add_grain(row, columns, level);
      const auto paint = channels_ == 1 ? write<1> : write<3>;
      paint(tint_, level, 0, columns.size(), out);
      for (const Interval spot : spots) paint(kSpotColour, level, spot.lo - columns.lo, spot.hi - columns.lo, out);
      out += columns.size() * channels_;
    }
  }

 private:
  // The pixels from `begin` to `end` of a row, in one colour at their levels.
  template <int Channels>
  static void write(const std::array<int, 3>& colour, const std::vector<int>& level, std::size_t begin, std::size_t end,
                    std::uint8_t* row) {
    std::uint8_t* out = row + begin * Channels;
    for (std::size_t i = begin; i < end; ++i, out += Channels) {
      const auto of = [&](std::size_t c) { return std::clamp(colour[c] + level[i], 0, 255); };
      if constexpr (Channels == 1)
        *out = static_cast<std::uint8_t>((of(0) + of(1) + of(2)) / 3);
      else
        for (std::size_t c = 0; c < 3; ++c) out[c] = static_cast<std::uint8_t>(of(c));
    }
  }

  // Cell by cell of the lattice, in 32 bits and with a spacing known beforehand, so that the inner loop runs in vectors.
  template <Octave kOctave>
  void add_octave(const RandomStream& lattice, std::int64_t row, Interval columns, std::vector<int>& level) const {
    constexpr int kSide = kOctave.spacing, kDivisor = kSide * kSide * 128;
    static_assert(std::int64_t{255} * kSide * kSide * kOctave.amplitude <= std::numeric_limits<int>::max());
    const std::int64_t across = columns_ / kSide + 2, above = row / kSide;
    const int down = static_cast<int>(row % kSide);
    // Between the lattice's rows, at one of its columns; `kSide` times too large.
    const auto between_rows = [&](std::int64_t column) {
      const auto value = [&](std::int64_t r) {
        return static_cast<int>(lattice.block(static_cast<std::uint64_t>(r * across + column))[0] & 255);
      };
      return value(above) * (kSide - down) + value(above + 1) * down;
    };
    int* out = level.data();
    int right = between_rows(columns.lo / kSide);
    for (std::int64_t x = columns.lo; x < columns.hi;) {
      const int left = right;
      right = between_rows(x / kSide + 1);
      const int first = static_cast<int>(x % kSide);
      const int end = static_cast<int>(std::min<std::int64_t>(kSide, first + columns.hi - x));
      for (int i = first; i < end; ++i)
        *out++ += (left * (kSide - i) + right * i) * kOctave.amplitude / kDivisor - kOctave.amplitude;
      x += end - first;
    }
  }

  // One byte of the stream a pixel.
  void add_grain(std::int64_t row, Interval columns, std::vector<int>& level) const {
    constexpr std::int64_t kBlock = 16;
    const std::int64_t blocks = (columns_ + kBlock - 1) / kBlock;
    int* out = level.data();
    for (std::int64_t x = columns.lo; x < columns.hi;) {
      const auto words = grain_.block(static_cast<std::uint64_t>(row * blocks + x / kBlock));
      std::array<int, kBlock> grain{};
      for (std::size_t i = 0; i < grain.size(); ++i) grain[i] = static_cast<int>((words[i / 4] >> (i % 4 * 8) & 255) % 17) - 8;
      const std::int64_t first = x % kBlock, end = std::min(kBlock, first + columns.hi - x);
      for (std::int64_t i = first; i < end; ++i) *out++ += grain[i];
      x += end - first;
    }
  }

  void paint_spots(std::int64_t row, Interval columns, std::vector<Interval>& spots, std::vector<int>& level) const {
    const std::int64_t across = columns_ / kSpotCell + 1, cell_row = row / kSpotCell;
    for (std::int64_t cell = columns.lo / kSpotCell; cell * kSpotCell < columns.hi; ++cell) {
      const auto words = spots_.block(static_cast<std::uint64_t>(cell_row * across + cell));
      if (words[3] % 4 == 0) continue;
      const std::int64_t radius = 3 + words[2] % 4, room = kSpotCell - 2 * radius;
      const std::int64_t distance = row - cell_row * kSpotCell - radius - words[0] % room;
      const std::int64_t half = half_width(radius, distance);
      if (half < 0) continue;
      const std::int64_t centre = cell * kSpotCell + radius + words[1] % room;
      const Interval spot = intersect({centre - half, centre + half + 1}, columns);
      if (spot.empty()) continue;
      spots.push_back(spot);
      for (std::int64_t x = spot.lo; x < spot.hi; ++x) level[x - columns.lo] = 0;
    }
  }

  // Calls span(columns, random word of the spot) for each part of a striped spot in a row.
  template <class Span>
  void for_each_striped(std::int64_t row, Interval columns, const Span& span) const {
    const std::int64_t across = columns_ / cell_ + 1, cell_row = row / cell_;
    for (std::int64_t cell = columns.lo / cell_; cell * cell_ < columns.hi; ++cell) {
      const auto words = striped_.block(static_cast<std::uint64_t>(cell_row * across + cell));
      // Inside the cell, and inside the slide where the cell is cut off.
      const auto placed = [](std::int64_t low, std::int64_t high, std::uint32_t word) {
        const std::int64_t room = std::max<std::int64_t>(high - low - 2 * kStripedRadius, 1);
        return std::min(low + kStripedRadius + word % room, std::max(low, high - 1));
      };
      const std::int64_t centre_row = placed(cell_row * cell_, std::min((cell_row + 1) * cell_, rows_), words[0]);
      const std::int64_t half = half_width(kStripedRadius, row - centre_row);
      if (half < 0) continue;
      const Interval bounds{cell * cell_, std::min((cell + 1) * cell_, columns_)};
      const std::int64_t centre = placed(bounds.lo, bounds.hi, words[1]);
      const Interval part = intersect(intersect({centre - half, centre + half + 1}, bounds), columns);
      if (!part.empty()) span(part, words[2]);
    }
  }

  void paint_striped(std::int64_t row, Interval columns, std::vector<Interval>& spots, std::vector<int>& level) const {
    const Stripes& stripes = kClasses[class_];
    for_each_striped(row, columns, [&](Interval span, std::uint32_t word) {
      spots.push_back(span);
      for (std::int64_t x = span.lo; x < span.hi; ++x) {
        const std::int64_t place = modulo(stripes.by_column * x + stripes.by_row * row + word % 16, stripes.period);
        // A triangle wave between −1 and 1: on average a spot like the others.
        const std::int64_t wave = 2 * std::abs(2 * place - stripes.period) - stripes.period;
        level[x - columns.lo] = static_cast<int>(wave * kStripes / stripes.period);
      }
    });
  }

  RandomStream fine_, coarse_;
  RandomStream grain_, spots_, striped_;
  std::int64_t channels_;
  std::int64_t class_;
  std::int64_t rows_, columns_;
  std::int64_t cell_;
  bool positions_;
  std::array<int, 3> tint_{};
};

class GeneratedSlides final : public Dataset {
 public:
  GeneratedSlides(const std::string& text, const DataOptions& options)
      : text_(text), scale_(image_channels(options.spec, name()), options), seed_(options.seed), part_(options.part) {
    const BatchSpec& spec = options.spec;
    rows_ = spec.x_shape[2];
    columns_ = spec.x_shape[3];
    positions_ = spec.y_shape.rank() > 1;
    if (spec.classes == 0) user_error("{}: has labels, but the model takes targets", name());
    if (positions_ && spec.classes < 2) user_error("{}: expected a model of at least 2 classes", name());
    const auto most = static_cast<std::int64_t>(kClasses.size());
    classes_ = std::min(positions_ ? spec.classes - 1 : spec.classes, most);
    for (std::string_view rest = text_; !rest.empty();) {
      const std::size_t end = std::min(rest.find(','), rest.size());
      set(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (rows_ == 0 || columns_ == 0) user_error("{}: slides need a size; give generated:slides:size=HxW", name());
  }

  std::string name() const override { return text_.empty() ? "generated:slides" : "generated:slides:" + text_; }
  std::string description() const override {
    return fmt::format("generated slides of {}{} x {} pixels, {} classes, {}", vary_ ? "up to " : "", rows_, columns_, classes_,
                       scale_.description());
  }
  std::int64_t size() const override { return count_; }
  std::unique_ptr<Sample> open(std::int64_t index) const override {
    const std::string sample = fmt::format("slides.{}{}", part_ == Part::test ? "test." : "", index);
    const auto words = RandomStream(seed_, sample).block(0);
    const auto extent = [&](std::int64_t most, std::uint32_t word) { return vary_ ? most - word % ((most + 1) / 2) : most; };
    return std::make_unique<GeneratedSlide>(scale_, seed_, sample, words[0] % classes_, extent(rows_, words[1]),
                                            extent(columns_, words[2]), positions_);
  }

 private:
  // One of the options: size=H[xW], count=N, vary.
  void set(std::string_view option) {
    if (option == "vary") {
      vary_ = true;
    } else if (option.starts_with("count=")) {
      if (!parse_integer(option.substr(6), count_) || count_ < 1) user_error("{}: expected count=N, found '{}'", name(), option);
    } else if (option.starts_with("size=")) {
      const std::string_view size = option.substr(5);
      const std::size_t by = std::min(size.find('x'), size.size());
      const std::string_view width = by == size.size() ? size : size.substr(by + 1);
      if (!parse_integer(size.substr(0, by), rows_) || !parse_integer(width, columns_) || std::min(rows_, columns_) < 1 ||
          std::max(rows_, columns_) > kMostExtent)
        user_error("{}: expected size=H or size=HxW of at most {} pixels a side, found '{}'", name(), kMostExtent, option);
    } else {
      user_error("{}: unknown option '{}'; expected size=HxW, count=N or vary", name(), option);
    }
  }

  std::string text_;
  PixelScale scale_;
  std::uint64_t seed_;
  Part part_;
  std::int64_t rows_ = 0, columns_ = 0;
  std::int64_t classes_ = 0;
  std::int64_t count_ = 0;
  bool vary_ = false;
  bool positions_ = false;
};

}  // namespace

std::shared_ptr<const Dataset> make_generated_slides(const std::string& text, const DataOptions& options) {
  return std::make_shared<GeneratedSlides>(text, options);
}

}  // namespace outsize
