#pragma once

#include <bit>

#include "ops/cuda/support.h"

// A stable sort of numbers below a limit: by digits from the lowest on, each digit in three launches. Every worker, a thread,
// counts the digits of its run of elements; what lies before each worker's elements of each digit is summed up; then the workers
// bring their elements there. So the order is fixed, and nobody waits for anybody within a launch.
namespace outsize::OUTSIZE_PLACE {

// Elements that are sorted: numbers, and where each was at first.
struct SortElements {
  std::uint32_t* keys = nullptr;
  std::uint32_t* places = nullptr;
};

// How the elements are shared among workers.
struct SortShares {
  static constexpr int kBits = 6;
  static constexpr int kDigits = 1 << kBits;

  std::uint32_t count = 0;  // elements
  std::uint32_t each = 1;   // elements a worker
  std::uint32_t workers = 1;

  explicit SortShares(std::int64_t elements) : count(static_cast<std::uint32_t>(elements)) {
    constexpr std::int64_t kFew = 32, kMostWorkers = 8192;
    each = static_cast<std::uint32_t>(std::max(kFew, ceil_divide(elements, kMostWorkers)));
    workers = static_cast<std::uint32_t>(std::max<std::int64_t>(1, ceil_divide(elements, each)));
  }
  OUTSIZE_BOTH std::uint32_t begin(std::uint32_t worker) const { return worker * each; }
  OUTSIZE_BOTH std::uint32_t end(std::uint32_t worker) const {
    const std::uint32_t after = (worker + 1) * each;
    return after < count ? after : count;
  }
};

// before[digit][worker] = how many elements of that digit the worker has.
template <class Key>
struct SortCountProgram {
  static constexpr int kThreads = 128;
  static constexpr int kBlocks = 4;

  Key key;  // std::uint32_t operator()(std::uint32_t i) const
  SortShares shares;
  int shift;
  std::uint32_t* before;

  Grid grid() const {
    return {ceil_divide(shares.workers, kThreads), 1, std::int64_t{SortShares::kDigits} * kThreads * size_of(DType::i32)};
  }
  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    auto* const counts = reinterpret_cast<std::uint32_t*>(block.shared());
    block.last([&](int thread) {
      const std::uint32_t worker = static_cast<std::uint32_t>(block.x()) * kThreads + thread;
      if (worker >= shares.workers) return;
      for (int digit = 0; digit < SortShares::kDigits; ++digit) counts[digit * kThreads + thread] = 0;
      for (std::uint32_t i = shares.begin(worker); i < shares.end(worker); ++i)
        ++counts[((key(i) >> shift) & (SortShares::kDigits - 1)) * kThreads + thread];
      for (int digit = 0; digit < SortShares::kDigits; ++digit)
        before[std::int64_t{digit} * shares.workers + worker] = counts[digit * kThreads + thread];
    });
  }
};

// before[digit][worker] becomes the sum of what the workers before have; totals[digit] the sum of all. A block a digit.
struct SortSumProgram {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 2;

  SortShares shares;
  std::uint32_t* before;
  std::uint32_t* totals;

  Grid grid() const { return {SortShares::kDigits, 1, 2 * kThreads * size_of(DType::i32)}; }
  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    std::uint32_t* sums = reinterpret_cast<std::uint32_t*>(block.shared());
    std::uint32_t* next = sums + kThreads;
    std::uint32_t* const own = before + block.x() * shares.workers;
    const std::uint32_t each = (shares.workers + kThreads - 1) / kThreads;
    const auto end = [&](int thread) {
      const std::uint32_t after = (static_cast<std::uint32_t>(thread) + 1) * each;
      return after < shares.workers ? after : shares.workers;
    };
    block.each([&](int thread) {
      std::uint32_t sum = 0;
      for (std::uint32_t i = static_cast<std::uint32_t>(thread) * each; i < end(thread); ++i) sum += own[i];
      sums[thread] = sum;
    });
    for (int step = 1; step < kThreads; step *= 2) {
      block.each([&](int thread) { next[thread] = sums[thread] + (thread >= step ? sums[thread - step] : 0); });
      std::uint32_t* const done = next;
      next = sums;
      sums = done;
    }
    block.last([&](int thread) {
      std::uint32_t sum = thread > 0 ? sums[thread - 1] : 0;
      for (std::uint32_t i = static_cast<std::uint32_t>(thread) * each; i < end(thread); ++i) {
        const std::uint32_t count = own[i];
        own[i] = sum;
        sum += count;
      }
      if (thread == kThreads - 1) totals[block.x()] = sums[thread];
    });
  }
};

