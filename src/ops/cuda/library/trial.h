#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace outsize {

// Memory of the card in use and a stream, to time work in; given back when it ends. It is made when kernels are, before there is
// an arena or beside it, and never in a step.
class Trial {
 public:
  // Memory of so many bytes, aligned to 256 of them, full of numbers near 0.01, so that sums of products stay finite. Null where
  // there is no card or not enough memory.
  static std::unique_ptr<Trial> make(std::int64_t bytes);
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  ~Trial();

  std::byte* memory() const { return memory_; }
  void* queue() const { return stream_; }

  // The least seconds of a few runs of work(), which puts it into queue() and says whether it could; nothing where it could not, or
  // fails. `first` looks at what the first run left, and may refuse it. Once is enough of what takes long, or far longer than
  // `best`.
  std::optional<double> seconds(const std::function<bool()>& work, double best, const std::function<bool()>& first = nullptr);

 private:
  Trial() = default;

  std::byte* memory_ = nullptr;
  std::byte* busy_ = nullptr;  // where there is room: the card writes it while the work is put into the stream
  void* stream_ = nullptr;
  void* begin_ = nullptr;
  void* finish_ = nullptr;
};

}  // namespace outsize
