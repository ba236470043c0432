#include "base/philox.h"
#include "ops/dropout/dropout.h"
#include "ops/reference_support.h"

namespace outsize {
namespace {

void dropout(const ReferenceCall& call) {
  const auto key = call.in<std::int32_t>(1);
  const auto word = [&](std::int64_t i) { return static_cast<std::uint32_t>(key(i)); };
  const std::uint64_t threshold = dropout_threshold(call.site().number("p"));
  const auto stream = static_cast<std::uint32_t>(call.site().integer("stream"));
  const Dims& shape = call.in_type(0).shape;
  const int dims = call.site().word("unit") == "sample" ? 1 : shape.rank();  // that tell units apart
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const T scale = static_cast<T>(1 / (1 - call.site().number("p")));
    const auto x = call.in<T>(0);
    const auto y = call.out<T>(0);
    y.for_each([&](const Dims& at) {
      std::uint64_t index = 0;
      for (int dim = 0; dim < dims; ++dim)
        index = index * static_cast<std::uint64_t>(shape[dim]) + static_cast<std::uint64_t>(at[dim]);
      const std::uint64_t block = index / 4;
      const auto words =
          philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), stream, word(2)}, {word(0), word(1)});
      y[at] = words[index % 4] >= threshold ? x[at] * scale : T{0};
    });
    y.clear_padding();
  });
}

}  // namespace

void reference_dropout(KernelTable& table) { table.add("dropout", reference_kernel<dropout>); }

}  // namespace outsize
