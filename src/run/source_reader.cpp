#include "run/source_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/threads.h"
#include "run/layout.h"

namespace outsize {

namespace {

// What is read at once: dense elements that stay in the second-level cache; but sources begin with some work a time.
constexpr std::int64_t kBytesAtOnce = 1 << 19, kLeastRows = 16;
constexpr int kChannels = 1, kRows = 2;  // N C rows …

bool is_last(const StorageRule& rule, const ValueType& type) { return stored_channels_last(rule, type.format, type.shape.rank()); }

// Whether each channel of a map lies by itself.
bool is_planar(const StorageRule& rule, const ValueType& type) { return type.format == Format::planar && !is_last(rule, type); }

// Channels that lie together, and are read together: a block, or all of a planar map or one with its channels last.
std::int64_t channels_together(const StorageRule& rule, const ValueType& type) {
  return is_planar(rule, type) || is_last(rule, type) ? type.shape[kChannels] : rule.channel_block;
}

// Whether a window is read into its place as it is.
bool is_whole(const StorageRule& rule, const ValueType& type) { return !is_planar(rule, type) && stored_dense(rule, type); }

// The rows of each channel to their place in the window.
void store_planes(const ValueType& type, const Box& window, const Box& part, const std::byte* dense, std::byte* stored) {
  const std::int64_t plane = part.elements() / part.extent(kChannels) * size_of(type.dtype);
  for (Dims first = part.lo; first[kChannels] < part.hi[kChannels]; ++first[kChannels], dense += plane)
    std::memcpy(stored + stored_offset({}, type.format, window, first) * size_of(type.dtype), dense,
                static_cast<std::size_t>(plane));
}

}  // namespace

SourceReader::SourceReader(const StorageRule& storage, int threads)
    : storage_(storage), buffers_(static_cast<std::size_t>(std::max(1, threads))) {
  try {
    for (std::int64_t thread = 1; thread < this->threads(); ++thread)
      threads_.push_back(start_thread("reading data", [this, thread] { serve(thread); }));
  } catch (...) {  // those that were started must not outlive what they use
    end();
    throw;
  }
}

SourceReader::~SourceReader() { end(); }

void SourceReader::end() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// Rows, with all that lies in them, of one block of channels of one sample.
std::int64_t SourceReader::rows_at_once(const ValueType& type, const Dims& window) const {
  std::int64_t row = std::min(window[kChannels], channels_together(storage_, type)) * size_of(type.dtype);
  for (int dim = kRows + 1; dim < window.rank(); ++dim) row *= window[dim];
  return std::min(window[kRows], std::max(kLeastRows, kBytesAtOnce / std::max<std::int64_t>(row, 1)));
}

void SourceReader::make_room(const ValueType& type, const Dims& window) {
  if (is_whole(storage_, type)) return;
  Dims part = window;
  part[0] = 1;
  part[kChannels] = std::min(part[kChannels], channels_together(storage_, type));
  part[kRows] = rows_at_once(type, window);
  const auto bytes = static_cast<std::size_t>(part.product() * size_of(type.dtype));
  for (std::vector<std::byte>& buffer : buffers_) buffer.resize(std::max(buffer.size(), bytes));
}

void SourceReader::read(const WindowReader& source, const ValueType& type, const Box& window, std::byte* stored) {
  if (window.empty()) return;
  if (is_whole(storage_, type)) return source(window, stored);
  task_ = {&source, &type, &window, stored};
  if (!(source.for_several() || splits_samples()) || threads_.empty()) {
    read_share(0, 1);
  } else {
    {
      const std::lock_guard lock(mutex_);
      ++windows_;
      reading_ = static_cast<std::int64_t>(threads_.size());
    }
    changed_.notify_all();
    read_share(0, threads());
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reading_ == 0; });
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

// Whether threads take samples and not rows: each then has some.
bool SourceReader::splits_samples() const { return task_.source->samples_apart() && task_.window->extent(0) >= threads(); }

// Neighbouring rows stay with one thread: what decodes an image decodes some of them together.
void SourceReader::read_share(std::int64_t thread, std::int64_t of) noexcept {
  try {
    const auto share = [&](Interval all) {
      return Interval{all.lo + all.size() * thread / of, all.lo + all.size() * (thread + 1) / of};
    };
    const Interval samples = (*task_.window)[0], rows = (*task_.window)[kRows];
    std::vector<std::byte>& buffer = buffers_[thread];
    if (splits_samples())
      read_rows(buffer, share(samples), rows);
    else
      read_rows(buffer, samples, share(rows));
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

void SourceReader::read_rows(std::vector<std::byte>& buffer, Interval samples, Interval rows) const {
  const ValueType& type = *task_.type;
  const Box& window = *task_.window;
  const std::int64_t at_once = rows_at_once(type, window.shape()), together = channels_together(storage_, type);
  Box part = window;
  for (std::int64_t sample = samples.lo; sample < samples.hi; ++sample)
    for (std::int64_t channel = window.lo[kChannels]; channel < window.hi[kChannels]; channel += together)
      for (std::int64_t row = rows.lo; row < rows.hi; row += at_once) {
        part.set(0, {sample, sample + 1});
        part.set(kChannels, {channel, std::min(window.hi[kChannels], channel + together)});
        part.set(kRows, {row, std::min(rows.hi, row + at_once)});
        (*task_.source)(part, buffer.data());
        if (is_planar(storage_, type)) {
          store_planes(type, window, part, buffer.data(), task_.stored);
          continue;
        }
        store_dense(storage_, {type.dtype, part.shape(), type.format}, buffer.data(),
                    task_.stored + stored_offset(storage_, type.format, window, part.lo) * size_of(type.dtype));
      }
}

void SourceReader::serve(std::int64_t thread) {
  std::unique_lock lock(mutex_);
  for (std::int64_t seen = 0;;) {
    changed_.wait(lock, [&] { return stopping_ || windows_ != seen; });
    if (stopping_) return;
    seen = windows_;
    lock.unlock();
    read_share(thread, threads());
    lock.lock();
    if (--reading_ == 0) changed_.notify_all();
  }
}

}  // namespace outsize
