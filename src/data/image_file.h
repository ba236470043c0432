#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/box.h"
#include "data/image_reader.h"

namespace outsize {

// Windows of a PNG or JPEG image. A small image is decoded once and kept; of a large one only the windows are held, and those that
// go down the image decode it once altogether. Every failure is a SampleError that names the file.
class ImageFile {
 public:
  // Reads the file and its header.
  ImageFile(const std::string& path, PixelForm form);

  const std::string& path() const { return path_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  // From now on the image has these extents: interpolated (data/resize.h), labels by the nearest pixel.
  void resize(std::int64_t rows, std::int64_t columns);
  // Writes a window's pixels row by row.
  void read(Interval rows, Interval columns, std::uint8_t* out);

 private:
  void decode_whole();
  void decode_scaled();
  // The next row that the reader gives, into row_.
  void advance();

  std::string path_;
  PixelForm form_;
  std::unique_ptr<ImageReader> reader_;
  std::int64_t next_ = 0;                // row of the reader
  std::int64_t rows_ = 0, columns_ = 0;  // as asked for
  std::vector<std::uint8_t> row_;
  std::vector<std::uint8_t> kept_;  // the whole image, where it is kept
};

}  // namespace outsize
