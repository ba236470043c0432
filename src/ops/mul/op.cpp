#include "ops/broadcast.h"

namespace outsize {
namespace {

class Multiply final : public BroadcastOp {
 public:
  std::string_view kind() const override { return "mul"; }
  std::string_view help() const override { return "y = a * b, element by element; extents of 1 are broadcast"; }

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (context.wants(0))
      context.contribute(0, summed_to_input(context, 0, context.emit("mul", "grad_a", {dy, context.input(1)})[0]));
    if (context.wants(1))
      context.contribute(1, summed_to_input(context, 1, context.emit("mul", "grad_b", {dy, context.input(0)})[0]));
  }
};

}  // namespace

void define_mul(OpList& list) {
  static const Multiply mul;
  list.push_back(&mul);
}

}  // namespace outsize
