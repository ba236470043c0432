#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "ops/kernel.h"

struct dnnl_engine;
struct dnnl_primitive_desc;

// Compiles a loop for AVX-512, AVX2 and plain x86-64; the loader picks one. It belongs on small functions without OpenMP
// directives or lambdas in them: bodies that the compiler outlines are not cloned. Loops must be left to the vectorizer, which
// runs after cloning (vector types are lowered before it).
#define OUTSIZE_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))

// A loop body shared by clones.
#define OUTSIZE_INLINE [[gnu::always_inline]] inline

namespace outsize {

// How the CPU backend stores maps: in channel blocks as wide as the vectors oneDNN uses on this machine.
StorageRule cpu_storage();

// "oneDNN 2.6.3", as it is loaded.
std::string cpu_libraries();

// The extents of a map piece as it is stored: N ⌈C/b⌉ D? H W b; depth is 1 where there is no D.
struct MapPiece {
  MapPiece(const StorageRule& storage, const Box& box)
      : block(storage.channel_block),
        samples(box.extent(0)),
        channels(box.extent(1)),
        blocks((channels + block - 1) / block),
        depth(box.rank() > 4 ? box.extent(2) : 1),
        height(box.extent(box.rank() - 2)),
        width(box.extent(box.rank() - 1)) {}

  std::int64_t block;
  std::int64_t samples;
  std::int64_t channels;
  std::int64_t blocks;
  std::int64_t depth;
  std::int64_t height;
  std::int64_t width;

  std::int64_t padded_channels() const { return blocks * block; }
  std::int64_t positions() const { return depth * height * width; }
  std::int64_t row() const { return width * block; }          // elements
  std::int64_t plane() const { return positions() * block; }  // elements of one block of one sample
  std::int64_t planes() const { return samples * blocks; }
  std::int64_t elements() const { return planes() * plane(); }
  // How many channels of a block are real.
  std::int64_t lanes(std::int64_t channel_block) const { return std::min(block, channels - channel_block * block); }
};

// Throws InternalError naming op and value unless these inputs and all outputs of floating type are f32: what this backend computes
// in.
void require_f32(const Call& call);
// Throws InternalError naming the op unless maps are stored in blocks of 8 or 16 channels.
void require_blocks(const Call& call, const StorageRule& storage);
// True where an input box of the call has no element: its contribution is then zero.
bool has_empty_input(const Call& call);
// A kernel that fills every output with zeros, for calls with an empty input.
std::unique_ptr<Kernel> make_zero_kernel(const Call& call, const StorageRule& storage);
// The stored elements of input (output) i of a call, padding channels included.
std::int64_t input_elements(const Call& call, const StorageRule& storage, int input);
std::int64_t output_elements(const Call& call, const StorageRule& storage, int output);

inline const float* f32(const std::byte* data) { return reinterpret_cast<const float*>(data); }
inline float* f32(std::byte* data) { return reinterpret_cast<float*>(data); }
inline const double* f64(const std::byte* data) { return reinterpret_cast<const double*>(data); }
inline double* f64(std::byte* data) { return reinterpret_cast<double*>(data); }

// Below this, starting a team of threads costs more than it saves.
inline constexpr std::int64_t kParallelBytes = 1 << 16;

// body(i) for every i in [0, count). Which thread runs which i never changes a result: bodies write disjoint memory.
// `bytes` is what all of them touch.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t bytes, const Body& body) {
#pragma omp parallel for schedule(static) if (count > 1 && bytes >= kParallelBytes)
  for (std::int64_t i = 0; i < count; ++i) body(i);
}

// The unit of flat loops; fixed, so that reductions do not depend on the number of threads.
inline constexpr std::int64_t kChunk = 1 << 14;

constexpr std::int64_t chunks_of(std::int64_t elements, std::int64_t chunk = kChunk) { return (elements + chunk - 1) / chunk; }

// body(from, count) over [0, elements) in chunks; `bytes` as in parallel_for.
template <class Body>
void parallel_chunks(std::int64_t elements, std::int64_t bytes, const Body& body) {
  parallel_for(chunks_of(elements), bytes, [&](std::int64_t i) { body(i * kChunk, std::min(kChunk, elements - i * kChunk)); });
}

// Zeros, with all threads.
void fill_zero(void* data, std::int64_t bytes);

// Moves of map pieces, of 2 or 3 spatial dimensions, between boxes with the same samples and channels. Each but weave_map fills all
// of `to`: with zeros where `from`, which holds `from_box`, has nothing.

// The same positions.
void embed_map(const StorageRule& storage, const float* from, const Box& from_box, float* to, const Box& to_box);

// Positions `stride` apart: to[o] = from[o * stride - padding], one entry a spatial dimension.
struct Steps {
  std::array<std::int64_t, 3> stride{1, 1, 1};
  std::array<std::int64_t, 3> padding{};
};
void thin_map(const StorageRule& storage, const Steps& steps, const float* from, const Box& from_box, float* to, const Box& to_box);

// A thread of a woven row: the positions u * stride + residue of a map, as the map of the positions u.
struct Thread {
  const float* data = nullptr;  // none: `fill` everywhere
  Box box;
};
// Fills the rows of `to` whose positions have these residues modulo the strides, in all spatial dimensions but the last. A row is
// woven of as many threads as the last stride; where a thread has nothing the row gets `fill`, a number a padded channel.
void weave_map(const StorageRule& storage, const Steps& steps, const std::array<std::int64_t, 3>& residue,
               std::span<const Thread> threads, const float* fill, float* to, const Box& to_box);

// The same positions, stored N C D? H W without blocks; for a few channels only.
void unblock_map(const StorageRule& storage, const float* from, const Box& from_box, float* to, const Box& to_box);

// The reverse, of the same box: lanes past the channels are zeros.
void block_map(const StorageRule& storage, const float* from, const Box& box, float* to);

// The library's CPU; it lives until the program ends. Throws std::bad_alloc where there is no memory to make a primitive in.
dnnl_engine* cpu_engine();
// Makes the library forget the primitives that it has kept in case they are wanted again, but for those that are in use.
void forget_primitives();

// A oneDNN primitive with its arguments, made when a call is prepared. At run time only data handles are set.
class DnnlCall {
 public:
  // `arguments` are DNNL_ARG_… in the order bind() numbers them; the scratchpad is not among them.
  // Throws InternalError naming `what` when the library offers only a reference implementation.
  DnnlCall(dnnl_primitive_desc* description, std::span<const int> arguments, const std::string& what);
  ~DnnlCall();
  DnnlCall(DnnlCall&&) noexcept;
  DnnlCall& operator=(DnnlCall&&) noexcept;

  std::int64_t scratchpad_bytes() const;
  const std::string& implementation() const;
  // Sets the data of argument i of the constructor's list.
  void bind(int argument, const void* data) const;
  // Runs it to its end.
  void execute(void* scratchpad) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// A workspace laid out at prepare time: book() returns offsets, aligned to cache lines.
class Workspace {
 public:
  std::int64_t book(std::int64_t bytes) {
    const std::int64_t offset = bytes_;
    bytes_ += align_up(bytes, 64);
    return offset;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

}  // namespace outsize
