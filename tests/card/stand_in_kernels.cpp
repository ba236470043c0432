#include <chrono>
#include <thread>

#include "ops/alternatives.h"
#include "ops/conv/cuda_convolution.h"
#include "ops/cuda/library/described.h"
#include "ops/cuda/memory.h"
#include "ops/registry.h"
#include "stand_in.h"

// What nvcc and NVIDIA's libraries give the backend: here the block programs as loops of the host, put into a stream.
namespace outsize {
namespace {

const KernelTable& emulated_kernels(bool tf32) {
  static const KernelTable strict = cuda_host_kernels(false), rounded = cuda_host_kernels(true);
  return tf32 ? rounded : strict;
}

class PutKernel final : public Kernel {
 public:
  explicit PutKernel(std::shared_ptr<const Kernel> kernel) : kernel_(std::move(kernel)) {}
  std::int64_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  std::string name() const override { return kernel_->name(); }
  void run(const KernelRun& run) const override {
    struct Work {
      std::vector<const std::byte*> in;
      std::vector<std::byte*> out;
      std::vector<Box> in_boxes, out_boxes;
    };
    Work work{{}, {}, {run.in_boxes.begin(), run.in_boxes.end()}, {run.out_boxes.begin(), run.out_boxes.end()}};
    for (const std::byte* const data : run.in) work.in.push_back(stand_in::real(data));
    for (std::byte* const data : run.out) work.out.push_back(stand_in::real(data));
    stand_in::put(run.queue,
                  [kernel = kernel_, work = std::move(work), workspace = stand_in::real(run.workspace), owned = run.owned] {
                    kernel->run({work.in, work.out, workspace, work.in_boxes, work.out_boxes, owned, nullptr});
                  });
  }

 private:
  std::shared_ptr<const Kernel> kernel_;
};

template <bool kTf32>
std::unique_ptr<Kernel> put_kernel(const Call& call, const StorageRule& storage) {
  return std::make_unique<PutKernel>(emulated_kernels(kTf32).prepare(call, storage));
}

template <int kIndex>
std::vector<PreparedAlternative> put_alternatives(const Call& call, const StorageRule& storage);

}  // namespace

KernelTable cuda_kernels(bool tf32) {
  KernelTable table;
  table.backend = "cuda";
  table.tf32 = tf32;
  for (const OpDef* def : all_op_defs())
    if (emulated_kernels(tf32).has(def->kind())) table.add(def->kind(), tf32 ? put_kernel<true> : put_kernel<false>);
  return table;
}

// Those of cuda-host, so that a plan may hold a choice.
AlternativesTable cuda_alternatives(bool) {
  static const AlternativesTable emulated = cuda_host_alternatives();
  AlternativesTable table;
  for (const OpDef* def : all_op_defs())
    if (emulated.find(def->kind()))
      table.add(def->kind(), [](const Call& call, const StorageRule& storage) {
        std::vector<PreparedAlternative> found = emulated.find(call.site.op.def->kind())(call, storage);
        for (PreparedAlternative& one : found) one.kernel = std::make_unique<PutKernel>(std::move(one.kernel));
        return found;
      });
  return table;
}

std::string cudnn_name() { return "no cuDNN"; }
std::string cudnn_description(std::string_view) { return {}; }

namespace card {

std::optional<Alternative> described_convolution(const Call&, bool, const std::string&) { return std::nullopt; }

void copy_box(const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::byte* to, void* queue) {
  stand_in::put(queue, [=, from = stand_in::real(from), to = stand_in::real(to)] {
    emulated::copy_box(plan, element_bytes, from, to, nullptr);
  });
}

void combine_box(Combine rule, const CopyPlan& plan, DType dtype, const std::byte* from, std::byte* to, void* queue) {
  stand_in::put(queue, [=, from = stand_in::real(from), to = stand_in::real(to)] {
    emulated::combine_box(rule, plan, dtype, from, to, nullptr);
  });
}

// How many parts there are is known only when it is done.
int scan_other(const std::byte* memory, std::int64_t bytes, std::byte byte, bool last, std::int64_t* results, void* queue) {
  int parts = 0;
  stand_in::put(queue, [&parts, memory = stand_in::real(memory), bytes, byte, last, results] {
    parts = emulated::scan_other(memory, bytes, byte, last, results, nullptr);
  });
  stand_in::wait_for(queue);
  return parts;
}

void pause(double seconds, void* queue) {
  stand_in::put(queue, [seconds] { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); });
}

}  // namespace card
}  // namespace outsize
