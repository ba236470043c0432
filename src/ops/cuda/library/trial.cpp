#include "ops/cuda/library/trial.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>

namespace outsize {
namespace {

constexpr int kMostRuns = 5;
constexpr double kLong = 0.005;                               // seconds
constexpr std::int64_t kSpare = std::int64_t{64} << 20;       // what loading kernels takes
constexpr std::int64_t kBusyBytes = std::int64_t{128} << 20;  // more than the card's cache, so that it is cold besides
constexpr int kNumber = 0x3c;                                 // a byte of an f32 near 0.01

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

std::byte* allocate(std::int64_t bytes) {
  std::size_t free = 0, total = 0;
  void* memory = nullptr;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess || bytes + kSpare > static_cast<std::int64_t>(free) ||
      cudaMalloc(&memory, static_cast<std::size_t>(bytes)) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  return static_cast<std::byte*>(memory);
}

}  // namespace

std::unique_ptr<Trial> Trial::make(std::int64_t bytes) {
  auto trial = std::unique_ptr<Trial>(new Trial());
  bytes = std::max<std::int64_t>(bytes, 1);
  trial->memory_ = allocate(bytes);
  if (trial->memory_ == nullptr) return nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, finish = nullptr;
  const bool made = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
                    cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&finish) == cudaSuccess &&
                    cudaMemset(trial->memory_, kNumber, static_cast<std::size_t>(bytes)) == cudaSuccess;
  trial->stream_ = stream;
  trial->begin_ = begin;
  trial->finish_ = finish;
  trial->busy_ = allocate(kBusyBytes);
  return made && cudaDeviceSynchronize() == cudaSuccess ? std::move(trial) : nullptr;
}

Trial::~Trial() {
  if (finish_ != nullptr) cudaEventDestroy(event_of(finish_));
  if (begin_ != nullptr) cudaEventDestroy(event_of(begin_));
  if (stream_ != nullptr) cudaStreamDestroy(stream_of(stream_));
  cudaFree(busy_);
  cudaFree(memory_);
}

std::optional<double> Trial::seconds(const std::function<bool()>& work, double best, const std::function<bool()>& first) {
  const cudaStream_t stream = stream_of(stream_);
  if (!work() || cudaStreamSynchronize(stream) != cudaSuccess) {
    cudaGetLastError();
    return std::nullopt;
  }
  if (first && !first()) return std::nullopt;
  double least = INFINITY;
  for (int i = 0; i < kMostRuns && (i == 0 || least < std::min(1.5 * best, kLong)); ++i) {
    float milliseconds = 0;
    if (busy_ != nullptr) cudaMemsetAsync(busy_, 0, static_cast<std::size_t>(kBusyBytes), stream);
    cudaEventRecord(event_of(begin_), stream);
    if (!work()) return std::nullopt;
    cudaEventRecord(event_of(finish_), stream);
    if (cudaEventSynchronize(event_of(finish_)) != cudaSuccess ||
        cudaEventElapsedTime(&milliseconds, event_of(begin_), event_of(finish_)) != cudaSuccess) {
      cudaGetLastError();
      return std::nullopt;
    }
    least = std::min(least, milliseconds * 1e-3);
  }
  return least;
}

}  // namespace outsize
