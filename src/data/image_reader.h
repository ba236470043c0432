#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace outsize {

// What is wanted of each pixel of an image.
enum class PixelForm : std::uint8_t {
  grey,    // one byte; of colours their luma, as Pillow has it
  rgb,     // three bytes
  labels,  // the class that the file states, as a native 16-bit number: a grey level or a palette's index
};

constexpr std::int64_t size_of(PixelForm form) { return form == PixelForm::grey ? 1 : form == PixelForm::rgb ? 3 : 2; }

// An image read from the top, row by row. Every failure is a SampleError that names the file.
class ImageReader {
 public:
  virtual ~ImageReader() = default;
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  // Writes the next row's pixels.
  virtual void next_row(std::uint8_t* out) = 0;

 protected:
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
};

// Opens a PNG or JPEG image; alpha is dropped. Labels are read from PNG images without colours alone (anything else is a
// UserError).
std::unique_ptr<ImageReader> open_image(const std::string& path, PixelForm form);

// The same of a file that has been read: one for each format.
std::unique_ptr<ImageReader> open_png(const std::string& path, std::vector<std::byte> file, PixelForm form);
std::unique_ptr<ImageReader> open_jpeg(const std::string& path, std::vector<std::byte> file, PixelForm form);

// The grey of a colour (ITU-R 601), rounded as Pillow does: equal channels keep their value.
constexpr std::uint8_t luma(std::uint32_t red, std::uint32_t green, std::uint32_t blue) {
  return static_cast<std::uint8_t>((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16);
}

}  // namespace outsize
