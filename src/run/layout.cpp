#include "run/layout.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace outsize {
namespace {

// Stored elements that pass through one buffer at a time; it should stay in the second-level cache.
constexpr std::int64_t kBuffer = 1 << 14;

// Callers' memory may lie at any address, so its words are moved by memcpy, which compiles to plain moves.

// The channels that lie side by side in the stored form: a block, or all.
std::int64_t block_of(const StorageRule& rule, const ValueType& type) {
  return stored_channels_last(rule, type.format, type.shape.rank()) ? type.shape[1] : rule.channel_block;
}

// A range of positions of one block of channels of one sample.
struct Part {
  std::int64_t dense = 0;     // the element of the block's first channel at the first position
  std::int64_t stored = 0;    // the same in the stored form
  std::int64_t channels = 0;  // of the block that exist
  std::int64_t positions = 0;
  std::int64_t plane = 0;  // dense elements from one channel to the next
};

template <class Body>
void for_each_part(const StorageRule& rule, const ValueType& type, Body&& body) {
  const std::int64_t block = block_of(rule, type);
  const std::int64_t samples = type.shape[0], channels = type.shape[1];
  const std::int64_t plane = type.elements() / (samples * channels);
  const std::int64_t most = std::max<std::int64_t>(1, kBuffer / block);
  std::int64_t stored = 0;
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t c = 0; c < channels; c += block)
      for (std::int64_t p = 0; p < plane; p += most) {
        const std::int64_t positions = std::min(most, plane - p);
        body(Part{(n * channels + c) * plane + p, stored, std::min(block, channels - c), positions, plane});
        stored += positions * block;
      }
}

// Writes the stored form of a part to `to`.
template <class Word>
void store_part(const Part& part, std::int64_t block, const std::byte* dense, std::byte* to) {
  constexpr std::int64_t kWord = sizeof(Word);
  std::memset(to, 0, static_cast<std::size_t>(part.positions * block * kWord));
  for (std::int64_t c = 0; c < part.channels; ++c) {
    const std::byte* const from = dense + (part.dense + c * part.plane) * kWord;
    for (std::int64_t p = 0; p < part.positions; ++p) std::memcpy(to + (p * block + c) * kWord, from + p * kWord, kWord);
  }
}

template <class Word>
void store_words(const StorageRule& rule, const ValueType& type, const std::byte* dense,
                 const std::function<void(std::int64_t, std::span<const std::byte>)>& sink) {
  constexpr std::int64_t kWord = sizeof(Word);
  const std::int64_t block = block_of(rule, type);
  std::vector<Word> buffer(std::max(kBuffer, block));
  for_each_part(rule, type, [&](const Part& part) {
    store_part<Word>(part, block, dense, std::as_writable_bytes(std::span(buffer)).data());
    const auto words = std::span(buffer).first(part.positions * block);
    sink(part.stored * kWord, std::as_bytes(words));
  });
}

template <class Word>
void load_words(const StorageRule& rule, const ValueType& type, std::byte* dense,
                const std::function<void(std::int64_t, std::span<std::byte>)>& source) {
  constexpr std::int64_t kWord = sizeof(Word);
  const std::int64_t block = block_of(rule, type);
  std::vector<Word> buffer(std::max(kBuffer, block));
  for_each_part(rule, type, [&](const Part& part) {
    const auto words = std::span(buffer).first(part.positions * block);
    source(part.stored * kWord, std::as_writable_bytes(words));
    for (std::int64_t c = 0; c < part.channels; ++c) {
      std::byte* const to = dense + (part.dense + c * part.plane) * kWord;
      for (std::int64_t p = 0; p < part.positions; ++p) std::memcpy(to + p * kWord, &buffer[p * block + c], kWord);
    }
  });
}

}  // namespace

bool stored_dense(const StorageRule& rule, const ValueType& type) {
  const bool last = stored_channels_last(rule, type.format, type.shape.rank());
  return last ? block_of(rule, type) == 1 : type.format != Format::map || rule.channel_block == 1;
}

void store_dense(const StorageRule& rule, const ValueType& type, const std::byte* dense, std::byte* stored) {
  if (stored_dense(rule, type)) {
    std::memcpy(stored, dense, static_cast<std::size_t>(type.elements() * size_of(type.dtype)));
    return;
  }
  const std::int64_t block = block_of(rule, type);
  for_each_part(rule, type, [&](const Part& part) {
    std::byte* const to = stored + part.stored * size_of(type.dtype);
    switch (size_of(type.dtype)) {
      case 1: return store_part<std::uint8_t>(part, block, dense, to);
      case 4: return store_part<std::uint32_t>(part, block, dense, to);
      default: return store_part<std::uint64_t>(part, block, dense, to);
    }
  });
}

void store_dense(const StorageRule& rule, const ValueType& type, std::span<const std::byte> dense,
                 const std::function<void(std::int64_t, std::span<const std::byte>)>& sink) {
  if (stored_dense(rule, type)) return sink(0, dense);
  switch (size_of(type.dtype)) {
    case 1: return store_words<std::uint8_t>(rule, type, dense.data(), sink);
    case 4: return store_words<std::uint32_t>(rule, type, dense.data(), sink);
    default: return store_words<std::uint64_t>(rule, type, dense.data(), sink);
  }
}

void load_dense(const StorageRule& rule, const ValueType& type, std::span<std::byte> dense,
                const std::function<void(std::int64_t, std::span<std::byte>)>& source) {
  if (stored_dense(rule, type)) return source(0, dense);
  switch (size_of(type.dtype)) {
    case 1: return load_words<std::uint8_t>(rule, type, dense.data(), source);
    case 4: return load_words<std::uint32_t>(rule, type, dense.data(), source);
    default: return load_words<std::uint64_t>(rule, type, dense.data(), source);
  }
}

}  // namespace outsize
