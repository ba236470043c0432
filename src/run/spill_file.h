#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <span>
#include <string>

#include "graph/storage.h"

namespace outsize {

// The disk tier: one file without a name, so that nobody can delete or open it by one, and nothing is left behind however the
// process ends. It goes on where its directory is removed. The system holds little of it in memory: what is written goes to the
// disk some MiB later, and is then forgotten, as is what has been read. All errors are UserErrors that name the directory and say
// what to do.
class SpillFile {
 public:
  // Reserves the room at once, so that a full disk shows before the first step. An empty directory: the system's temporary one. One
  // on a file system that itself lives in memory is refused.
  SpillFile(std::string directory, std::int64_t bytes);
  ~SpillFile();
  // Reserves more room; `bytes` is not less than before.
  void grow(std::int64_t bytes);
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // These may be called from several threads at once and allocate nothing unless they fail. A file that was truncated from outside
  // is an error of the next call, not a hole that reads as zeros once it has grown again.
  void write(std::int64_t offset, std::span<const std::byte> data);
  void read(std::int64_t offset, std::span<std::byte> data) const;
  // Moves a box as `plan` says; the file's side starts at byte `offset`.
  void write_box(const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::int64_t offset);
  void read_box(const CopyPlan& plan, std::int64_t element_bytes, std::int64_t offset, std::byte* to) const;
  // One past the highest byte that was ever written.
  std::int64_t touched_bytes() const { return touched_; }

 private:
  [[noreturn]] void fail(const char* action, std::int64_t bytes) const;
  [[noreturn]] void fail_short(std::int64_t bytes) const;
  void check_size() const;
  void write_run(std::int64_t offset, std::span<const std::byte> data);
  void read_run(std::int64_t offset, std::span<std::byte> data) const;
  void note_written(Interval range);

  std::string directory_;
  int file_ = -1;
  std::int64_t bytes_ = 0;  // reserved
  std::atomic<std::int64_t> touched_{0};

  // Ranges that were written and that the system still holds.
  struct Written {
    static constexpr std::size_t kMost = 64;
    std::array<Interval, kMost> ranges;
    std::size_t count = 0;
    std::int64_t bytes = 0;
  };
  std::mutex mutex_;    // guards what follows
  Written now_;         // since the last were sent to the disk
  Written on_the_way_;  // to the disk
};

}  // namespace outsize
