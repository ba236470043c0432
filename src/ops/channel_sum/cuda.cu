#include "ops/cuda/reduce.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

struct Elements : WithoutFactors {
  static constexpr int kInputs = 1;
  using Partial = SumPartial;
  struct Run : SumRun {
    OUTSIZE_BOTH void add(const float* x, NoFactors) { value += x[0]; }
  };
};

std::unique_ptr<Kernel> make_channel_sum(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  if (has_empty_input(call)) return make_zeros(call, storage);
  const ReduceShape shape{1, input_sheet(call, 0), 1};
  return make_kernel("reduce", reduce_workspace<Elements>(shape), [=](const KernelRun& run) {
    run_reduce(Elements(), ScaledSum{out<float>(run, 0), 1}, {in<float>(run, 0)}, shape, run.workspace, run.queue);
  });
}

}  // namespace

void cuda_channel_sum(KernelTable& table) { table.add("channel_sum", make_channel_sum); }

}  // namespace outsize::OUTSIZE_PLACE
