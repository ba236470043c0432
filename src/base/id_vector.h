#pragma once

#include <compare>
#include <cstdint>
#include <utility>
#include <vector>

namespace outsize {

// One T for every id of a table: a vector whose subscripts are ids (ValueId, OpId, PieceId), so that one table's index is not taken
// for another's.
template <class Id, class T>
class IdVector {
 public:
  using reference = typename std::vector<T>::reference;
  using const_reference = typename std::vector<T>::const_reference;

  IdVector() = default;
  // For the ids 0 to count − 1.
  explicit IdVector(std::int64_t count) : items_(static_cast<std::size_t>(count)) {}
  IdVector(std::int64_t count, const T& item) : items_(static_cast<std::size_t>(count), item) {}

  // The id must be valid and in the table.
  reference operator[](Id id) { return items_[static_cast<std::size_t>(id.index)]; }
  const_reference operator[](Id id) const { return items_[static_cast<std::size_t>(id.index)]; }

  std::int64_t size() const { return static_cast<std::int64_t>(items_.size()); }
  bool empty() const { return items_.empty(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

  void push_back(T item) { items_.push_back(std::move(item)); }
  // Afterwards the table has exactly the ids 0 to count − 1, each with `item`.
  void assign(std::int64_t count, const T& item) { items_.assign(static_cast<std::size_t>(count), item); }
  // Items of ids that the table did not have before are `item`.
  void resize(std::int64_t count, const T& item = T()) { items_.resize(static_cast<std::size_t>(count), item); }
  void reserve(std::int64_t count) { items_.reserve(static_cast<std::size_t>(count)); }

  auto operator<=>(const IdVector&) const = default;

 private:
  std::vector<T> items_;
};

}  // namespace outsize
