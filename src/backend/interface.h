#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "cost/target.h"
#include "program/program.h"

namespace outsize {

// A device: its kernels, its memory and how boxes move between tiers. One object a process is enough; not thread-safe except where
// said.
class Backend : public Target {
 public:
  virtual std::string_view name() const = 0;
  // The libraries that its kernels call, with their versions ("oneDNN 2.6.3"); empty where there are none.
  virtual std::string libraries() const { return {}; }
  virtual bool supports(DType dtype) const = 0;
  // The bytes of the device's memory that this process could still take.
  virtual std::int64_t free_bytes() const = 0;
  // The threads of the host that it may use.
  virtual int threads() const = 0;
  // The most elements that one box of a call may have.
  virtual std::int64_t most_elements() const { return std::numeric_limits<std::int64_t>::max(); }

  // Whether no box of the call has more.
  bool takes(const Call& call) const {
    const auto small = [&](const Box& box) { return box.elements() <= most_elements(); };
    return std::ranges::all_of(call.boxes.in, small) && std::ranges::all_of(call.boxes.out, small);
  }

  std::int64_t workspace_bytes(const Call& call) final { return takes(call) ? kernel(call)->workspace_bytes() : 0; }

  // The prepared kernel of a call; calls of the same signature share one. Used at plan time (its workspace) and before the first
  // step, never in a step.
  virtual std::shared_ptr<const Kernel> kernel(const Call& call) = 0;
  // Forgets the kernels that nobody holds any more.
  virtual void release_kernels() = 0;

  // Page-aligned zeroed memory of a tier's arena (device or host); freed by deallocate.
  virtual std::byte* allocate(Tier tier, std::int64_t bytes) = 0;
  // The same memory larger, with zeros behind what was there; it may lie elsewhere.
  virtual std::byte* reallocate(Tier tier, std::byte* memory, std::int64_t bytes, std::int64_t wanted) = 0;
  virtual void deallocate(Tier tier, std::byte* memory, std::int64_t bytes) = 0;

  // Moves or combines a box as `plan` says (in elements of `element_bytes`); called from the lane's own thread, lanes beside each
  // other. Allocates nothing.
  virtual void copy(Lane lane, const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::byte* to) = 0;
  virtual void add(const CopyPlan& plan, DType dtype, const std::byte* from, std::byte* to) = 0;
  virtual void zero(std::byte* memory, std::int64_t bytes) = 0;
};

// "reference" or "cpu". Throws UserError naming what there is.
std::unique_ptr<Backend> make_backend(std::string_view name, int threads);

}  // namespace outsize
