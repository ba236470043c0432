#pragma once

#include <memory>

#include "data/file.h"
#include "data/npy.h"

namespace outsize {

// The elements of an array, in memory or read from a .npy file as they are asked for. Read by several threads at once.
class ArrayReader {
 public:
  explicit ArrayReader(Array array) : type_(array.type), shape_(array.shape), held_(std::move(array.data)) {}
  // Throws UserError naming the file when it is no .npy file, or its size is not what its header states.
  explicit ArrayReader(const std::string& npy_path);
  // The same of a .npy file that lies in `bytes` bytes of another from `begin` on; messages call it `what`.
  ArrayReader(std::shared_ptr<const InputFile> file, std::int64_t begin, std::int64_t bytes, std::string_view what);

  ElementType type() const { return type_; }
  const Dims& shape() const { return shape_; }
  // Fills `bytes` with the elements from `first` on.
  void read(std::int64_t first, std::span<std::byte> bytes) const;
  // A checksum of type, shape and elements: of all, or of 64 MiB spread evenly over more.
  std::uint32_t fingerprint() const;

 private:
  ArrayReader(std::shared_ptr<const InputFile> file, const std::string& npy_path);

  ElementType type_ = ElementType::f32;
  Dims shape_;
  std::vector<std::byte> held_;
  std::shared_ptr<const InputFile> file_;
  std::int64_t data_offset_ = 0;
};

}  // namespace outsize
