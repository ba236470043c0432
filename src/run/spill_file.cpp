#include "run/spill_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "backend/host_memory.h"
#include "base/bytes.h"
#include "base/nameless_file.h"

namespace outsize {
namespace {

// 0, or an error number. Where the file system cannot reserve, the file only gets its size, if there is room for it now.
int reserve(int file, std::int64_t bytes) {
  if (fallocate(file, 0, 0, bytes) == 0) return 0;
  if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
  struct statvfs system {};
  if (fstatvfs(file, &system) == 0 && static_cast<std::uint64_t>(bytes) / system.f_frsize > system.f_bavail) return ENOSPC;
  return ftruncate(file, bytes) == 0 ? 0 : errno;
}

}  // namespace

SpillFile::SpillFile(std::string directory, std::int64_t bytes) : directory_(std::move(directory)) {
  if (directory_.empty()) directory_ = std::filesystem::temp_directory_path().string();
  file_ = open_nameless_file(directory_);
  if (file_ < 0) fail("make a file of", bytes);
  try {
    grow(bytes);
  } catch (...) {
    close(file_);
    throw;
  }
}

void SpillFile::grow(std::int64_t bytes) {
  if (const int error = reserve(file_, bytes); error != 0) {
    errno = error;
    fail("reserve", bytes);
  }
  bytes_ = bytes;
}

SpillFile::~SpillFile() { close(file_); }

void SpillFile::fail(const char* action, std::int64_t bytes) const {
  const int error = errno;
  user_error("spill directory '{}': cannot {} {}: {}; {}", directory_, action, format_bytes(bytes), std::strerror(error),
             error == ENOSPC || error == EDQUOT || error == EFBIG ? "free some room there, or name another directory with --spill"
                                                                  : "name a writable directory on a local disk with --spill");
}

void SpillFile::fail_short(std::int64_t bytes) const {
  user_error(
      "spill directory '{}': the spill file ended {} early: it was truncated from outside; name a directory of your own with "
      "--spill",
      directory_, format_bytes(bytes));
}

void SpillFile::check_size() const {
  struct stat now {};
  if (fstat(file_, &now) != 0) fail("find the size of", bytes_);
  if (now.st_size < bytes_) fail_short(bytes_ - now.st_size);
}

void SpillFile::write_run(std::int64_t offset, std::span<const std::byte> data) {
  const std::int64_t end = offset + static_cast<std::int64_t>(data.size());
  while (!data.empty()) {
    const ssize_t done = pwrite(file_, data.data(), data.size(), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("write", static_cast<std::int64_t>(data.size()));
    offset += done;
    data = data.subspan(static_cast<std::size_t>(done));
  }
  for (std::int64_t before = touched_; before < end && !touched_.compare_exchange_weak(before, end);) {
  }
}

void SpillFile::read_run(std::int64_t offset, std::span<std::byte> data) const {
  while (!data.empty()) {
    const ssize_t done = pread(file_, data.data(), data.size(), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("read", static_cast<std::int64_t>(data.size()));
    if (done == 0) fail_short(static_cast<std::int64_t>(data.size()));
    offset += done;
    data = data.subspan(static_cast<std::size_t>(done));
  }
}

void SpillFile::write(std::int64_t offset, std::span<const std::byte> data) {
  check_size();
  write_run(offset, data);
}

void SpillFile::read(std::int64_t offset, std::span<std::byte> data) const {
  check_size();
  read_run(offset, data);
}

void SpillFile::write_box(const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::int64_t offset) {
  check_size();
  const auto length = static_cast<std::size_t>(plan.length * element_bytes);
  for_each_run(plan, 0, run_count(plan), [&](std::int64_t at_from, std::int64_t at_to) {
    write_run(offset + at_to * element_bytes, {from + at_from * element_bytes, length});
  });
}

void SpillFile::read_box(const CopyPlan& plan, std::int64_t element_bytes, std::int64_t offset, std::byte* to) const {
  check_size();
  const auto length = static_cast<std::size_t>(plan.length * element_bytes);
  for_each_run(plan, 0, run_count(plan), [&](std::int64_t at_from, std::int64_t at_to) {
    read_run(offset + at_from * element_bytes, {to + at_to * element_bytes, length});
  });
}

}  // namespace outsize
