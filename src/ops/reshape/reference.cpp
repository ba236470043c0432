#include "ops/reference_movement.h"

namespace outsize {
namespace {

// The position in a value of `to` that has the same place in row-major order as `position` in one of `from`.
Dims same_place(const Dims& position, const Dims& from, const Dims& to) {
  std::int64_t place = 0;
  for (int dim = 0; dim < from.rank(); ++dim) place = place * from[dim] + position[dim];
  Dims found = to;
  for (int dim = to.rank() - 1; dim >= 0; --dim) {
    found[dim] = place % to[dim];
    place /= to[dim];
  }
  return found;
}

void reshape(const ReferenceCall& call) {
  dispatch_moved(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> x = call.in<T>(0);
    const View<T> y = call.out<T>(0);
    y.for_each([&](const Dims& p) {
      const Dims from = same_place(p, call.out_type(0).shape, call.in_type(0).shape);
      y[p] = x.holds(from) ? x[from] : T{0};
    });
    y.clear_padding();
  });
}

}  // namespace

void reference_reshape(KernelTable& table) { table.add("reshape", reference_kernel<reshape>); }

}  // namespace outsize
