#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
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

// Where the unpacked bytes of a member lie.
struct UnpackedMember {
  std::shared_ptr<const InputFile> file;
  std::int64_t begin = 0;
  std::int64_t bytes = 0;
};

// A ZIP archive (ZIP64 too) with stored or deflated members, open for reading. Every failure is a UserError that names the file.
class ZipReader {
 public:
  explicit ZipReader(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::vector<ZipMember>& members() const { return members_; }
  // The member's bytes, unpacked, their checksum verified.
  std::vector<std::byte> read(const ZipMember& member) const;
  // The same without ever being whole in memory: in the archive itself, or, of one that is packed, in a file without a name in the
  // system's directory for temporary files.
  UnpackedMember open(const ZipMember& member) const;

 private:
  // Where the member's bytes begin in the archive, which has all of them.
  std::int64_t begin_of(const ZipMember& member, std::string_view what) const;
  // Calls sink(part) for the unpacked bytes, in order, and verifies their number and checksum.
  void unpack(const ZipMember& member, const std::function<void(std::span<const std::byte>)>& sink) const;

  std::shared_ptr<const InputFile> file_;
  std::vector<ZipMember> members_;
};

}  // namespace outsize
