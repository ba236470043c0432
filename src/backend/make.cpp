#include <algorithm>

#include "backend/cpu/cpu.h"
#include "backend/cuda/cuda_host.h"
#include "backend/reference/reference.h"
#if OUTSIZE_WITH_CUDA
#include "backend/cuda/card.h"
#endif

namespace outsize {

std::vector<std::string> backend_names() {
  std::vector<std::string> names{"cpu", "reference", "cuda-host"};
#if OUTSIZE_WITH_CUDA
  if (card_is_here()) names.insert(names.begin(), "cuda");
#endif
  return names;
}

std::unique_ptr<Backend> make_backend(std::string_view name, int threads, [[maybe_unused]] bool tf32) {
  if (name == "reference") return make_reference_backend();
  if (name == "cpu") return make_cpu_backend(threads);
  if (name == "cuda-host") return make_cuda_host_backend();
#if OUTSIZE_WITH_CUDA
  if (name == "cuda") return make_cuda_backend(threads, tf32);
#else
  if (name == "cuda") user_error("--backend cuda: this build has none; it takes nvcc, cuDNN from 9.8 on and cuBLASLt to build it");
#endif
  user_error("there is no backend '{}'; this build has reference, cpu{} and cuda-host", name, OUTSIZE_WITH_CUDA ? ", cuda" : "");
}

}  // namespace outsize
