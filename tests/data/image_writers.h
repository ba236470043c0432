#pragma once

#include <png.h>
#include <zlib.h>

#include <cstdio>  // jpeglib.h needs it first
// clang-format off
#include <jpeglib.h>
// clang-format on

#include <string>
#include <vector>

#include "base/error.h"

namespace outsize {

// Rows of pixels, top first; `channels` bytes each.
struct Pixels {
  int rows = 0;
  int columns = 0;
  int channels = 3;
  std::vector<std::uint8_t> bytes;

  // Byte c of pixel (r, c) is `value(r, column, channel)`.
  template <class Value>
  static Pixels make(int rows, int columns, int channels, const Value& value) {
    Pixels pixels{rows, columns, channels, {}};
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c)
        for (int k = 0; k < channels; ++k) pixels.bytes.push_back(static_cast<std::uint8_t>(value(r, c, k)));
    return pixels;
  }
  const std::uint8_t* row(int r) const { return bytes.data() + static_cast<std::size_t>(r * columns * channels); }
};

struct PngForm {
  int colour = PNG_COLOR_TYPE_RGB;
  int depth = 8;
  bool interlaced = false;
};

// Writes rows as they are: two bytes a pixel, high first, where the depth is 16. A palette counts upwards in red.
inline void write_png(const std::string& path, const Pixels& pixels, const PngForm& form = {}) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  OUTSIZE_CHECK(file != nullptr);
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_init_io(png, file);
  const int bytes_of_pixel = form.depth == 16 ? pixels.channels / 2 : pixels.channels;
  OUTSIZE_CHECK(bytes_of_pixel > 0);
  png_set_IHDR(png, info, static_cast<png_uint_32>(pixels.columns), static_cast<png_uint_32>(pixels.rows), form.depth, form.colour,
               form.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette(16);
  for (std::size_t i = 0; i < palette.size(); ++i) palette[i].red = static_cast<png_byte>(17 * i);
  if (form.colour == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  png_write_info(png, info);
  std::vector<png_bytep> rows;
  for (int r = 0; r < pixels.rows; ++r) rows.push_back(const_cast<png_bytep>(pixels.row(r)));
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  std::fclose(file);
}

// The PNG image in `file`, whose header now claims other extents.
inline std::string claiming(std::string file, std::uint32_t rows, std::uint32_t columns) {
  const std::size_t header = file.find("IHDR");
  const auto put = [&](std::size_t at, std::uint32_t number) {
    for (std::size_t i = 0; i < 4; ++i) file[header + at + i] = static_cast<char>(number >> (24 - 8 * i));
  };
  put(4, columns);
  put(8, rows);
  put(17, static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(file.data() + header), 17)));
  return file;
}

inline void write_jpeg(const std::string& path, const Pixels& pixels, int quality = 100) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  OUTSIZE_CHECK(file != nullptr);
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  jpeg_stdio_dest(&jpeg, file);
  jpeg.image_width = static_cast<JDIMENSION>(pixels.columns);
  jpeg.image_height = static_cast<JDIMENSION>(pixels.rows);
  jpeg.input_components = pixels.channels;
  jpeg.in_color_space = pixels.channels == 4 ? JCS_CMYK : pixels.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, quality, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  for (int r = 0; r < pixels.rows; ++r) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels.row(r));
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::fclose(file);
}

}  // namespace outsize
