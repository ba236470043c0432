#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace outsize {

// A list that grows at its end. What is in it stays where it is, so that references to it last, and lies beside its neighbours, so
// that walking along the list is fast.
template <class T>
class StableList {
 public:
  class const_iterator {
   public:
    using value_type = T;
    using difference_type = std::ptrdiff_t;

    const_iterator() = default;
    const_iterator(const StableList& list, std::size_t at) : list_(&list), at_(at) {}
    const T& operator*() const { return (*list_)[at_]; }
    const_iterator& operator++() {
      ++at_;
      return *this;
    }
    const_iterator operator++(int) {
      const const_iterator before = *this;
      ++at_;
      return before;
    }
    bool operator==(const const_iterator& other) const { return at_ == other.at_; }

   private:
    const StableList* list_ = nullptr;
    std::size_t at_ = 0;
  };

  StableList() = default;
  StableList(const StableList& other) {
    for (const T& item : other) emplace_back(item);
  }
  StableList(StableList&&) noexcept = default;
  StableList& operator=(StableList other) noexcept {
    chunks_.swap(other.chunks_);
    return *this;
  }
  ~StableList() = default;

  std::size_t size() const { return chunks_.empty() ? 0 : (chunks_.size() - 1) * kChunk + chunks_.back().size(); }
  const T& operator[](std::size_t i) const { return chunks_[i / kChunk][i % kChunk]; }
  T& operator[](std::size_t i) { return chunks_[i / kChunk][i % kChunk]; }
  const_iterator begin() const { return {*this, 0}; }
  const_iterator end() const { return {*this, size()}; }

  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (chunks_.empty() || chunks_.back().size() == kChunk) chunks_.emplace_back().reserve(kChunk);
    return chunks_.back().emplace_back(std::forward<Args>(args)...);
  }

 private:
  static constexpr std::size_t kChunk = 16;
  std::vector<std::vector<T>> chunks_;  // all but the last are full; none ever grows beyond what it was made for
};

}  // namespace outsize
