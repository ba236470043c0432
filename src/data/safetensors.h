#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/array.h"
#include "data/file.h"

namespace outsize {

// A tensor of a safetensors file: 8 bytes of header length, a JSON header, then the tensors' bytes without gap or overlap.
struct TensorEntry {
  std::string name;
  ElementType type = ElementType::f32;
  Dims shape;
  std::int64_t offset = 0;  // from the start of the file

  std::int64_t bytes() const { return shape.product() * size_of(type); }
};

// A safetensors file, open for reading tensor by tensor.
class SafetensorsFile {
 public:
  // Reads and checks the header. Throws UserError naming the file, the tensor and what was expected.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  // In the order of their names.
  const std::vector<TensorEntry>& entries() const { return entries_; }
  // The entry of that name, or nullptr.
  const TensorEntry* find(std::string_view name) const;
  Array read(const TensorEntry& entry) const;

 private:
  InputFile file_;
  std::vector<TensorEntry> entries_;
};

// Throws UserError where a file that is no safetensors file would be lost if one were written to `path`. No file, an empty one and
// a safetensors file may be written over; what is no file at all is left to write_safetensors().
void expect_replaceable(const std::string& path);

// Writes the tensors to `path`, in the order of their names; `bytes_of` is asked for the bytes of each in turn, so that only one
// need be in memory. Offsets of `entries` are ignored. Throws UserError when the file cannot be written or a name occurs twice.
void write_safetensors(const std::string& path, std::vector<TensorEntry> entries,
                       const std::function<std::vector<std::byte>(const TensorEntry&)>& bytes_of);

}  // namespace outsize
