#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#include "base/error.h"
#include "ops/both.h"

// Block programs. The files cuda.cu of the op folders are compiled twice: by nvcc, where a block program runs as a kernel on the
// card, and by the host compiler, where it runs as loops (the backend cuda-host). All that they define lies in a namespace of its
// own for each: `card` or `emulated`.
#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define OUTSIZE_PLACE card
#define OUTSIZE_UNROLL _Pragma("unroll")
#else
#define OUTSIZE_PLACE emulated
#define OUTSIZE_UNROLL
#endif

namespace outsize::OUTSIZE_PLACE {

// V elements that are loaded and stored as one.
template <class T, int V>
struct alignas(sizeof(T) * V) Vector {
  T of[V];
};

// Ends the program with a message where a card would end it with an error.
inline OUTSIZE_BOTH void expect_aligned([[maybe_unused]] const void* pointer, [[maybe_unused]] std::size_t bytes) {
#if !defined(__CUDA_ARCH__)
  if (reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0) return;
  std::fprintf(stderr, "a block program loads or stores %zu bytes at an address that is no multiple of it\n", bytes);
  std::abort();
#endif
}

template <int V, class T>
OUTSIZE_BOTH Vector<T, V> load(const T* from) {
  expect_aligned(from, sizeof(Vector<T, V>));
  return *reinterpret_cast<const Vector<T, V>*>(from);
}

template <int V, class T>
OUTSIZE_BOTH void store(T* to, const Vector<T, V>& vector) {
  expect_aligned(to, sizeof(Vector<T, V>));
  *reinterpret_cast<Vector<T, V>*>(to) = vector;
}

// Whether vectors of V elements may be loaded from all of these addresses.
template <int V, class... Pointers>
bool aligned(Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % (sizeof(*pointers) * V) == 0) && ...);
}

// Quotients and remainders of numbers below 2^31 by a fixed divisor from 1 to 2^31, without a division (Granlund and Montgomery,
// 1994: multiply by a rounded-up reciprocal, then shift).
class Divide {
 public:
  Divide() : Divide(1) {}
  explicit Divide(std::int64_t by) : by_(static_cast<std::uint32_t>(by)) {
    while ((std::uint64_t{1} << shift_) < by_) ++shift_;
    const std::uint64_t above = (std::uint64_t{1} << shift_) - by_;
    factor_ = static_cast<std::uint32_t>((above << 32) / by_ + 1);
  }
  OUTSIZE_BOTH std::uint32_t by() const { return by_; }
  OUTSIZE_BOTH std::uint32_t quotient(std::uint32_t n) const {
#if defined(__CUDA_ARCH__)
    return (__umulhi(n, factor_) + n) >> shift_;
#else
    return static_cast<std::uint32_t>((((std::uint64_t{n} * factor_) >> 32) + n) >> shift_);
#endif
  }

 private:
  std::uint32_t factor_ = 0;
  std::uint32_t by_;
  int shift_ = 0;
};

// Blocks along x and y, and the bytes of memory that the threads of a block share.
struct Grid {
  std::int64_t x = 1;
  std::int64_t y = 1;
  std::int64_t shared = 0;
};

// The most bytes that a block may share on every card of compute capability 8.0 or above. Beyond kSharedUnasked the card wants to
// be told before a launch.
inline constexpr std::int64_t kMostShared = 99 << 10;
inline constexpr std::int64_t kSharedUnasked = 48 << 10;

// The most blocks along y of one launch.
inline constexpr std::int64_t kMostRows = 65535;

// Whether a card takes it.
inline bool can_be_launched(const Grid& grid) {
  return grid.x >= 1 && grid.x < (std::int64_t{1} << 31) && grid.y >= 1 && grid.y <= kMostRows && grid.shared <= kMostShared;
}

