#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "backend/queues.h"
#include "cost/devices.h"
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
  // What is taken of the device's memory beside the arenas: the driver's context, modules, handles, and other processes. 0 where
  // the device is the host, whose process tells.
  virtual std::int64_t outside_bytes() const { return 0; }
  // The threads of the host that it may use.
  virtual int threads() const = 0;
  // The most elements that one box of a call may have.
  virtual std::int64_t most_elements() const { return std::numeric_limits<std::int64_t>::max(); }

  // Whether no box of the call has more.
  bool takes(const Call& call) const {
    const auto small = [&](const Box& box) { return box.elements() <= most_elements(); };
    return std::ranges::all_of(call.boxes.in, small) && std::ranges::all_of(call.boxes.out, small);
  }

  using Target::workspace_bytes;
  std::int64_t workspace_bytes(const Call& call, std::string_view name) final {
    return takes(call) ? kernel(call, Lane::compute, name)->workspace_bytes() : 0;
  }

  // The prepared kernel of a call for a lane; calls of the same signature share one. Used at plan time (its workspace) and before
  // the first step, never in a step. `name` is that of one of its alternatives; empty: the first. Throws UserError where there is
  // none of that name.
  virtual std::shared_ptr<const Kernel> kernel(const Call& call, Lane lane, std::string_view name) = 0;
  std::shared_ptr<const Kernel> kernel(const Call& call, Lane lane) { return kernel(call, lane, {}); }
  std::shared_ptr<const Kernel> kernel(const Call& call) { return kernel(call, Lane::compute); }
  // Forgets the kernels that nobody holds any more, and gives what memory the process does not use back to the system.
  virtual void release_kernels() = 0;

  // Page-aligned zeroed memory of a tier's arena (device or host); freed by deallocate.
  virtual std::byte* allocate(Tier tier, std::int64_t bytes) = 0;
  // The same memory larger, with zeros behind what was there; it may lie elsewhere.
  virtual std::byte* reallocate(Tier tier, std::byte* memory, std::int64_t bytes, std::int64_t wanted) = 0;
  virtual void deallocate(Tier tier, std::byte* memory, std::int64_t bytes) = 0;

  // Called once by the thread of each lane that has one of its own, before the first step.
  virtual void enter(Lane) {}

  // The queues of the device's lanes; nullptr where lanes are threads, and work is done when a call returns.
  virtual Queues* queues() { return nullptr; }

  // Moves or combines a box as `plan` says (in elements of `element_bytes`); called from the lane's own thread, lanes beside each
  // other, or put into the lane's queue. Allocates nothing. A rule other than sum takes boxes that are one run.
  virtual void copy(Lane lane, const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::byte* to) = 0;
  virtual void combine(Lane lane, Combine rule, const CopyPlan& plan, DType dtype, const std::byte* from, std::byte* to) = 0;
  virtual void zero(Lane lane, std::byte* memory, std::int64_t bytes) = 0;

  // Memory of a tier's arena from outside a step, done on return: bytes that are set, looked for (the place of the first, or last,
  // that is not `byte`, counted from `memory`; -1 where all are), brought there and fetched.
  virtual void fill(Tier tier, std::byte* memory, std::int64_t bytes, std::byte byte) = 0;
  virtual std::int64_t first_other(Tier tier, const std::byte* memory, std::int64_t bytes, std::byte byte) const = 0;
  virtual std::int64_t last_other(Tier tier, const std::byte* memory, std::int64_t bytes, std::byte byte) const = 0;
  virtual void upload(Tier tier, std::span<const std::byte> from, std::byte* to) = 0;
  virtual void download(Tier tier, const std::byte* from, std::span<std::byte> to) const = 0;
  // Whether the host's processor may read and write the tier's memory by its address.
  virtual bool addressable(Tier) const { return true; }

  // How long the work takes that `body` puts into a lane of the device, from when what was in that lane before is done.
  virtual double seconds(Lane lane, const std::function<void()>& body) = 0;
  // The largest cache between the device's processors and its memory.
  virtual std::int64_t cache_bytes() const = 0;

  // The device that plans are made for where none is named.
  virtual Device device() { return devices().front(); }
};

// The names that make_backend() takes on this machine, the one that is taken where none is named first.
std::vector<std::string> backend_names();

// One of backend_names(). Throws UserError naming them. `tf32`: products and convolutions of f32 may round their factors, where the
// backend is a card's.
std::unique_ptr<Backend> make_backend(std::string_view name, int threads, bool tf32 = true);

}  // namespace outsize
