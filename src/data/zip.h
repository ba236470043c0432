#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/file.h"

namespace outsize {

// A member of a ZIP archive as its central directory states it.
struct ZipMember {
  std::string name;
  bool deflated = false;
  std::uint32_t checksum = 0;  // CRC-32
  std::int64_t packed_bytes = 0;
  std::int64_t bytes = 0;
  std::int64_t header_offset = 0;
};

// A ZIP archive (ZIP64 too) with stored or deflated members, open for reading. Every failure is a UserError that names the file.
class ZipReader {
 public:
  explicit ZipReader(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<ZipMember>& members() const { return members_; }
  // The member's bytes, unpacked, their checksum verified.
  std::vector<std::byte> read(const ZipMember& member) const;

 private:
  InputFile file_;
  std::vector<ZipMember> members_;
};

}  // namespace outsize
