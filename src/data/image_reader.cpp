#include "data/image_reader.h"

#include "data/dataset.h"
#include "data/file.h"

namespace outsize {

namespace {

std::vector<std::byte> whole_file(const std::string& path) {
  try {
    const InputFile file(path);
    std::vector<std::byte> bytes(file.size());
    file.read(0, bytes, "an image");
    return bytes;
  } catch (const UserError& error) {
    throw SampleError(error.what());
  }
}

}  // namespace

std::unique_ptr<ImageReader> open_image(const std::string& path, PixelForm form) {
  std::vector<std::byte> file = whole_file(path);
  const std::string_view begin(reinterpret_cast<const char*>(file.data()), std::min<std::size_t>(file.size(), 8));
  if (begin == "\x89PNG\r\n\x1a\n") return open_png(path, std::move(file), form);
  if (begin.starts_with("\xff\xd8\xff")) return open_jpeg(path, std::move(file), form);
  if (file.empty()) sample_error("{}: is empty", path);
  sample_error("{}: is neither a PNG nor a JPEG image", path);
}

}  // namespace outsize
