#include "ops/pointwise.h"

namespace outsize {

namespace {

void check_approximation(const OpSite& site) {
  const std::string& word = site.word("approximate");
  if (word != "none" && word != "tanh") user_error("attribute approximate must be none or tanh, found {}", word);
}

}  // namespace

void define_gelu(OpList& list) {
  static const PointwiseSpec spec{
      .kind = "gelu",
      .help = "y = x * (the normal distribution function of x), element by element",
      .gradient_kind = "gelu_grad",
      .gradient_help = "the gradient of gelu, from x",
      .from = GradientFrom::x,
      .attributes = {{"approximate", std::string("none"), "none, or tanh: by 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))"}},
      .check = check_approximation};
  static const Pointwise gelu(spec);
  static const PointwiseGrad gelu_grad(spec);
  list.insert(list.end(), {&gelu, &gelu_grad});
}

}  // namespace outsize
