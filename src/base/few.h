#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

namespace outsize {

// A list of plain values that is short as a rule: the first N of them are held inline, so that such a list neither allocates nor
// sends a reader to another place in memory. Longer ones move to the heap.
template <class T, int N>
class Few {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;
  using const_iterator = const T*;

  Few() {}
  Few(std::initializer_list<T> items) { assign(items); }
  explicit Few(std::span<const T> items) { assign(items); }
  Few(const Few& other) { assign(other); }
  Few(Few&& other) noexcept { take(other); }
  Few& operator=(const Few& other) {
    if (this != &other) assign(other);
    return *this;
  }
  Few& operator=(Few&& other) noexcept {
    if (this == &other) return *this;
    free();
    take(other);
    return *this;
  }
  ~Few() { free(); }

  std::size_t size() const { return static_cast<std::size_t>(size_); }
  bool empty() const { return size_ == 0; }
  T* begin() { return inside() ? reinterpret_cast<T*>(here_) : there_; }
  T* end() { return begin() + size_; }
  const T* begin() const { return inside() ? reinterpret_cast<const T*>(here_) : there_; }
  const T* end() const { return begin() + size_; }
  T& operator[](std::size_t i) { return begin()[i]; }
  const T& operator[](std::size_t i) const { return begin()[i]; }
  T& back() { return end()[-1]; }
  const T& back() const { return end()[-1]; }

  // Room for `count` items in all.
  void reserve(std::size_t count) {
    const auto wanted = static_cast<std::int32_t>(count);
    if (wanted <= capacity_) return;
    T* const bigger = new T[count];
    std::copy(begin(), end(), bigger);
    free();
    there_ = bigger;
    capacity_ = wanted;
  }
  void push_back(const T& item) {
    const T copy = item;  // it may be one of ours, which moves
    if (size_ == capacity_) reserve(2 * size());
    begin()[size_++] = copy;
  }

 private:
  bool inside() const { return capacity_ == N; }
  void assign(std::span<const T> items) {
    reserve(items.size());
    std::copy(items.begin(), items.end(), begin());
    size_ = static_cast<std::int32_t>(items.size());
  }
  void free() {
    if (!inside()) delete[] there_;
    capacity_ = N;
  }
  // What `other` has; this one has nothing on the heap, and the other one has nothing left.
  void take(Few& other) {
    capacity_ = other.capacity_;
    if (inside())
      std::copy(other.here_, other.here_ + sizeof here_, here_);
    else
      there_ = other.there_;
    size_ = other.size_;
    other.size_ = 0;
    other.capacity_ = N;
  }

  union {
    alignas(T) std::byte here_[static_cast<std::size_t>(N) * sizeof(T)];  // plain values live where their bytes are put
    T* there_;
  };
  std::int32_t size_ = 0;
  std::int32_t capacity_ = N;
};

}  // namespace outsize
