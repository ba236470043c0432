#include <algorithm>

#include "ops/cuda/memory.h"
#include "ops/cuda/support.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

struct ScanProgram {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 4;
  static constexpr int kV = 16;  // bytes a load

  const std::uint8_t* memory;
  std::int64_t bytes, part;  // a part is a multiple of kV
  std::int64_t head;         // bytes before the first that is aligned
  std::uint8_t byte;
  bool last;
  std::int64_t* results;

  // Whether place a is nearer to the wanted end than b; -1 is none.
  OUTSIZE_BOTH std::int64_t better(std::int64_t a, std::int64_t b) const {
    if (a < 0 || b < 0) return a < 0 ? b : a;
    return (a > b) == last ? a : b;
  }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    std::int64_t* const shared = reinterpret_cast<std::int64_t*>(block.shared());
    // Parts are cut where memory is aligned; the first has the unaligned head besides.
    const std::int64_t begin = block.x() == 0 ? 0 : head + block.x() * part;
    const std::int64_t end = head + (block.x() + 1) * part < bytes ? head + (block.x() + 1) * part : bytes;
    block.each([&](int thread) {
      std::int64_t found = -1;
      const auto look = [&](std::int64_t at) {
        if (memory[at] != byte) found = better(found, at);
      };
      const std::int64_t vectors_begin = head + block.x() * part;
      if (block.x() == 0)
        for (std::int64_t at = begin + thread; at < head && at < end; at += kThreads) look(at);
      const std::int64_t vectors = end > vectors_begin ? (end - vectors_begin) / kV : 0;
      for (std::int64_t v = thread; v < vectors; v += kThreads) {
        const Vector<std::uint8_t, kV> is = load<kV>(memory + vectors_begin + v * kV);
        bool same = true;
        OUTSIZE_UNROLL
        for (int j = 0; j < kV; ++j) same = same && is.of[j] == byte;
        if (same) continue;
        for (int j = 0; j < kV; ++j) look(vectors_begin + v * kV + j);
      }
      for (std::int64_t at = vectors_begin + vectors * kV + thread; at < end; at += kThreads) look(at);
      shared[thread] = found;
    });
    for (int half = kThreads / 2; half > 0; half /= 2)
      block.each([&](int thread) {
        if (thread < half) shared[thread] = better(shared[thread], shared[thread + half]);
      });
    block.last([&](int thread) {
      if (thread == 0) results[block.x()] = shared[0];
    });
  }
};

}  // namespace

int scan_other(const std::byte* memory, std::int64_t bytes, std::byte byte, bool last, std::int64_t* results, void* queue) {
  if (bytes == 0) return 0;
  constexpr std::int64_t kV = ScanProgram::kV, kLeastPart = 16 << 10;
  const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory) % kV);
  const std::int64_t head = std::min(bytes, (kV - misaligned) % kV), rest = bytes - head;
  const std::int64_t part = std::max(kLeastPart, ceil_divide(ceil_divide(rest, kScanResults), kV) * kV);
  const std::int64_t parts = std::max<std::int64_t>(1, ceil_divide(rest, part));
  launch(ScanProgram{reinterpret_cast<const std::uint8_t*>(memory), bytes, part, head, std::to_integer<std::uint8_t>(byte), last,
                     results},
         {parts, 1, static_cast<std::int64_t>(ScanProgram::kThreads * sizeof(std::int64_t))}, queue);
  return static_cast<int>(parts);
}

}  // namespace outsize::OUTSIZE_PLACE
