#pragma once

#include <string>

#include "backend/interface.h"
#include "backend/kernel_cache.h"

namespace outsize {

// The number of runs a copy has.
constexpr std::int64_t run_count(const CopyPlan& plan) {
  std::int64_t runs = 1;
  for (std::int64_t count : plan.count) runs *= count;
  return plan.length > 0 ? runs : 0;
}

// Calls body(from, to), offsets in elements, for the runs [begin, end) of a copy, the last loop fastest. Allocates nothing.
template <class Body>
void for_each_run(const CopyPlan& plan, std::int64_t begin, std::int64_t end, Body&& body) {
  if (begin >= end) return;
  std::int64_t index[CopyPlan::kLoops];
  std::int64_t from = plan.from, to = plan.to, rest = begin;
  for (int loop = CopyPlan::kLoops - 1; loop >= 0; --loop) {
    index[loop] = rest % plan.count[loop];
    rest /= plan.count[loop];
    from += index[loop] * plan.from_stride[loop];
    to += index[loop] * plan.to_stride[loop];
  }
  for (std::int64_t run = begin;;) {
    body(from, to);
    if (++run == end) return;
    for (int loop = CopyPlan::kLoops - 1;; --loop) {
      from += plan.from_stride[loop];
      to += plan.to_stride[loop];
      if (++index[loop] < plan.count[loop]) break;
      from -= plan.count[loop] * plan.from_stride[loop];
      to -= plan.count[loop] * plan.to_stride[loop];
      index[loop] = 0;
    }
  }
}

// The bytes that the system could still give to this process without swapping, within the limits that it and its groups have.
std::int64_t available_bytes();
// What a run takes beside what is planned: libraries, kernels, threads, batches that are being made. At most so much; and what must
// be left for it once the process has begun.
inline constexpr std::int64_t kMostOutside = std::int64_t{128} << 20;
inline constexpr std::int64_t kLeastOutside = std::int64_t{64} << 20;
// The most memory that this process has had at a time.
std::int64_t process_peak_bytes();

// Zeroed memory straight from the system: aligned to a page, or, from 2 MiB on, to 2 MiB and backed by huge pages where the system
// has them. Throws UserError with the size when the system has not that much.
std::byte* map_pages(std::int64_t bytes, std::string_view what);
void unmap_pages(std::byte* memory, std::int64_t bytes);
// Memory of map_pages() with zeros behind it, perhaps elsewhere; never twice in memory. Throws as map_pages() does.
std::byte* remap_pages(std::byte* memory, std::int64_t bytes, std::int64_t wanted, std::string_view what);

// Of ordinary memory, what Backend says of that of a tier.
void fill_memory(std::byte* memory, std::int64_t bytes, std::byte byte);
std::int64_t first_other_byte(const std::byte* memory, std::int64_t bytes, std::byte byte);
std::int64_t last_other_byte(const std::byte* memory, std::int64_t bytes, std::byte byte);

// What the backends of the host processor share: both tiers are ordinary memory. Work of the compute lane may use `threads`
// threads; the other lanes have one thread each, their own.
class HostBackend : public Backend {
 public:
  HostBackend(KernelTable kernels, StorageRule storage, int threads, AlternativesTable alternatives = {});

  std::string_view name() const final { return name_; }
  StorageRule storage() const final { return storage_; }
  std::int64_t free_bytes() const final { return std::max<std::int64_t>(available_bytes() - kMostOutside, 0); }
  int threads() const final { return threads_; }
  using Backend::kernel;
  std::shared_ptr<const Kernel> kernel(const Call& call, Lane, std::string_view name) override { return kernels_.get(call, name); }
  std::vector<Alternative> alternatives(const Call& call) override {
    return takes(call) ? kernels_.alternatives(call) : std::vector<Alternative>{};
  }
  void release_kernels() override;

  void enter(Lane lane) final;

  std::byte* allocate(Tier tier, std::int64_t bytes) final;
  std::byte* reallocate(Tier tier, std::byte* memory, std::int64_t bytes, std::int64_t wanted) final;
  void deallocate(Tier tier, std::byte* memory, std::int64_t bytes) final;

  void copy(Lane lane, const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::byte* to) override;
  void combine(Lane lane, Combine rule, const CopyPlan& plan, DType dtype, const std::byte* from, std::byte* to) override;
  void zero(Lane lane, std::byte* memory, std::int64_t bytes) override;

  void fill(Tier tier, std::byte* memory, std::int64_t bytes, std::byte byte) final;
  std::int64_t first_other(Tier tier, const std::byte* memory, std::int64_t bytes, std::byte byte) const final;
  std::int64_t last_other(Tier tier, const std::byte* memory, std::int64_t bytes, std::byte byte) const final;
  void upload(Tier tier, std::span<const std::byte> from, std::byte* to) final;
  void download(Tier tier, const std::byte* from, std::span<std::byte> to) const final;

  double seconds(Lane lane, const std::function<void()>& body) override;
  std::int64_t cache_bytes() const override;

 private:
  void start_threads();

  std::string name_;
  StorageRule storage_;
  int threads_;
  bool started_threads_ = false;
  KernelCache kernels_;
};

}  // namespace outsize
