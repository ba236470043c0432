#include "ops/pointwise.h"

namespace outsize {

void define_power(OpList& list) {
  static const PointwiseSpec spec{.kind = "power",
                                  .help = "y = x^exponent, element by element; x > 0 unless the exponent is an integer",
                                  .gradient_kind = "power_grad",
                                  .gradient_help = "the gradient of power: dx = dy * exponent * x^(exponent - 1)",
                                  .from = GradientFrom::x,
                                  .attributes = {{"exponent", 1.0, "the exponent"}}};
  static const Pointwise power(spec);
  static const PointwiseGrad power_grad(spec);
  list.insert(list.end(), {&power, &power_grad});
}

}  // namespace outsize
