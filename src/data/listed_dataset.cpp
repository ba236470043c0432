#include "data/listed_dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "data/file.h"
#include "data/image_file.h"
#include "data/pixels.h"
#include "data/resize.h"
#include "data/slide_file.h"

namespace outsize {

namespace {

// A sample with a label or, where there is a mask, a label map.
class LabelledSample : public PixelSample {
 public:
  LabelledSample(const PixelScale& scale, std::int64_t label) : PixelSample(scale), label_(label) {}

  Dims y_extents() const final { return mask_ ? Dims{mask_->rows(), mask_->columns()} : Dims{}; }
  void read_y(const Box& window, DType dtype, std::byte* out) const final {
    OUTSIZE_CHECK(dtype == DType::i32);
    if (!mask_) {
      const auto label = static_cast<std::int32_t>(label_);
      std::memcpy(out, &label, sizeof label);
      return;
    }
    std::vector<std::uint16_t> labels(window.elements());
    mask_->read(window[0], window[1], reinterpret_cast<std::uint8_t*>(labels.data()));
    std::copy(labels.begin(), labels.end(), reinterpret_cast<std::int32_t*>(out));
  }

 protected:
  // The label map in `path`, of an image with these extents.
  void open_mask(const std::string& path, const std::string& image, std::int64_t rows, std::int64_t columns) {
    mask_ = std::make_unique<ImageFile>(path, PixelForm::labels);
    if (mask_->rows() != rows || mask_->columns() != columns)
      sample_error("{}: expected the {} x {} pixels of {}, found {} x {}", path, rows, columns, image, mask_->rows(),
                   mask_->columns());
  }
  std::unique_ptr<ImageFile> mask_;

 private:
  std::int64_t label_;
};

constexpr std::int64_t kMostScaledPixels = 1 << 30;

// The least extents with the image's aspect that cover `rows` and `columns`.
Resizer::Extents covering(std::int64_t rows, std::int64_t columns, const ImageFile& image) {
  const auto scaled = [](std::int64_t extent, std::int64_t to, std::int64_t from) { return (2 * extent * to + from) / (2 * from); };
  const bool by_rows = rows * image.columns() >= columns * image.rows();
  const Resizer::Extents extents = by_rows
                                       ? Resizer::Extents{rows, std::max(columns, scaled(image.columns(), rows, image.rows()))}
                                       : Resizer::Extents{std::max(rows, scaled(image.rows(), columns, image.columns())), columns};
  if (extents.rows > kMostScaledPixels / extents.columns)
    sample_error("{}: its {} x {} pixels, scaled to cover {} x {}, would be {} x {}", image.path(), image.rows(), image.columns(),
                 rows, columns, extents.rows, extents.columns);
  return extents;
}

class ImageSample final : public LabelledSample {
 public:
  // `fitted`: rows and columns that the image is scaled to cover, or none.
  ImageSample(const Listing::Entry& entry, const PixelScale& scale, const Dims& fitted)
      : LabelledSample(scale, entry.label), image_(entry.file, scale.channels() == 1 ? PixelForm::grey : PixelForm::rgb) {
    if (!entry.mask.empty()) open_mask(entry.mask, entry.file, image_.rows(), image_.columns());
    if (fitted.rank() == 0) return;
    const Resizer::Extents extents = covering(fitted[0], fitted[1], image_);
    image_.resize(extents.rows, extents.columns);
    if (mask_) mask_->resize(extents.rows, extents.columns);
  }

 protected:
  std::int64_t rows() const override { return image_.rows(); }
  std::int64_t columns() const override { return image_.columns(); }
  void read_pixels(Interval rows, Interval columns, std::uint8_t* out) const override { image_.read(rows, columns, out); }

 private:
  mutable ImageFile image_;
};

class SlideSample final : public LabelledSample {
 public:
  SlideSample(const Listing::Entry& entry, const PixelScale& scale, int level)
      : LabelledSample(scale, entry.label), slide_(open_slide(entry.file, level)), grey_(scale.channels() == 1) {
    if (!entry.mask.empty()) open_mask(entry.mask, entry.file, slide_->rows(), slide_->columns());
  }

  bool for_several() const override { return true; }

