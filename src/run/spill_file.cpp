#include "run/spill_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
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

// Whether a file's bytes are memory: what waits there saves none.
bool is_in_memory(int file) {
  constexpr std::int64_t kTmpfs = 0x01021994, kRamfs = 0x858458f6, kHugetlbfs = 0x958458f6;
  struct statfs system {};
  if (fstatfs(file, &system) != 0) return false;
  const auto type = static_cast<std::int64_t>(static_cast<std::uint32_t>(system.f_type));
  return type == kTmpfs || type == kRamfs || type == kHugetlbfs;
}

// What is written before it is sent to the disk.
constexpr std::int64_t kAtOnce = std::int64_t{8} << 20;

// The range of a file that a copy touches, from its smallest to its largest byte.
Interval touched_by(const CopyPlan& plan, std::int64_t element_bytes, bool target, std::int64_t offset) {
  std::int64_t first = target ? plan.to : plan.from, last = first;
  for (int loop = 0; loop < CopyPlan::kLoops; ++loop)
    last += (plan.count[loop] - 1) * (target ? plan.to_stride : plan.from_stride)[loop];
  return {offset + first * element_bytes, offset + (last + plan.length) * element_bytes};
}

void forget(int file, Interval range) { posix_fadvise(file, range.lo, range.size(), POSIX_FADV_DONTNEED); }

}  // namespace

SpillFile::SpillFile(std::string directory, std::int64_t bytes) : directory_(std::move(directory)) {
  if (directory_.empty()) directory_ = std::filesystem::temp_directory_path().string();
  file_ = open_nameless_file(directory_);
  if (file_ < 0) fail("make a file of", bytes);
  try {
    if (is_in_memory(file_))
      user_error(
          "spill directory '{}': is on a file system that lives in memory, where nothing is saved; name a directory on a disk "
          "with --spill",
          directory_);
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

// What was written since the last time is sent off, and what was then is waited for and forgotten: the disk writes while others do.
void SpillFile::note_written(Interval range) {
  const std::lock_guard lock(mutex_);
  now_.ranges[now_.count++] = range;
  now_.bytes += range.size();
  if (now_.bytes < kAtOnce && now_.count < Written::kMost) return;
  for (std::size_t i = 0; i < on_the_way_.count; ++i) {
    const Interval& sent = on_the_way_.ranges[i];
    sync_file_range(file_, sent.lo, sent.size(), SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    forget(file_, sent);
  }
  for (std::size_t i = 0; i < now_.count; ++i)
    sync_file_range(file_, now_.ranges[i].lo, now_.ranges[i].size(), SYNC_FILE_RANGE_WRITE);
  on_the_way_ = now_;
  now_ = {};
}

void SpillFile::write(std::int64_t offset, std::span<const std::byte> data) {
  check_size();
  write_run(offset, data);
  note_written({offset, offset + static_cast<std::int64_t>(data.size())});
}

void SpillFile::read(std::int64_t offset, std::span<std::byte> data) const {
  check_size();
  read_run(offset, data);
  forget(file_, {offset, offset + static_cast<std::int64_t>(data.size())});
}

void SpillFile::write_box(const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::int64_t offset) {
  check_size();
  const auto length = static_cast<std::size_t>(plan.length * element_bytes);
  for_each_run(plan, 0, run_count(plan), [&](std::int64_t at_from, std::int64_t at_to) {
    write_run(offset + at_to * element_bytes, {from + at_from * element_bytes, length});
  });
  if (plan.length > 0) note_written(touched_by(plan, element_bytes, true, offset));
}

void SpillFile::read_box(const CopyPlan& plan, std::int64_t element_bytes, std::int64_t offset, std::byte* to) const {
  check_size();
  const auto length = static_cast<std::size_t>(plan.length * element_bytes);
  for_each_run(plan, 0, run_count(plan), [&](std::int64_t at_from, std::int64_t at_to) {
    read_run(offset + at_from * element_bytes, {to + at_to * element_bytes, length});
  });
  if (plan.length > 0) forget(file_, touched_by(plan, element_bytes, false, offset));
}

}  // namespace outsize