// A block program is a function object body(block). Threads of the block meet at the end of each(f), which calls f(thread) for all
// of them; last(f) is the same where nothing comes after. What a thread keeps from one meeting to the next is an Own<T>, what
// others see lies in shared(). There is no other way to communicate: no atomics, no shuffles.
//
// Programs that multiply matrices work by warps, of 32 threads that do one thing together: each_warp(f) calls f(warp) for every
// warp, and the warps meet at its end. What a warp works on and keeps, as an OwnOfWarp<T>, are the fragments of
// ops/cuda/fragments.h.
//
// Memory of the card comes into shared memory while the threads do other work: fetch(f) calls f(thread, copies) for all threads
// without a meeting, and f starts copies by copies.floats<V>(to, from, there): of V floats, or zeros where nothing is there.
// fetched<n>() is a meeting after which all that was fetched can be read, but for what the last n calls of fetch() started. From
// fetch() to there the destination holds nothing that can be used; emulated it holds NaN. fetched<n>(f) calls f(thread) for all
// threads before they meet: there a thread may change what it fetched itself, and nothing else.
//
// A body has   static constexpr int kThreads         threads a block
//              static constexpr int kBlocks          blocks that should find room on a multiprocessor
//              template <class Block> OUTSIZE_BOTH void operator()(Block& block) const
#if defined(__CUDACC__)

// A warp, as each of its 32 threads sees it: the threads are its lanes.
class Warp {
 public:
  OUTSIZE_BOTH int number() const { return thread() / 32; }  // among the warps of the block
  OUTSIZE_BOTH int lane() const { return thread() % 32; }

 private:
  // nvcc compiles what calls this for the host too, where nobody runs it.
  OUTSIZE_BOTH static int thread() {
#if defined(__CUDA_ARCH__)
    return static_cast<int>(threadIdx.x);
#else
    return 0;
#endif
  }
};

// Starts copies from memory of the card to shared memory.
class Copies {
 public:
  template <int V>
  __device__ void floats(float* to, const float* from, bool there) const {
    const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (V == 4)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(there ? 16 : 0) : "memory");
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(there ? 4 : 0) : "memory");
  }
};

class Block {
 public:
  template <class T>
  struct Own {
    T value;
    __device__ T& operator[](int) { return value; }
  };
  template <class T>
  using OwnOfWarp = Own<T>;
  __device__ std::int64_t x() const { return blockIdx.x; }
  __device__ std::int64_t y() const { return blockIdx.y; }
  __device__ std::int64_t blocks_along_x() const { return gridDim.x; }
  template <class F>
  __device__ void each(F&& f) {
    f(static_cast<int>(threadIdx.x));
    __syncthreads();
  }
  template <class F>
  __device__ void last(F&& f) {
    f(static_cast<int>(threadIdx.x));
  }
  template <class F>
  __device__ void each_warp(F&& f) {
    f(Warp());
    __syncthreads();
  }
  template <class F>
  __device__ void fetch(F&& f) {
    Copies copies;
    f(static_cast<int>(threadIdx.x), copies);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  template <int kLater>
  __device__ void fetched() {
    fetched<kLater>([](int) {});
  }
  template <int kLater, class F>
  __device__ void fetched(F&& f) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");
    f(static_cast<int>(threadIdx.x));
    __syncthreads();
  }
  __device__ std::byte* shared() {
    extern __shared__ __align__(128) std::byte memory[];
    return memory;
  }
};

template <class Body>
__global__ void __launch_bounds__(Body::kThreads, Body::kBlocks) run_on_card(const __grid_constant__ Body body) {
  Block block;
  body(block);
}

// The multiprocessors of the card in use.
inline int multiprocessors() {
  static const int count = [] {
    int device = 0, found = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
      user_error("there is no CUDA device that can be used");
    return found;
  }();
  return count;
}

// Puts a block program into the stream `queue`.
template <class Body>
void launch(const Body& body, const Grid& grid, void* queue) {
  OUTSIZE_CHECK(can_be_launched(grid));
  if (grid.shared > kSharedUnasked)
    if (const cudaError_t error =
            cudaFuncSetAttribute(run_on_card<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(grid.shared));
        error != cudaSuccess)
      internal_error("a kernel cannot have {} bytes of shared memory: {}", grid.shared, cudaGetErrorString(error));
  run_on_card<<<dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y)), Body::kThreads,
                static_cast<std::size_t>(grid.shared), static_cast<cudaStream_t>(queue)>>>(body);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
    internal_error("a kernel of {} x {} blocks cannot be launched: {}", grid.x, grid.y, cudaGetErrorString(error));
}

#else

// Whether blocks, and the threads of a block, run from the last to the first. What comes out must not depend on it: a result that
// does shows a race.
inline bool& emulation_runs_backwards() {
  static bool backwards = false;
  return backwards;
}

