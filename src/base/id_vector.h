#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace outsize {

// Where a subscript stands in a table: a plain number, or an id's.
template <class Index>
constexpr std::size_t position_of(Index index) {
  if constexpr (std::integral<Index>)
    return static_cast<std::size_t>(index);
  else
    return static_cast<std::size_t>(index.index);
}

// One T for every id of a table: a vector whose subscripts are ids (ValueId, OpId, PieceId), so that one table's index is not taken
// for another's. Its size is a signed number, as ids are made of.
template <class Id, class T>
class IdVector {
 public:
  using value_type = T;
  using reference = typename std::vector<T>::reference;
  using const_reference = typename std::vector<T>::const_reference;
  using iterator = typename std::vector<T>::iterator;
  using const_iterator = typename std::vector<T>::const_iterator;

  IdVector() = default;
  // For the ids 0 to count − 1.
  explicit IdVector(std::int64_t count) : items_(position_of(count)) {}
  IdVector(std::int64_t count, const T& item) : items_(position_of(count), item) {}
  template <std::input_iterator Iterator>
  IdVector(Iterator first, Iterator last) : items_(first, last) {}
  // Tables by number are made of lists and vectors as they are.
  IdVector(std::initializer_list<T> items) requires std::integral<Id> : items_(items) {}
  IdVector(std::vector<T> items) requires std::integral<Id> : items_(std::move(items)) {}

  // The id must be valid and in the table.
  reference operator[](Id id) { return items_[position_of(id)]; }
  const_reference operator[](Id id) const { return items_[position_of(id)]; }
  reference front() { return items_.front(); }
  const_reference front() const { return items_.front(); }
  reference back() { return items_.back(); }
  const_reference back() const { return items_.back(); }

  std::int64_t size() const { return std::ssize(items_); }
  bool empty() const { return items_.empty(); }
  iterator begin() { return items_.begin(); }
  iterator end() { return items_.end(); }
  const_iterator begin() const { return items_.begin(); }
  const_iterator end() const { return items_.end(); }

  void push_back(T item) { items_.push_back(std::move(item)); }
  template <class... Arguments>
  reference emplace_back(Arguments&&... arguments) {
    return items_.emplace_back(std::forward<Arguments>(arguments)...);
  }
  void pop_back() { items_.pop_back(); }
  template <std::input_iterator Iterator>
  void insert(const_iterator before, Iterator first, Iterator last) {
    items_.insert(before, first, last);
  }
  void clear() { items_.clear(); }
  void swap(IdVector& other) noexcept { items_.swap(other.items_); }
  // Afterwards the table has exactly the ids 0 to count − 1, each with `item`.
  void assign(std::int64_t count, const T& item) { items_.assign(position_of(count), item); }
  // Items of ids that the table did not have before are `item`.
  void resize(std::int64_t count, const T& item = T()) { items_.resize(position_of(count), item); }
  void reserve(std::int64_t count) { items_.reserve(position_of(count)); }

  auto operator<=>(const IdVector&) const = default;

 private:
  std::vector<T> items_;
};

}  // namespace outsize
