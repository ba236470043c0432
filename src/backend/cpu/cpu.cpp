#include "backend/cpu/cpu.h"

#include <omp.h>

#include "backend/f32_only.h"
#include "backend/host_memory.h"
#include "ops/cpu_support.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class Cpu final : public HostBackend {
 public:
  explicit Cpu(int threads) : HostBackend(cpu_kernels(), cpu_storage(), threads, cpu_alternatives()) {}

  std::string libraries() const override { return cpu_libraries(); }

  // f64 occurs here only as statistics, which the kernels that make and read them know by themselves.
  bool supports(DType dtype) const override { return dtype != DType::f64; }

  // oneDNN's descriptors divide by sizes that they reckon in 32 bits.
  std::int64_t most_elements() const override { return std::numeric_limits<std::uint32_t>::max(); }

  void release_kernels() override {
    HostBackend::release_kernels();
    forget_primitives();
  }

  using HostBackend::kernel;
  std::shared_ptr<const Kernel> kernel(const Call& call, Lane lane, std::string_view name) override {
    if (!takes(call))
      user_error(
          "op {}: a value of it has more than the {} elements that the cpu backend takes in one call; choose a planner that "
          "tiles (2ps-h, overl-h)",
          call.site.op.name, most_elements());
    expect_f32(call, this->name());
    return HostBackend::kernel(call, lane, name);
  }
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  if (threads > 0) omp_set_num_threads(threads);
  return std::make_unique<Cpu>(threads > 0 ? threads : omp_get_max_threads());
}

}  // namespace outsize
