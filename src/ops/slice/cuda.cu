#include "ops/cuda/move.h"
#include "ops/movement.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

std::unique_ptr<Kernel> make_slice(const Call& call, const StorageRule& storage) {
  expect_words(call, storage);
  const Format format = call.site.in(0).format;
  const Dims back = negated(call.site.integers("start")), none = Dims::filled(back.rank(), 0);
  return make_kernel("move", 0, [=](const KernelRun& run) {
    if (run.out[0] == nullptr) return;
    pad_box(storage, input_piece(run, 0, format, back), output_piece(run, 0, format, none), 0, run.queue);
  });
}

}  // namespace

void cuda_slice(KernelTable& table) { table.add("slice", make_slice); }

}  // namespace outsize::OUTSIZE_PLACE
