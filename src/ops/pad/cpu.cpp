#include <bit>

#include "ops/cpu_movement.h"

namespace outsize {

namespace {

class Pad final : public Kernel {
 public:
  Pad(const Call& call, const StorageRule& storage)
      : storage_(storage), format_(call.site.in(0).format), before_(std::span<const std::int64_t>(call.site.integers("before"))) {
    const double value = call.site.number("value");
    value_ = is_float(call.site.in(0).dtype) ? std::bit_cast<Word>(static_cast<float>(value))
                                             : static_cast<Word>(static_cast<std::int32_t>(value));
  }
  std::string name() const override { return "fill+copy"; }
  void run(const KernelRun& run) const override {
    if (run.out[0] == nullptr) return;
    const PieceOf<Word> to{words(run.out[0]), run.out_boxes[0], format_};
    const Box from = run.in_boxes[0].shifted(before_);
    const Box none = Box::none(to.box.rank());
    fill_outside(storage_, to, run.in[0] != nullptr ? intersect(from, to.box) : none, value_);
    if (run.in[0] != nullptr) move_box(storage_, {words(run.in[0]), from, format_}, to);
  }

 private:
  StorageRule storage_;
  Format format_;
  Dims before_;
  Word value_;
};

std::unique_ptr<Kernel> make_pad(const Call& call, const StorageRule& storage) {
  require_words(call, storage);
  return std::make_unique<Pad>(call, storage);
}

}  // namespace

void cpu_pad(KernelTable& table) { table.add("pad", make_pad); }

}  // namespace outsize
