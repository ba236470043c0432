#include "data/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace outsize {

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) user_error("{}: cannot be opened: {}", path_, std::strerror(errno));
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    user_error("{}: expected a file", path_);
  }
  size_ = status.st_size;
}

void InputFile::find_size() {
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0) size_ = status.st_size;
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::int64_t offset, std::span<std::byte> bytes, std::string_view what) const {
  const auto wanted = static_cast<std::int64_t>(bytes.size());
  if (offset < 0 || wanted > size_ - offset)
    user_error("{}: truncated: expected {} bytes of {} at offset {}, but the file has {} bytes", path_, wanted, what, offset,
               size_);
  while (!bytes.empty()) {
    const ::ssize_t got = ::pread(descriptor_, bytes.data(), bytes.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) user_error("{}: cannot read {}: {}", path_, what, got < 0 ? std::strerror(errno) : "the file has shrunk");
    bytes = bytes.subspan(got);
    offset += got;
  }
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".partial") {
  struct ::stat there {};
  if (::stat(path_.c_str(), &there) == 0 && !S_ISREG(there.st_mode))
    user_error("{}: cannot be written: it is not a regular file", path_);
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) user_error("{}: cannot be written: {}", path_, std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ::ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) user_error("{}: cannot be written: {}", path_, std::strerror(errno));
    bytes = bytes.subspan(put);
    position_ += put;
  }
}

void OutputFile::commit() {
  // The bytes must be on the disk before the name points at them, or a crash could leave an empty file under a good name.
  const bool synced = ::fsync(descriptor_) == 0;
  const bool closed = ::close(descriptor_) == 0;
  descriptor_ = -1;
  if (!synced || !closed || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary_.c_str());
    user_error("{}: cannot be written: {}", path_, std::strerror(reason));
  }
  // The new name itself is on the disk once its directory is.
  const std::size_t slash = path_.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path_.substr(0, slash);
  if (const int opened = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); opened >= 0) {
    ::fsync(opened);
    ::close(opened);
  }
}

std::uint32_t checksum_of(std::span<const std::byte> bytes, std::uint32_t before) {
  if (bytes.empty()) return before;
  return static_cast<std::uint32_t>(crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::uint32_t checksum_of(const InputFile& file) {
  constexpr std::int64_t kPart = std::int64_t{1} << 20;
  std::vector<std::byte> part(std::min(file.size(), kPart));
  std::uint32_t sum = 0;
  for (std::int64_t at = 0; at < file.size(); at += kPart) {
    const std::span<std::byte> bytes(part.data(), static_cast<std::size_t>(std::min(kPart, file.size() - at)));
    file.read(at, bytes, "bytes");
    sum = checksum_of(bytes, sum);
  }
  return sum;
}

std::string read_text(const std::string& path) {
  const InputFile file(path);
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)), "text");
  return text;
}

}  // namespace outsize
