#include <png.h>

#include <csetjmp>
#include <cstring>

#include "data/dataset.h"
#include "data/image_reader.h"

namespace outsize {

namespace {

constexpr std::int64_t kMostInterlacedBytes = std::int64_t{4} << 30;  // a damaged header may ask for more than any image has

class PngReader final : public ImageReader {
 public:
  PngReader(const std::string& path, std::vector<std::byte> file, PixelForm form)
      : path_(path), file_(std::move(file)), form_(form) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
    OUTSIZE_CHECK(info_ != nullptr);
    png_set_read_fn(png_, this, on_read);
    try {
      begin();
    } catch (...) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw;
    }
  }
  ~PngReader() override { png_destroy_read_struct(&png_, &info_, nullptr); }

  void next_row(std::uint8_t* out) override {
    std::uint8_t* decoded = row_.data();
    if (interlaced_.empty())
      guarded([&] { png_read_row(png_, decoded, nullptr); });
    else
      decoded = interlaced_.data() + row_.size() * static_cast<std::size_t>(at_);
    ++at_;
    convert(decoded, out);
    // The image's end holds a checksum of what has been decoded.
    if (at_ == rows_ && interlaced_.empty()) guarded([&] { png_read_end(png_, nullptr); });
  }

 private:
  void begin() {
    guarded([&] { png_read_info(png_, info_); });
    rows_ = png_get_image_height(png_, info_);
    columns_ = png_get_image_width(png_, info_);
    const int colour = png_get_color_type(png_, info_);
    depth_ = png_get_bit_depth(png_, info_);
    const bool interlaced = png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE;
    check_size(png_get_rowbytes(png_, info_));
    if (form_ == PixelForm::labels && colour != PNG_COLOR_TYPE_GRAY && colour != PNG_COLOR_TYPE_PALETTE)
      user_error("{}: expected class indices as a PNG image in grey or with a palette, found one in colour", path_);
    guarded([&] {
      if (form_ == PixelForm::labels) {
        png_set_packing(png_);
      } else {
        png_set_expand(png_);
        png_set_scale_16(png_);
        png_set_strip_alpha(png_);
        png_set_gray_to_rgb(png_);
      }
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });
    row_.resize(png_get_rowbytes(png_, info_));
    if (interlaced) read_interlaced();
  }

  // Deflate packs at most 1032 : 1; a file of fewer bytes is damaged, and no reason to ask for the memory of its rows.
  void check_size(std::size_t row_bytes) const {
    if (1040 * file_.size() / static_cast<std::size_t>(rows_) < row_bytes)
      sample_error("{}: damaged PNG image: {} bytes cannot hold {} x {} pixels", path_, file_.size(), rows_, columns_);
  }

  // Its rows are ready only when all are.
  void read_interlaced() {
    if (static_cast<std::int64_t>(row_.size()) > kMostInterlacedBytes / rows_)
      sample_error("{}: an interlaced PNG image of {} x {} pixels is not read", path_, rows_, columns_);
    interlaced_.resize(row_.size() * static_cast<std::size_t>(rows_));
    std::vector<png_bytep> rows;
    for (std::int64_t r = 0; r < rows_; ++r) rows.push_back(interlaced_.data() + row_.size() * static_cast<std::size_t>(r));
    guarded([&] {
      png_read_image(png_, rows.data());
      png_read_end(png_, nullptr);
    });
  }

  void convert(const std::uint8_t* row, std::uint8_t* out) const {
    if (form_ == PixelForm::rgb) {
      std::memcpy(out, row, row_.size());
    } else if (form_ == PixelForm::grey) {
      for (std::int64_t i = 0; i < columns_; ++i, row += 3) out[i] = luma(row[0], row[1], row[2]);
    } else {
      for (std::int64_t i = 0; i < columns_; ++i) {
        const auto label = static_cast<std::uint16_t>(depth_ == 16 ? row[2 * i] << 8 | row[2 * i + 1] : row[i]);
        std::memcpy(out + 2 * i, &label, sizeof label);
      }
    }
  }

  // libpng leaves by longjmp: a call may have no objects to destroy.
  template <class Call>
  void guarded(const Call& call) {
    if (setjmp(jump_)) sample_error("{}: damaged PNG image: {}", path_, message_);
    call();
  }
  static PngReader& self(png_structp png) { return *static_cast<PngReader*>(png_get_error_ptr(png)); }
  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    std::strncpy(self(png).message_, message, sizeof message_ - 1);
    std::longjmp(self(png).jump_, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep out, std::size_t bytes) {
    PngReader& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (bytes > reader.file_.size() - reader.read_) png_error(png, "it is truncated");
    std::memcpy(out, reader.file_.data() + reader.read_, bytes);
    reader.read_ += bytes;
  }

  std::string path_;
  std::vector<std::byte> file_;
  PixelForm form_;
  std::size_t read_ = 0;  // bytes of the file
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_{};
  char message_[128] = {};
  int depth_ = 8;
  std::int64_t at_ = 0;            // the next row
  std::vector<std::uint8_t> row_;  // as libpng decodes it
  std::vector<std::uint8_t> interlaced_;
};

}  // namespace

std::unique_ptr<ImageReader> open_png(const std::string& path, std::vector<std::byte> file, PixelForm form) {
  return std::make_unique<PngReader>(path, std::move(file), form);
}

}  // namespace outsize
