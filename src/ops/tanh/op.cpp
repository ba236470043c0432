#include "ops/pointwise.h"

namespace outsize {

void define_tanh(OpList& list) {
  static const PointwiseSpec spec{.kind = "tanh",
                                  .help = "y = tanh(x), element by element",
                                  .gradient_kind = "tanh_grad",
                                  .gradient_help = "the gradient of tanh: dx = dy * (1 - y * y)",
                                  .from = GradientFrom::y};
  static const Pointwise tanh(spec);
  static const PointwiseGrad tanh_grad(spec);
  list.insert(list.end(), {&tanh, &tanh_grad});
}

}  // namespace outsize
