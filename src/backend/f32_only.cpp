#include "backend/f32_only.h"

#include <algorithm>

namespace outsize {

void expect_f32(const Call& call, std::string_view backend) {
  const auto refuse = [&](ValueId id) {
    const Value& value = call.site.graph.value(id);
    if (value.type.dtype == DType::f64 && value.role != Role::statistic && value.role != Role::input)
      user_error("op {}: value {} is f64, but the {} backend computes in f32; use --backend reference for f64", call.site.op.name,
                 value.name, backend);
  };
  std::ranges::for_each(call.site.op.inputs, refuse);
  std::ranges::for_each(call.site.op.outputs, refuse);
}

}  // namespace outsize
