#include "ops/cpu_product.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class Matmul final : public Kernel {
 public:
  explicit Matmul(DnnlCall product) : product_(std::move(product)) {}
  std::string name() const override { return product_.implementation(); }
  std::int64_t workspace_bytes() const override { return product_.scratchpad_bytes(); }
  void run(const KernelRun& run) const override {
    product_.bind(0, run.in[0]);
    product_.bind(1, run.in[1]);
    product_.bind(2, run.out[0]);
    product_.execute(run.workspace);
  }

 private:
  DnnlCall product_;
};

std::unique_ptr<Kernel> make_matmul(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  const Dims a = call.boxes.in[0].shape();
  const Dims y = call.boxes.out[0].shape();
  const int last = y.rank() - 1;
  const bool transpose_a = call.site.integer("transpose_a") != 0, transpose_b = call.site.integer("transpose_b") != 0;
  const std::int64_t rows = y[last - 1], columns = y[last], inner = a[transpose_a ? last - 1 : last];
  const std::int64_t batch = y.product() / (rows * columns);
  const std::string what = fmt::format("matmul {} ({} of {} × {} × {})", call.site.op.name, batch, rows, inner, columns);
  return std::make_unique<Matmul>(matrix_product(batch, {rows, inner, transpose_a}, {inner, columns, transpose_b}, false, what));
}

}  // namespace

void cpu_matmul(KernelTable& table) { table.add("matmul", make_matmul); }

}  // namespace outsize
