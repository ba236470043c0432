#include "backend/cpu/cpu.h"
#include "backend/cuda/cuda_host.h"
#include "backend/reference/reference.h"

namespace outsize {

std::unique_ptr<Backend> make_backend(std::string_view name, int threads) {
  if (name == "reference") return make_reference_backend();
  if (name == "cpu") return make_cpu_backend(threads);
  if (name == "cuda-host") return make_cuda_host_backend();
  user_error("there is no backend '{}'; this build has reference, cpu and cuda-host", name);
}

}  // namespace outsize
