#include "ops/broadcast.h"

namespace outsize {
namespace {

class Add final : public BroadcastOp {
 public:
  std::string_view kind() const override { return "add"; }
  Use use() const override { return Use::add; }
  std::string_view help() const override { return "y = a + b, element by element; extents of 1 are broadcast"; }

  void gradient(GradientContext& context) const override {
    for (int i = 0; i < 2; ++i)
      if (context.wants(i)) context.contribute(i, summed_to_input(context, i, context.gradient(0)));
  }
};

}  // namespace

void define_add(OpList& list) {
  static const Add add;
  list.push_back(&add);
}

}  // namespace outsize
