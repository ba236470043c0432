#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/opdef.h"
#include "graph/storage.h"

namespace outsize {

// One call of an op: which boxes it reads and writes and, for ops with owned terms, where those apply (a box of the driver).
struct Call {
  OpSite site;
  CallBoxes boxes;
  Box owned;
};

// What a kernel is given at run time. Pointers and boxes are in the order of the call; boxes differ from the prepared call's only
// by a shift (loop iterations), so a kernel needs them only for global positions. A pointer of an empty box is null.
struct KernelRun {
  std::span<const std::byte* const> in;
  std::span<std::byte* const> out;
  std::byte* workspace = nullptr;
  std::span<const Box> in_boxes;
  std::span<const Box> out_boxes;
  Box owned;
  void* queue = nullptr;  // the stream of the card that the work is put into; null where it is done when run() returns
};

// A prepared call. It owns no device memory: its workspace is booked by the plan and received at run time. run() allocates
// nothing of its own, and where there is a queue it reads no memory of the device itself: what the work depends on, it reads there.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::int64_t workspace_bytes() const { return 0; }
  // Which implementation this is, for reports: "jit:avx512_core", "loops".
  virtual std::string name() const = 0;
  virtual void run(const KernelRun& run) const = 0;
};

using KernelFactory = std::unique_ptr<Kernel> (*)(const Call& call, const StorageRule& storage);

// The kernels of one backend, by op kind.
class KernelTable {
 public:
  void add(std::string_view kind, KernelFactory factory);
  // Throws InternalError naming kind and backend when there is none.
  std::unique_ptr<Kernel> prepare(const Call& call, const StorageRule& storage) const;
  bool has(std::string_view kind) const;
  std::string backend;
  // Whether matrix products and convolutions of f32 may round their factors to TF32, of 10 bits, as cards multiply fast. Set before
  // the folders add their kernels, so that they can add others.
  bool tf32 = false;

 private:
  std::vector<std::pair<std::string, KernelFactory>> factories_;
};

}  // namespace outsize
