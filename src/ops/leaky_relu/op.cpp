#include "ops/pointwise.h"

namespace outsize {

namespace {

// With a negative slope the sign of y would not tell the sign of x, and the gradient goes by y.
void check_slope(const OpSite& site) {
  if (site.number("slope") < 0) user_error("attribute slope must be at least 0, found {}", site.number("slope"));
}

}  // namespace

void define_leaky_relu(OpList& list) {
  static const PointwiseSpec spec{.kind = "leaky_relu",
                                  .help = "y = x where x >= 0, else slope * x, element by element",
                                  .gradient_kind = "leaky_relu_grad",
                                  .gradient_help = "the gradient of leaky_relu: dx = dy where y > 0, else slope * dy",
                                  .from = GradientFrom::y,
                                  .attributes = {{"slope", 0.01, "the factor on negative elements, at least 0"}},
                                  .check = check_slope};
  static const Pointwise leaky_relu(spec);
  static const PointwiseGrad leaky_relu_grad(spec);
  list.insert(list.end(), {&leaky_relu, &leaky_relu_grad});
}

}  // namespace outsize
