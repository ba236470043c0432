#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/box.h"

namespace outsize {

// One level of a whole slide or tiled TIFF, open for reading windows from several threads. Every failure is a SampleError that
// names the file.
class SlideFile {
 public:
  virtual ~SlideFile() = default;
  virtual std::int64_t rows() const = 0;
  virtual std::int64_t columns() const = 0;
  // Writes a window's pixels row by row, red, green and blue; where the slide was not scanned it is white.
  virtual void read_rgb(Interval rows, Interval columns, std::uint8_t* out) const = 0;
};

// Whether this build reads slides: it was made with OpenSlide.
bool slides_are_read();

// Opens a slide; a file opened shortly before is not opened again. Throws UserError where OpenSlide is not part of the build, or
// the slide has no such level.
std::shared_ptr<const SlideFile> open_slide(const std::string& path, int level);

}  // namespace outsize
