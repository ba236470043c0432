#include "ops/broadcast.h"

namespace outsize {
namespace {

class Subtract final : public BroadcastOp {
 public:
  std::string_view kind() const override { return "sub"; }
  std::string_view help() const override { return "y = a - b, element by element; extents of 1 are broadcast"; }

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (context.wants(0)) context.contribute(0, summed_to_input(context, 0, dy));
    if (context.wants(1))
      context.contribute(1, context.emit("affine", "negate", {summed_to_input(context, 1, dy)}, {{"scale", -1.0}})[0]);
  }
};

}  // namespace

void define_sub(OpList& list) {
  static const Subtract sub;
  list.push_back(&sub);
}

}  // namespace outsize
