#include "ops/pointwise.h"

namespace outsize {

void define_sigmoid(OpList& list) {
  static const PointwiseSpec spec{.kind = "sigmoid",
                                  .help = "y = 1 / (1 + e^-x), element by element",
                                  .gradient_kind = "sigmoid_grad",
                                  .gradient_help = "the gradient of sigmoid: dx = dy * y * (1 - y)"};
  static const Pointwise sigmoid(spec);
  static const PointwiseGrad sigmoid_grad(spec);
  list.insert(list.end(), {&sigmoid, &sigmoid_grad});
}

}  // namespace outsize
