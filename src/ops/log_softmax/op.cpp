#include "ops/registry.h"
#include "ops/softmax/op_softmax.h"

namespace outsize {
namespace {

class LogSoftmax final : public SoftmaxForward {
 public:
  std::string_view kind() const override { return "log_softmax"; }
  std::string_view help() const override { return "y = x - log Σ e^x along an axis"; }
};

class LogSoftmaxGrad final : public SoftmaxBackward {
 public:
  std::string_view kind() const override { return "log_softmax_grad"; }
  std::string_view help() const override { return "the gradient of log_softmax, from its result"; }
};

}  // namespace

void define_log_softmax(OpList& list) {
  static const LogSoftmax forward;
  static const LogSoftmaxGrad grad;
  list.insert(list.end(), {&forward, &grad});
}

}  // namespace outsize
