#include "ops/cuda/move.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

std::unique_ptr<Kernel> make_permute(const Call& call, const StorageRule& storage) {
  expect_words(call, storage);
  const Format from = call.site.in(0).format, to = call.site.out(0).format;
  const Dims order{std::span<const std::int64_t>(call.site.integers("order"))}, none = Dims::filled(order.rank(), 0);
  return make_kernel("move", 0, [=](const KernelRun& run) {
    if (run.out[0] == nullptr) return;
    move_box(storage, input_piece(run, 0, from, none), output_piece(run, 0, to, none), order, run.queue);
  });
}

}  // namespace

void cuda_permute(KernelTable& table) { table.add("permute", make_permute); }

}  // namespace outsize::OUTSIZE_PLACE
