#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace outsize {

// Checksums of a piece in a lower tier, one for every grain of it. Bytes come in any order of grains, but in order within one, and
// may come in several parts.
class Checksums {
 public:
  // `grain` divides `bytes`.
  Checksums(std::int64_t bytes, std::int64_t grain);

  std::int64_t grain() const { return grain_; }
  // Takes `data` as what is now at `offset` of the piece.
  void note(std::int64_t offset, std::span<const std::byte> data);
  // The first byte of the first grain that ends in `data`, found at `offset`, and is not what was noted; -1 where there is none.
  // `running` keeps what a grain's earlier parts came to.
  std::int64_t find_changed(std::int64_t offset, std::span<const std::byte> data, std::uint32_t& running) const;

 private:
  std::int64_t grain_;
  std::vector<std::uint32_t> sums_;  // CRC-32
};

}  // namespace outsize
