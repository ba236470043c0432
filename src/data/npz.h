#pragma once

#include <string>
#include <vector>

#include "data/array.h"
#include "data/npy_file.h"
#include "data/zip.h"

namespace outsize {

// A NumPy .npz file (numpy.savez or savez_compressed), open for reading array by array.
class NpzFile {
 public:
  explicit NpzFile(const std::string& path) : zip_(path) {}

  const std::string& path() const { return zip_.path(); }
  // The arrays' names, without the members' ".npy".
  std::vector<std::string> names() const;
  bool has(std::string_view name) const;
  // Throws UserError naming the file when it has no such array, or one that is damaged or of an unread type.
  Array read(std::string_view name) const;
  // The same, read as its elements are asked for: it is never whole in memory.
  ArrayReader open(std::string_view name) const;

 private:
  const ZipMember& member(std::string_view name) const;
  std::string describe(std::string_view name) const;

  ZipReader zip_;
};

}  // namespace outsize
