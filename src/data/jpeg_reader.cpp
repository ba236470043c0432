#include <cstdio>  // jpeglib.h needs it first
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <csetjmp>
#include <cstring>

#include "data/dataset.h"
#include "data/image_reader.h"

namespace outsize {

namespace {

// A progressive image is held whole by libjpeg; a damaged header may ask for more than any has.
constexpr long kMostBytes = 4L << 30;

class JpegReader final : public ImageReader {
 public:
  JpegReader(const std::string& path, std::vector<std::byte> file, PixelForm form)
      : path_(path), file_(std::move(file)), form_(form) {
    if (form == PixelForm::labels) user_error("{}: expected class indices as a PNG image, found a JPEG image", path);
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = this;
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
    errors_.output_message = [](j_common_ptr) {};
    try {
      guarded([&] { jpeg_create_decompress(&jpeg_); });
      begin();
    } catch (...) {
      jpeg_destroy_decompress(&jpeg_);
      throw;
    }
  }
  ~JpegReader() override { jpeg_destroy_decompress(&jpeg_); }

  void next_row(std::uint8_t* out) override {
    JSAMPROW row = row_.data();
    guarded([&] { jpeg_read_scanlines(&jpeg_, &row, 1); });
    const int components = jpeg_.output_components;
    for (std::int64_t i = 0; i < columns_; ++i, row += components) {
      std::uint8_t rgb[3] = {row[0], row[components > 1 ? 1 : 0], row[components > 1 ? 2 : 0]};
      // Adobe's programs store inks inverted: 255 is none.
      if (components == 4)
        for (std::uint8_t& channel : rgb) channel = static_cast<std::uint8_t>((channel * row[3] + 127) / 255);
      if (form_ == PixelForm::rgb)
        std::memcpy(out + 3 * i, rgb, 3);
      else
        out[i] = luma(rgb[0], rgb[1], rgb[2]);
    }
  }

 private:
  void begin() {
    guarded([&] {
      jpeg_.mem->max_memory_to_use = kMostBytes;
      jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(file_.data()), file_.size());
      jpeg_read_header(&jpeg_, TRUE);
    });
    check_size();
    guarded([&] {
      const J_COLOR_SPACE space = jpeg_.jpeg_color_space;
      jpeg_.out_color_space = space == JCS_GRAYSCALE ? JCS_GRAYSCALE : space == JCS_CMYK || space == JCS_YCCK ? JCS_CMYK : JCS_RGB;
      jpeg_start_decompress(&jpeg_);
    });
    rows_ = jpeg_.output_height;
    columns_ = jpeg_.output_width;
    row_.resize(columns_ * jpeg_.output_components);
  }

  // Huffman codes have a bit at least for every 8 x 8 pixels; a file of fewer is damaged, and no reason to ask for their memory.
  // Arithmetic codes, which browsers do not read either, have no such bound.
  void check_size() const {
    if (jpeg_.arith_code) sample_error("{}: a JPEG image in arithmetic codes is not read; save it in Huffman codes", path_);
    const std::uint64_t pixels = std::uint64_t{jpeg_.image_width} * jpeg_.image_height;
    if (pixels / (64 * 8) > file_.size())
      sample_error("{}: damaged JPEG image: {} bytes cannot hold {} x {} pixels", path_, file_.size(), jpeg_.image_height,
                   jpeg_.image_width);
  }

  // libjpeg leaves by longjmp: a call may have no objects to destroy.
  template <class Call>
  void guarded(const Call& call) {
    if (setjmp(jump_)) sample_error("{}: damaged JPEG image: {}", path_, message_);
    call();
  }
  [[noreturn]] static void on_error(j_common_ptr jpeg) {
    auto& reader = *static_cast<JpegReader*>(jpeg->client_data);
    jpeg->err->format_message(jpeg, reader.message_);
    std::longjmp(reader.jump_, 1);
  }
  // Where data is missing or senseless libjpeg would only warn, and fill in grey.
  static void on_message(j_common_ptr jpeg, int level) {
    const int code = jpeg->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE)) on_error(jpeg);
  }

  std::string path_;
  std::vector<std::byte> file_;
  PixelForm form_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf jump_{};
  char message_[JMSG_LENGTH_MAX] = {};
  std::vector<std::uint8_t> row_;  // as libjpeg decodes it
};

}  // namespace

std::unique_ptr<ImageReader> open_jpeg(const std::string& path, std::vector<std::byte> file, PixelForm form) {
  return std::make_unique<JpegReader>(path, std::move(file), form);
}

}  // namespace outsize
