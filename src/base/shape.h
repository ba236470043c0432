#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/error.h"

namespace outsize {

// Up to six 64-bit extents or coordinates, held inline so that boxes never allocate.
class Dims {
 public:
  static constexpr int kMaxRank = 6;

  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<std::int64_t> values) {
    for (std::int64_t value : values) push_back(value);
  }
  explicit Dims(std::span<const std::int64_t> values) {
    for (std::int64_t value : values) push_back(value);
  }
  // `rank` copies of `value`.
  static Dims filled(int rank, std::int64_t value) {
    Dims dims;
    for (int i = 0; i < rank; ++i) dims.push_back(value);
    return dims;
  }

  constexpr int rank() const { return rank_; }
  constexpr std::int64_t& operator[](int i) { return values_[static_cast<std::size_t>(i)]; }
  constexpr std::int64_t operator[](int i) const { return values_[static_cast<std::size_t>(i)]; }
  constexpr const std::int64_t* begin() const { return values_.data(); }
  constexpr const std::int64_t* end() const { return values_.data() + rank_; }
  constexpr void push_back(std::int64_t value) {
    OUTSIZE_CHECK(rank_ < kMaxRank);
    values_[static_cast<std::size_t>(rank_++)] = value;
  }
  // The product of all extents; 1 for rank 0.
  constexpr std::int64_t product() const {
    std::int64_t total = 1;
    for (std::int64_t value : *this) total *= value;
    return total;
  }
  constexpr bool operator==(const Dims& other) const {
    if (rank_ != other.rank_) return false;
    for (int i = 0; i < rank_; ++i)
      if ((*this)[i] != other[i]) return false;
    return true;
  }

 private:
  std::array<std::int64_t, kMaxRank> values_{};
  int rank_ = 0;
};

// "[2, 3, 32, 32]"
std::string to_string(const Dims& dims);

}  // namespace outsize
