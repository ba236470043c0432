#include "ops/logits.h"
#include "ops/reference_support.h"

namespace outsize {
namespace {

void correct_count(const ReferenceCall& call) {
  const int dim = class_dim(call.in_type(kLogits));
  const std::int64_t classes = call.in_type(kLogits).shape[dim];
  const std::int64_t k = call.site().integer("k");
  std::int64_t correct = 0;
  dispatch(call.in_type(kLogits).dtype, [&]<class T>() {
    const auto logits = call.in<T>(kLogits);
    const auto labels = call.in<std::int32_t>(kLabels);
    labels.for_each([&](const Dims& row) {
      const std::int64_t label = labels[row];
      if (label < 0 || label >= classes) return;  // ignored
      Dims at;
      for (int i = 0; i < call.in_type(kLogits).shape.rank(); ++i) at.push_back(i == dim ? label : row[i < dim ? i : i - 1]);
      const T own = logits[at];
      std::int64_t larger = 0;
      for (std::int64_t c = 0; c < classes; ++c) {
        at[dim] = c;
        // A NaN is before every number, and before itself: where the label's logit is NaN nothing is correct.
        larger += !(logits[at] < own || (logits[at] == own && c >= label));
      }
      correct += larger < k;
    });
  });
  call.out<double>(0)(std::int64_t{0}) = static_cast<double>(correct);
}

}  // namespace

void reference_correct_count(KernelTable& table) { table.add("correct_count", reference_kernel<correct_count>); }

}  // namespace outsize
