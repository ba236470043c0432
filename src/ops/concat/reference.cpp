#include "ops/reference_movement.h"

namespace outsize {
namespace {

void concat(const ReferenceCall& call) {
  dispatch_moved(call.in_type(0).dtype, [&]<class T>() {
    const View<T> y = call.out<T>(0);
    const int axis = static_cast<int>(call.site().integer("axis"));
    y.clear();
    std::int64_t offset = 0;
    for (int i = 0; i < call.site().inputs(); ++i) {
      const View<const T> x = call.in<T>(i);
      x.for_each([&](const Dims& p) {
        Dims to = p;
        to[axis] += offset;
        if (y.holds(to)) y[to] = x[p];
      });
      offset += call.in_type(i).shape[axis];
    }
  });
}

void split(const ReferenceCall& call) {
  dispatch_moved(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> x = call.in<T>(0);
    const int axis = static_cast<int>(call.site().integer("axis"));
    std::int64_t offset = 0;
    for (int i = 0; i < call.site().outputs(); ++i) {
      const View<T> part = call.out<T>(i);
      part.for_each([&](const Dims& p) {
        Dims from = p;
        from[axis] += offset;
        part[p] = x.holds(from) ? x[from] : T{0};
      });
      part.clear_padding();
      offset += call.out_type(i).shape[axis];
    }
  });
}

}  // namespace

void reference_concat(KernelTable& table) {
  table.add("concat", reference_kernel<concat>);
  table.add("split", reference_kernel<split>);
}

}  // namespace outsize
