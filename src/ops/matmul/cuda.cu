#include "ops/cuda/product.h"
#include "ops/cuda/support.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

template <bool kTf32>
std::unique_ptr<Kernel> make_matmul(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  if (call.boxes.out[0].empty()) return make_nothing();
  if (has_empty_input(call)) return make_zeros(call, storage);
  const Dims a = call.boxes.in[0].shape();
  const Dims y = call.boxes.out[0].shape();
  const int last = y.rank() - 1;
  const bool transpose_a = call.site.integer("transpose_a") != 0, transpose_b = call.site.integer("transpose_b") != 0;
  const std::int64_t rows = y[last - 1], columns = y[last], inner = a[transpose_a ? last - 1 : last];
  Product product(dense_product(y.product() / (rows * columns), rows, inner, columns, transpose_a, transpose_b), kTf32);
  const std::int64_t workspace = product.workspace_bytes();
  const std::string name = product.name();
  return make_kernel(name, workspace, [product = std::move(product)](const KernelRun& run) {
    product.run({in<float>(run, 0), in<float>(run, 1), out<float>(run, 0)}, false, run.workspace, run.queue);
  });
}

}  // namespace

void cuda_matmul(KernelTable& table) { table.add("matmul", table.tf32 ? make_matmul<true> : make_matmul<false>); }

}  // namespace outsize::OUTSIZE_PLACE
