#include "ops/plain_rows.h"
#include "ops/reference_support.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// The id of the row that an element is in.
std::int64_t id_at(const View<const std::int32_t>& ids, const Dims& element) {
  return ids[Dims(std::span(element.begin(), element.end() - 1))];
}

void embedding(const ReferenceCall& call) {
  dispatch(call.in_type(1).dtype, [&]<class T>() {
    const View<const std::int32_t> ids = call.in<std::int32_t>(0);
    const View<const T> table = call.in<T>(1);
    const View<T> y = call.out<T>(0);
    y.for_each([&](const Dims& p) {
      const Dims entry{id_at(ids, p), last_extent(p)};
      y[p] = table.holds(entry) ? table[entry] : T{0};
    });
  });
}

void embedding_grad(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> dy = call.in<T>(0);
    const View<const std::int32_t> ids = call.in<std::int32_t>(1);
    const View<T> dtable = call.out<T>(0);
    dtable.clear();
    dy.for_each([&](const Dims& p) {
      const Dims entry{id_at(ids, p), last_extent(p)};
      if (dtable.holds(entry)) dtable[entry] += dy[p];
    });
  });
}

}  // namespace

void reference_embedding(KernelTable& table) {
  table.add("embedding", reference_kernel<embedding>);
  table.add("embedding_grad", reference_kernel<embedding_grad>);
}

}  // namespace outsize
