#include "ops/reference_support.h"

namespace outsize {
namespace {

void label_count(const ReferenceCall& call) {
  const auto labels = call.in<std::int32_t>(0);
  const std::int64_t ignored = call.site().integer("ignore_index");
  std::int64_t count = 0;
  labels.for_each([&](const Dims& at) { count += labels[at] != ignored; });
  dispatch(call.out_type(0).dtype, [&]<class T>() { call.out<T>(0)(std::int64_t{0}) = static_cast<T>(count); });
}

}  // namespace

void reference_label_count(KernelTable& table) { table.add("label_count", reference_kernel<label_count>); }

}  // namespace outsize
