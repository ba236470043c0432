#include "ops/broadcast.h"

namespace outsize {
namespace {

class Divide final : public BroadcastOp {
 public:
  std::string_view kind() const override { return "div"; }
  std::string_view help() const override { return "y = a / b, element by element; extents of 1 are broadcast"; }

  // da = dy / b and db = -da · y: nothing in backward needs a.
  void gradient(GradientContext& context) const override {
    const ValueId da = context.emit("div", "grad_a", {context.gradient(0), context.input(1)})[0];
    if (context.wants(0)) context.contribute(0, summed_to_input(context, 0, da));
    if (!context.wants(1)) return;
    const ValueId product = context.emit("mul", "product", {da, context.output(0)})[0];
    const ValueId sum = summed_to_input(context, 1, product);
    context.contribute(1, context.emit("affine", "grad_b", {sum}, {{"scale", -1.0}})[0]);
  }
};

}  // namespace

void define_div(OpList& list) {
  static const Divide div;
  list.push_back(&div);
}

}  // namespace outsize
