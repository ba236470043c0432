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
  Array read(const TensorEntry& entry) const { return read(entry, 0, entry.shape.product()); }
  // `count` of its elements from `first` on, as an array of one dimension; all of them in its shape.
  Array read(const TensorEntry& entry, std::int64_t first, std::int64_t count) const;

 private:
  InputFile file_;
  std::vector<TensorEntry> entries_;
};

// Throws UserError where a file that is no safetensors file would be lost if one were written to `path`. No file, an empty one and
// a safetensors file may be written over; what is no file at all is left to write_safetensors().
void expect_replaceable(const std::string& path);

// Takes the bytes of a tensor part by part, in order.
using TensorSink = std::function<void(std::span<const std::byte> part)>;

// Writes the tensors to `path`, in the order of their names; `write` is asked for each in turn and gives its bytes to the sink, so
// that none need be in memory whole. Offsets of `entries` are ignored. Throws UserError when the file cannot be written or a name
// occurs twice.
void write_safetensors(const std::string& path, std::vector<TensorEntry> entries,
                       const std::function<void(const TensorEntry&, const TensorSink& sink)>& write);

}  // namespace outsize
