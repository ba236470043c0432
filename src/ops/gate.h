#pragma once

#include "ops/expect.h"

namespace outsize {

// For OpDef::gradient of an op whose gates_gradient() is true: the gradient of what its relu reads. That is the gradient of output
// 0 where it has been gated already, and else the result of a relu_grad named "<op>.<suffix>" that is emitted here.
inline ValueId gated_gradient(GradientContext& context, std::string_view suffix) {
  const ValueId dy = context.gradient(0);
  return context.gated() ? dy : context.emit("relu_grad", suffix, {dy, context.output(0)})[0];
}

}  // namespace outsize