 protected:
  std::int64_t rows() const override { return slide_->rows(); }
  std::int64_t columns() const override { return slide_->columns(); }
  void read_pixels(Interval rows, Interval columns, std::uint8_t* out) const override {
    if (!grey_) return slide_->read_rgb(rows, columns, out);
    std::vector<std::uint8_t> rgb(3 * rows.size() * columns.size());
    slide_->read_rgb(rows, columns, rgb.data());
    for (std::size_t i = 0; i < rgb.size(); i += 3) *out++ = luma(rgb[i], rgb[i + 1], rgb[i + 2]);
  }

 private:
  std::shared_ptr<const SlideFile> slide_;
  bool grey_;
};

// 0 where there is no such file any more.
std::uintmax_t size_of_file(const std::string& path) {
  std::error_code failure;
  const std::uintmax_t bytes = std::filesystem::file_size(path, failure);
  return failure ? 0 : bytes;
}

class ListedDataset final : public Dataset {
 public:
  ListedDataset(Listing listing, const DataOptions& options)
      : listing_(std::move(listing)),
        scale_(image_channels(options.spec, listing_.name), options),
        slide_level_(options.slide_level) {
    const BatchSpec& spec = options.spec;
    const bool fixed = spec.x_shape[2] > 0 && spec.x_shape[3] > 0;
    if (options.fit == Fit::resize && fixed) fitted_ = {spec.x_shape[2], spec.x_shape[3]};
    if (spec.classes == 0) user_error("{}: has labels, but the model takes targets", listing_.name);
    if (listing_.masks && spec.y_shape.rank() == 1)
      user_error("{}: has a label for each pixel, but the model takes one a sample", listing_.name);
    if (!listing_.masks && spec.y_shape.rank() != 1)
      user_error("{}: has one label a sample, but the model takes one for each pixel; expected the folders images and masks",
                 listing_.name);
    for (const Listing::Entry& entry : listing_.entries)
      if (listing_.classes.empty() && entry.label >= spec.classes)
        user_error("{}: label {} of {} is not one of the model's {} classes: {}; or give --classes {}", listing_.name, entry.label,
                   entry.file, spec.classes, expected_integers(spec.classes, {}), listing_.class_count);
    if (listing_.class_count > spec.classes)
      user_error("{}: has {} classes, but the model only {}; give --classes {}", listing_.name, listing_.class_count, spec.classes,
                 listing_.class_count);
    if (!slides_are_read())
      for (const Listing::Entry& entry : listing_.entries)
        if (is_slide(entry.file)) open_slide(entry.file, slide_level_);  // says what to do
  }

  std::string name() const override { return listing_.name; }
  std::string description() const override {
    std::string text = fmt::format("{}: {} image{}", listing_.name, size(), size() == 1 ? "" : "s");
    if (listing_.masks) text += " with label maps";
    if (listing_.class_count > 0)
      text += fmt::format(" of {} class{}", listing_.class_count, listing_.class_count == 1 ? "" : "es");
    text += fitted_.rank() > 0 ? fmt::format(", scaled to cover {} x {}", fitted_[0], fitted_[1]) : ", not scaled";
    return text + ", " + scale_.description();
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(listing_.entries.size()); }
  // Of names, labels and the sizes of the files, none of which is opened.
  std::uint32_t fingerprint() const override {
    std::uint32_t sum = 0;
    for (const Listing::Entry& entry : listing_.entries) {
      const std::string line = fmt::format("{} {} {} {} {}\n", entry.file, size_of_file(entry.file), entry.label, entry.mask,
                                           entry.mask.empty() ? 0 : size_of_file(entry.mask));
      sum = checksum_of(std::as_bytes(std::span(line)), sum);
    }
    return sum;
  }
  std::string sample_name(std::int64_t index) const override {
    const Listing::Entry& found = entry(index);
    return found.mask.empty() ? found.file : found.mask;
  }
  std::unique_ptr<Sample> open(std::int64_t index) const override {
    if (is_slide(entry(index).file)) return std::make_unique<SlideSample>(entry(index), scale_, slide_level_);
    return std::make_unique<ImageSample>(entry(index), scale_, fitted_);
  }

 private:
  const Listing::Entry& entry(std::int64_t index) const { return listing_.entries[index]; }

  Listing listing_;
  PixelScale scale_;
  Dims fitted_;  // rows and columns that images are scaled to cover
  int slide_level_;
};

}  // namespace

std::shared_ptr<const Dataset> make_listed_dataset(Listing listing, const DataOptions& options) {
  return std::make_shared<ListedDataset>(std::move(listing), options);
}

}  // namespace outsize
