#include "data/npy_file.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace outsize {

namespace {
constexpr std::int64_t kMostHeaderBytes = 64 << 10;
}

ArrayReader::ArrayReader(const std::string& npy_path) : ArrayReader(std::make_shared<InputFile>(npy_path), npy_path) {}

ArrayReader::ArrayReader(std::shared_ptr<const InputFile> file, const std::string& npy_path)
    : ArrayReader(file, 0, file->size(), npy_path) {}

ArrayReader::ArrayReader(std::shared_ptr<const InputFile> file, std::int64_t begin, std::int64_t bytes, std::string_view what)
    : file_(std::move(file)) {
  std::vector<std::byte> start(static_cast<std::size_t>(std::min(bytes, kMostHeaderBytes)));
  file_->read(begin, start, "the npy header");
  const NpyHeader header = parse_npy_header(start, what);
  type_ = header.type;
  shape_ = header.shape;
  data_offset_ = begin + header.data_offset;
  const std::int64_t expected = shape_.product() * size_of(type_), found = bytes - header.data_offset;
  if (found != expected)
    user_error("{}: expected {} bytes for {} of shape {}, found {}", what, expected, name_of(type_), to_string(shape_), found);
}

void ArrayReader::read(std::int64_t first, std::span<std::byte> bytes) const {
  const std::int64_t offset = first * size_of(type_);
  if (file_)
    file_->read(data_offset_ + offset, bytes, "elements");
  else
    std::memcpy(bytes.data(), held_.data() + offset, bytes.size());
}

std::uint32_t ArrayReader::fingerprint() const {
  constexpr std::int64_t kParts = 64, kPartBytes = std::int64_t{1} << 20;
  std::uint32_t sum = checksum_of(make_npy_header(type_, shape_));
  const std::int64_t elements = shape_.product(), part = kPartBytes / size_of(type_);
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < kParts; ++i) {
    const std::int64_t even = elements / kParts * i, first = elements > kParts * part ? even : std::min(i * part, elements);
    bytes.resize(std::min(part, elements - first) * size_of(type_));
    read(first, bytes);
    sum = checksum_of(bytes, sum);
  }
  return sum;
}

}  // namespace outsize
