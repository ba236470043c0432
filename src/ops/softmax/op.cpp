#include "ops/registry.h"
#include "ops/softmax/op_softmax.h"

namespace outsize {
namespace {

class Softmax final : public SoftmaxForward {
 public:
  std::string_view kind() const override { return "softmax"; }
  std::string_view help() const override { return "y = e^x / Σ e^x along an axis"; }
};

class SoftmaxGrad final : public SoftmaxBackward {
 public:
  std::string_view kind() const override { return "softmax_grad"; }
  std::string_view help() const override { return "the gradient of softmax, from its result"; }
};

}  // namespace

void define_softmax(OpList& list) {
  static const Softmax forward;
  static const SoftmaxGrad grad;
  list.insert(list.end(), {&forward, &grad});
}

}  // namespace outsize
