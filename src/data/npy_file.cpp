#include "data/npy_file.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace outsize {

namespace {
constexpr std::int64_t kMostHeaderBytes = 64 << 10;
}

ArrayReader::ArrayReader(const std::string& npy_path) : file_(std::make_unique<InputFile>(npy_path)) {
  std::vector<std::byte> begin(std::min(file_->size(), kMostHeaderBytes));
  file_->read(0, begin, "the npy header");
  const NpyHeader header = parse_npy_header(begin, npy_path);
  type_ = header.type;
  shape_ = header.shape;
  data_offset_ = header.data_offset;
  const std::int64_t expected = shape_.product() * size_of(type_), found = file_->size() - data_offset_;
  if (found != expected)
    user_error("{}: expected {} bytes for {} of shape {}, found {}", npy_path, expected, name_of(type_), to_string(shape_), found);
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