// Brings the elements to where they belong by this digit.
template <class Key, class Place>
struct SortMoveProgram {
  static constexpr int kThreads = 128;
  static constexpr int kBlocks = 4;

  Key key;
  Place place;  // of element i at first: std::uint32_t operator()(std::uint32_t i) const
  SortShares shares;
  int shift;
  const std::uint32_t* before;
  const std::uint32_t* totals;
  SortElements to;

  Grid grid() const {
    return {ceil_divide(shares.workers, kThreads), 1, std::int64_t{SortShares::kDigits} * (kThreads + 1) * size_of(DType::i32)};
  }
  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    auto* const first = reinterpret_cast<std::uint32_t*>(block.shared());  // of each digit
    std::uint32_t* const next = first + SortShares::kDigits;               // of each digit and worker
    block.each([&](int thread) {
      if (thread >= SortShares::kDigits) return;
      std::uint32_t sum = 0;
      for (int digit = 0; digit < thread; ++digit) sum += totals[digit];
      first[thread] = sum;
    });
    block.last([&](int thread) {
      const std::uint32_t worker = static_cast<std::uint32_t>(block.x()) * kThreads + thread;
      if (worker >= shares.workers) return;
      for (int digit = 0; digit < SortShares::kDigits; ++digit)
        next[digit * kThreads + thread] = first[digit] + before[std::int64_t{digit} * shares.workers + worker];
      for (std::uint32_t i = shares.begin(worker); i < shares.end(worker); ++i) {
        const std::uint32_t own = key(i);
        const std::uint32_t at = next[((own >> shift) & (SortShares::kDigits - 1)) * kThreads + thread]++;
        to.keys[at] = own;
        to.places[at] = place(i);
      }
    });
  }
};

// Numbers as they lie: each its own index, or those of an array.
struct IndexItself {
  OUTSIZE_BOTH std::uint32_t operator()(std::uint32_t i) const { return i; }
};
struct ArrayElement {
  const std::uint32_t* of;
  OUTSIZE_BOTH std::uint32_t operator()(std::uint32_t i) const { return of[i]; }
};

// A sort of `count` numbers of at most `largest`.
class Sort {
 public:
  Sort(std::int64_t count, std::int64_t largest)
      : shares_(count),
        digits_(
            std::max(1, static_cast<int>(ceil_divide(std::bit_width(static_cast<std::uint64_t>(largest)), SortShares::kBits)))) {
    OUTSIZE_CHECK(count < kMostPositions && largest <= 0xFFFFFFFF);
  }

  std::int64_t workspace_bytes() const {
    return 4 * array_bytes() + part_bytes(std::int64_t{SortShares::kDigits} * (shares_.workers + 1) * size_of(DType::i32));
  }

  // Puts the sort of key(0), key(1), … into the stream; what comes out lies in the workspace. Equal numbers stay in their order.
  template <class Key>
  SortElements run(const Key& key, std::byte* workspace, void* queue) const {
    const auto part = [&](std::int64_t which) { return reinterpret_cast<std::uint32_t*>(workspace + which * array_bytes()); };
    std::uint32_t* const before = part(4);
    std::uint32_t* const totals = before + std::int64_t{SortShares::kDigits} * shares_.workers;
    const SortElements elements[2] = {{part(0), part(1)}, {part(2), part(3)}};
    const auto by_digit = [&](int digit, const auto& from, const auto& place) {
      const int shift = digit * SortShares::kBits;
      const SortCountProgram<std::decay_t<decltype(from)>> count{from, shares_, shift, before};
      launch(count, count.grid(), queue);
      const SortSumProgram sum{shares_, before, totals};
      launch(sum, sum.grid(), queue);
      const SortMoveProgram<std::decay_t<decltype(from)>, std::decay_t<decltype(place)>> move{
          from, place, shares_, shift, before, totals, elements[digit % 2]};
      launch(move, move.grid(), queue);
    };
    by_digit(0, key, IndexItself{});
    for (int digit = 1; digit < digits_; ++digit) {
      const SortElements& from = elements[(digit - 1) % 2];
      by_digit(digit, ArrayElement{from.keys}, ArrayElement{from.places});
    }
    return elements[(digits_ - 1) % 2];
  }

 private:
  std::int64_t array_bytes() const { return part_bytes(std::int64_t{shares_.count} * size_of(DType::i32)); }

  SortShares shares_;
  int digits_;
};

}  // namespace outsize::OUTSIZE_PLACE
