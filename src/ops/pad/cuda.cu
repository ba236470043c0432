#include <bit>

#include "ops/cuda/move.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

std::unique_ptr<Kernel> make_pad(const Call& call, const StorageRule& storage) {
  expect_words(call, storage);
  const Format format = call.site.in(0).format;
  const Dims before{std::span<const std::int64_t>(call.site.integers("before"))}, none = Dims::filled(before.rank(), 0);
  const double number = call.site.number("value");
  const Word value = is_float(call.site.in(0).dtype) ? std::bit_cast<Word>(static_cast<float>(number))
                                                     : static_cast<Word>(static_cast<std::int32_t>(number));
  return make_kernel("move", 0, [=](const KernelRun& run) {
    if (run.out[0] == nullptr) return;
    pad_box(storage, input_piece(run, 0, format, before), output_piece(run, 0, format, none), value, run.queue);
  });
}

}  // namespace

void cuda_pad(KernelTable& table) { table.add("pad", make_pad); }

}  // namespace outsize::OUTSIZE_PLACE
