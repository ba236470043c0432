#include "ops/cpu_movement.h"

namespace outsize {

namespace {

class Permute final : public Kernel {
 public:
  Permute(const Call& call, const StorageRule& storage)
      : storage_(storage),
        from_(call.site.in(0).format),
        to_(call.site.out(0).format),
        order_(std::span<const std::int64_t>(call.site.integers("order"))) {}
  std::string name() const override { return "copy"; }
  void run(const KernelRun& run) const override {
    if (run.out[0] == nullptr) return;
    move_box(storage_, {words(run.in[0]), run.in_boxes[0], from_}, {words(run.out[0]), run.out_boxes[0], to_}, order_);
  }

 private:
  StorageRule storage_;
  Format from_;
  Format to_;
  Dims order_;
};

std::unique_ptr<Kernel> make_permute(const Call& call, const StorageRule& storage) {
  require_words(call, storage);
  return std::make_unique<Permute>(call, storage);
}

}  // namespace

void cpu_permute(KernelTable& table) { table.add("permute", make_permute); }

}  // namespace outsize
