#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "data/window.h"
#include "graph/storage.h"

namespace outsize {

// Brings windows of an input from their source into the form they are stored in: by several threads where the source is for
// several, each of them some samples or some rows, and part by part, so that what is read is stored while it is in the processor's
// cache.
class SourceReader {
 public:
  // `threads`: the most that read at a time, the caller's included; the others sleep between windows.
  SourceReader(const StorageRule& storage, int threads);
  ~SourceReader();
  SourceReader(const SourceReader&) = delete;
  SourceReader& operator=(const SourceReader&) = delete;

  // Makes room for windows of this shape, before the first is read.
  void make_room(const ValueType& type, const Dims& window);
  // Writes `window` of a value as a piece that holds it alone has it. Throws what the source throws. Allocates nothing itself.
  void read(const WindowReader& source, const ValueType& type, const Box& window, std::byte* stored);

 private:
  // What all threads read now.
  struct Task {
    const WindowReader* source = nullptr;
    const ValueType* type = nullptr;
    const Box* window = nullptr;
    std::byte* stored = nullptr;
  };

  std::int64_t rows_at_once(const ValueType& type, const Dims& window) const;
  std::int64_t threads() const { return static_cast<std::int64_t>(buffers_.size()); }
  // The share of one of `of` threads.
  void read_share(std::int64_t thread, std::int64_t of) noexcept;
  bool splits_samples() const;
  void read_rows(std::vector<std::byte>& buffer, Interval samples, Interval rows) const;
  void serve(std::int64_t thread);
  // Ends all threads.
  void end();

  const StorageRule storage_;
  std::vector<std::vector<std::byte>> buffers_;  // by thread; the caller's is the first
  Task task_;

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::exception_ptr error_;
  std::int64_t windows_ = 0;  // that were given to the threads so far
  std::int64_t reading_ = 0;  // threads that have not ended the last one
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace outsize
