#include "ops/cuda/reduce.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

struct Count {
  std::int64_t value = 0;
  OUTSIZE_BOTH void merge(const Count& other) { value += other.value; }
};

// How many labels are not the ignored one.
struct Others {
  static constexpr int kInputs = 1;
  using Element = std::int32_t;
  struct Factors {
    std::int64_t ignored;
  };
  using Partial = Count;
  struct Run {
    std::int32_t value;
    OUTSIZE_BOTH void start(float) { value = 0; }
    OUTSIZE_BOTH void add(const std::int32_t* label, const Factors& factors) { value += label[0] != factors.ignored; }
    OUTSIZE_BOTH void into(Count& count, int) const { count.merge({value}); }
  };

  std::int64_t ignored;
  OUTSIZE_BOTH Factors factors(int) const { return {ignored}; }
};

template <class T>
struct End {
  T* y;
  OUTSIZE_BOTH void finish(int, const Count& count) const { *y = static_cast<T>(count.value); }
};

std::unique_ptr<Kernel> make_label_count(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const ReduceShape shape = all_of(call.boxes.in[0].elements());
  const Others others{call.site.integer("ignore_index")};
  const bool wide = call.site.out(0).dtype == DType::f64;
  return make_kernel("reduce", reduce_workspace<Others>(shape), [=](const KernelRun& run) {
    const auto start = [&](const auto& end) {
      run_reduce(others, end, {in<std::int32_t>(run, 0)}, shape, run.workspace, run.queue);
    };
    wide ? start(End<double>{out<double>(run, 0)}) : start(End<float>{out<float>(run, 0)});
  });
}

}  // namespace

void cuda_label_count(KernelTable& table) { table.add("label_count", make_label_count); }

}  // namespace outsize::OUTSIZE_PLACE