class Warp {
 public:
  explicit Warp(int number) : number_(number) {}
  int number() const { return number_; }

 private:
  int number_;
};

// Copies that were started and are made when they are waited for.
class Copies {
 public:
  template <int V>
  void floats(float* to, const float* from, bool there) {
    expect_aligned(to, sizeof(Vector<float, V>));
    expect_aligned(from, sizeof(Vector<float, V>));
    for (int i = 0; i < V; ++i) {
      to[i] = std::nanf("");
      started_.push_back({to + i, there ? from + i : nullptr});
    }
  }
  void make() {
    for (const Started& one : started_) *one.to = one.from == nullptr ? 0.0f : *one.from;
    started_.clear();
  }

 private:
  struct Started {
    float* to;
    const float* from;
  };
  std::vector<Started> started_;
};

class Block {
 public:
  static constexpr int kMostThreads = 1024;

  template <class T>
  struct Own {
    std::vector<T> values = std::vector<T>(kMostThreads);
    T& operator[](int thread) { return values[static_cast<std::size_t>(thread)]; }
  };

  template <class T>
  struct OwnOfWarp {
    std::vector<T> values = std::vector<T>(kMostThreads / 32);
    T& operator[](int warp) { return values[static_cast<std::size_t>(warp)]; }
  };

  Block(std::int64_t x, std::int64_t y, std::int64_t along_x, int threads, std::byte* shared, std::deque<Copies>* fetches)
      : x_(x), y_(y), along_x_(along_x), threads_(threads), shared_(shared), fetches_(fetches) {}
  std::int64_t x() const { return x_; }
  std::int64_t y() const { return y_; }
  std::int64_t blocks_along_x() const { return along_x_; }
  template <class F>
  void each(F&& f) {
    if (emulation_runs_backwards())
      for (int thread = threads_; thread-- > 0;) f(thread);
    else
      for (int thread = 0; thread < threads_; ++thread) f(thread);
  }
  template <class F>
  void last(F&& f) {
    each(f);
  }
  template <class F>
  void each_warp(F&& f) {
    const int warps = threads_ / 32;
    for (int n = 0; n < warps; ++n) f(Warp(emulation_runs_backwards() ? warps - 1 - n : n));
  }
  template <class F>
  void fetch(F&& f) {
    Copies& copies = fetches_->emplace_back();
    each([&](int thread) { f(thread, copies); });
  }
  template <int kLater>
  void fetched() {
    while (fetches_->size() > kLater) {
      fetches_->front().make();
      fetches_->pop_front();
    }
  }
  template <int kLater, class F>
  void fetched(F&& f) {
    fetched<kLater>();
    each(f);
  }
  std::byte* shared() { return shared_; }

 private:
  std::int64_t x_, y_, along_x_;
  int threads_;
  std::byte* shared_;
  std::deque<Copies>* fetches_;  // what was not waited for
};

// Launches that there were; and whether they are looked at but not run, as calls are that no host has the memory for.
inline std::int64_t& emulated_launches() {
  static std::int64_t count = 0;
  return count;
}
inline bool& emulation_is_dry() {
  static bool dry = false;
  return dry;
}

// Few, so that small cases have several blocks that loop.
inline int multiprocessors() { return 3; }

// Runs a block program at once. Shared memory starts as NaN in every block, of f32 and of f64: what nobody wrote shows.
template <class Body>
void launch(const Body& body, const Grid& grid, void*) {
  OUTSIZE_CHECK(can_be_launched(grid) && Body::kThreads <= Block::kMostThreads);
  ++emulated_launches();
  if (emulation_is_dry()) return;
  std::vector<double> shared(static_cast<std::size_t>(grid.shared + 15) / sizeof(double));
  std::deque<Copies> fetches;
  for (std::int64_t n = 0; n < grid.x * grid.y; ++n) {
    const std::int64_t at = emulation_runs_backwards() ? grid.x * grid.y - 1 - n : n;
    std::ranges::fill(shared, std::bit_cast<double>(~std::uint64_t{0}));
    fetches.clear();
    Block block(at % grid.x, at / grid.x, grid.x, Body::kThreads, reinterpret_cast<std::byte*>(shared.data()), &fetches);
    body(block);
  }
}

#endif

}  // namespace outsize::OUTSIZE_PLACE
