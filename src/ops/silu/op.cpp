#include "ops/pointwise.h"

namespace outsize {

void define_silu(OpList& list) {
  static const PointwiseSpec spec{.kind = "silu",
                                  .help = "y = x / (1 + e^-x), element by element",
                                  .gradient_kind = "silu_grad",
                                  .gradient_help = "the gradient of silu, from x",
                                  .from = GradientFrom::x};
  static const Pointwise silu(spec);
  static const PointwiseGrad silu_grad(spec);
  list.insert(list.end(), {&silu, &silu_grad});
}

}  // namespace outsize
