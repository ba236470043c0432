#pragma once

#include <string>
#include <utility>
#include <vector>

#include "data/array.h"
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

 private:
  ZipReader zip_;
};

// Writes the arrays to `path`, as numpy.savez (or, with `compressed`, savez_compressed) does.
void write_npz(const std::string& path, const std::vector<std::pair<std::string, Array>>& arrays, bool compressed = false);

}  // namespace outsize
