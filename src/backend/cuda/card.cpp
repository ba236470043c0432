#include "backend/cuda/card.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "backend/cuda/card_queues.h"
#include "backend/f32_only.h"
#include "backend/host_memory.h"
#include "backend/kernel_cache.h"
#include "base/bytes.h"
#include "ops/cpu_support.h"
#include "ops/cuda/library/convolution.h"
#include "ops/cuda/memory.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// What modules, handles and other programs may still take of a card beside an arena that has "all that is free".
constexpr std::int64_t kLeftOnCard = std::int64_t{192} << 20;

int attribute(cudaDeviceAttr what) {
  int value = 0;
  expect_card(cudaDeviceGetAttribute(&value, what, 0), "it was described");
  return value;
}

// Multiply-adds that a multiprocessor begins in a clock, by the card's architecture: in f32, and of factors in TF32 (NVIDIA's
// whitepapers of each; consumer cards multiply TF32 no faster than f32).
struct Rates {
  int major, minor;
  double f32, tf32;
};
constexpr Rates kRates[]{{8, 0, 64, 512},   {8, 6, 128, 128},   {8, 9, 128, 128},
                         {9, 0, 128, 1024}, {10, 0, 128, 1024}, {12, 0, 128, 128}};

// Of the driver that is loaded, as it names itself; "unknown" where the system does not say.
std::string driver_version() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string version;
  return file >> version ? version : "unknown";
}

class Card final : public Backend {
 public:
  Card(int threads, bool tf32)
      : threads_(threads),
        tf32_(tf32),
        kernels_(cuda_kernels(tf32), storage(), cuda_alternatives(tf32)),
        host_kernels_(cpu_kernels(), cpu_storage(), cpu_alternatives()) {
    expect_card(cudaSetDevice(0), "it was opened");
    expect_card(cudaFree(nullptr), "it was opened");
    expect_card(cudaGetDeviceProperties(&properties_, 0), "it was described");
    queues_ = std::make_unique<CardQueues>();
    expect_card(cudaHostAlloc(reinterpret_cast<void**>(&found_), kScanResults * sizeof(std::int64_t), cudaHostAllocMapped),
                "it was opened");
    for (cudaEvent_t* event : {&begin_, &end_}) expect_card(cudaEventCreate(event), "it was opened");
  }
  ~Card() override {
    cudaFreeHost(found_);
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }

  std::string_view name() const override { return "cuda"; }
  std::string libraries() const override {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    return fmt::format("{}, driver {} for CUDA {}.{}, {}, {}", properties_.name, driver_version(), driver / 1000,
                       driver % 1000 / 10, cudnn_name(), tf32_ ? "tf32" : "f32");
  }
  StorageRule storage() const override { return {.channels_last = true}; }
  bool supports(DType dtype) const override { return dtype != DType::f64; }
  int threads() const override { return threads_; }
  std::int64_t free_bytes() const override {
    std::size_t free = 0, total = 0;
    expect_card(cudaMemGetInfo(&free, &total), "its free memory was asked for");
    return std::max<std::int64_t>(static_cast<std::int64_t>(free) - kLeftOnCard, 0);
  }

  std::int64_t outside_bytes() const override {
    std::size_t free = 0, total = 0;
    expect_card(cudaMemGetInfo(&free, &total), "its free memory was asked for");
    return static_cast<std::int64_t>(total - free) - allocated_;
  }

  using Backend::kernel;
  std::shared_ptr<const Kernel> kernel(const Call& call, Lane lane, std::string_view name) override {
    expect_f32(call, this->name());
    return lane == Lane::host ? host_kernels_.get(call, name) : kernels_.get(call, name);
  }
  std::vector<Alternative> alternatives(const Call& call) override { return kernels_.alternatives(call); }
  void release_kernels() override {
    kernels_.release_unused();
    host_kernels_.release_unused();
  }

  std::byte* allocate(Tier tier, std::int64_t bytes) override {
    if (tier == Tier::host) return pinned(map_pages(bytes, "host"), bytes);
    void* memory = nullptr;
    if (cudaMalloc(&memory, static_cast<std::size_t>(bytes)) != cudaSuccess) {
      cudaGetLastError();  // forgotten: it is answered
      std::size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      user_error(
          "cannot get {} ({} bytes) of the card's memory: {} of its {} are free; give a smaller --memory, or end what else uses it",
          format_bytes(bytes), bytes, format_bytes(static_cast<std::int64_t>(free)),
          format_bytes(static_cast<std::int64_t>(total)));
    }
    allocated_ += bytes;
    fill(tier, static_cast<std::byte*>(memory), bytes, std::byte{0});
    return static_cast<std::byte*>(memory);
  }
  std::byte* reallocate(Tier tier, std::byte* memory, std::int64_t bytes, std::int64_t wanted) override {
    if (tier == Tier::host) {
      cudaHostUnregister(memory);
      return pinned(remap_pages(memory, bytes, wanted, "host"), wanted);
    }
    // Where the card has no room for both, what is there waits with the host.
    void* moved = nullptr;
    if (cudaMalloc(&moved, static_cast<std::size_t>(wanted)) == cudaSuccess) {
      expect_card(cudaMemcpyAsync(moved, memory, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, compute()),
                  "its memory grew");
      wait_for_all();
      cudaFree(memory);
      allocated_ += wanted - bytes;
    } else {
      cudaGetLastError();
      std::vector<std::byte> kept(static_cast<std::size_t>(bytes));
      download(tier, memory, kept);
      deallocate(tier, memory, bytes);
      moved = allocate(tier, wanted);
      upload(tier, kept, static_cast<std::byte*>(moved));
    }
    fill(tier, static_cast<std::byte*>(moved) + bytes, wanted - bytes, std::byte{0});
    return static_cast<std::byte*>(moved);
  }
  void deallocate(Tier tier, std::byte* memory, std::int64_t bytes) override {
    if (memory == nullptr) return;
    if (tier == Tier::device) {
      cudaFree(memory);
      allocated_ -= bytes;
      return;
    }
    cudaHostUnregister(memory);
    unmap_pages(memory, bytes);
  }

  Queues* queues() override { return queues_.get(); }

  void copy(Lane lane, const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::byte* to) override {
    if (lane == Lane::compute) return card::copy_box(plan, element_bytes, from, to, compute());
    copy_over_link(plan, element_bytes, from, to, queues_->stream(lane));
  }
  void combine(Lane, Combine rule, const CopyPlan& plan, DType dtype, const std::byte* from, std::byte* to) override {
    card::combine_box(rule, plan, dtype, from, to, compute());
  }
  void zero(Lane lane, std::byte* memory, std::int64_t bytes) override {
    expect_card(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), queues_->stream(lane)), "memory was cleared");
  }

  void fill(Tier tier, std::byte* memory, std::int64_t bytes, std::byte byte) override {
    if (tier == Tier::host) return fill_memory(memory, bytes, byte);
    expect_card(cudaMemsetAsync(memory, std::to_integer<int>(byte), static_cast<std::size_t>(bytes), compute()),
                "memory was filled");
    wait_for_all();
  }
  std::int64_t first_other(Tier tier, const std::byte* memory, std::int64_t bytes, std::byte byte) const override {
    if (tier == Tier::host) return first_other_byte(memory, bytes, byte);
    const int parts = scan(memory, bytes, byte, false);
    const auto found = std::find_if(found_, found_ + parts, [](std::int64_t at) { return at >= 0; });
    return found == found_ + parts ? -1 : *found;
  }
  std::int64_t last_other(Tier tier, const std::byte* memory, std::int64_t bytes, std::byte byte) const override {
    if (tier == Tier::host) return last_other_byte(memory, bytes, byte);
    int parts = scan(memory, bytes, byte, true);
    while (parts > 0 && found_[parts - 1] < 0) --parts;
    return parts == 0 ? -1 : found_[parts - 1];
  }
  void upload(Tier tier, std::span<const std::byte> from, std::byte* to) override {
    if (from.empty()) return;
    if (tier == Tier::host) {
      std::memcpy(to, from.data(), from.size());
      return;
    }
    expect_card(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, compute()), "data went to it");
    wait_for_all();
  }
  void download(Tier tier, const std::byte* from, std::span<std::byte> to) const override {
    if (to.empty()) return;
    if (tier == Tier::host) {
      std::memcpy(to.data(), from, to.size());
      return;
    }
    expect_card(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, compute()), "data came from it");
    wait_for_all();
  }
  bool addressable(Tier tier) const override { return tier != Tier::device; }

  // The queue pauses until all of the body is in it, so that the card waits for nothing: how long the host takes for that is known
  // from the body before, as bodies are timed several times.
  double seconds(Lane lane, const std::function<void()>& body) override {
    constexpr double kLeastPause = 3e-5, kMostPause = 2e-3;
    using Clock = std::chrono::steady_clock;
    const cudaStream_t stream = queues_->stream(lane);
    card::pause(std::clamp(2 * issue_seconds_, kLeastPause, kMostPause), stream);
    expect_card(cudaEventRecord(begin_, stream), "an op was timed");
    const auto start = Clock::now();
    body();
    issue_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
    expect_card(cudaEventRecord(end_, stream), "an op was timed");
    expect_card(cudaEventSynchronize(end_), "an op was timed");
    float milliseconds = 0;
    expect_card(cudaEventElapsedTime(&milliseconds, begin_, end_), "an op was timed");
    return static_cast<double>(milliseconds) / 1000;
  }
  std::int64_t cache_bytes() const override { return properties_.l2CacheSize; }

  Device device() override;

 private:
  cudaStream_t compute() const { return queues_->stream(Lane::compute); }
  void wait_for_all() const { expect_card(cudaStreamSynchronize(compute()), "its memory was used"); }
  int scan(const std::byte* memory, std::int64_t bytes, std::byte byte, bool last) const {
    const int parts = card::scan_other(memory, bytes, byte, last, found_, compute());
    wait_for_all();
    return parts;
  }
  std::byte* pinned(std::byte* memory, std::int64_t bytes);
  void copy_over_link(const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::byte* to,
                      cudaStream_t stream) const;

  int threads_;
  bool tf32_;
  cudaDeviceProp properties_{};
  std::unique_ptr<CardQueues> queues_;
  std::int64_t* found_ = nullptr;
  std::int64_t allocated_ = 0;  // bytes of the card's memory that arenas have
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  double issue_seconds_ = 0;  // that the host took to put the last body that was timed into its queue
  KernelCache kernels_;
  KernelCache host_kernels_;  // of ops that run on the host, beside the card
  std::optional<Device> device_;
};

// Pages are touched by all threads first: registering memory that is there takes a tenth of the time of allocating it pinned.
std::byte* Card::pinned(std::byte* memory, std::int64_t bytes) {
  constexpr std::int64_t kPage = 4096;
  std::vector<std::thread> workers;
  const std::int64_t each = align_up((bytes + threads_ - 1) / threads_, kPage);
  for (std::int64_t begin = 0; begin < bytes; begin += each)
    workers.emplace_back([=] {
      for (std::int64_t at = begin; at < std::min(begin + each, bytes); at += kPage) {
        volatile std::byte& touched = memory[at];
        touched = touched;
      }
    });
  for (std::thread& worker : workers) worker.join();
  if (const cudaError_t error = cudaHostRegister(memory, static_cast<std::size_t>(bytes), cudaHostRegisterPortable);
      error != cudaSuccess) {
    cudaGetLastError();
    unmap_pages(memory, bytes);
    user_error("cannot pin {} of host memory: {}; give a smaller --host-memory", format_bytes(bytes), cudaGetErrorString(error));
  }
  return memory;
}

// As few calls as the box allows: loops that one call cannot have are made here. Runs of both sides lie in rising order.
void Card::copy_over_link(const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::byte* to,
                          cudaStream_t stream) const {
  if (plan.length == 0) return;
  std::int64_t counts[CopyPlan::kLoops], from_strides[CopyPlan::kLoops], to_strides[CopyPlan::kLoops];
  int loops = 0;  // that do something, the outermost first
  for (int loop = 0; loop < CopyPlan::kLoops; ++loop) {
    if (plan.count[loop] == 0) return;
    if (plan.count[loop] == 1) continue;
    counts[loops] = plan.count[loop];
    from_strides[loops] = plan.from_stride[loop] * element_bytes;
    to_strides[loops++] = plan.to_stride[loop] * element_bytes;
  }
  from += plan.from * element_bytes;
  to += plan.to * element_bytes;
  const auto width = static_cast<std::size_t>(plan.length * element_bytes);
  // Rows may be so far apart at most that one call takes several; and a third dimension where its strides are whole numbers of
  // rows.
  const auto most = static_cast<std::int64_t>(properties_.memPitch);
  const bool rows = loops >= 1 && from_strides[loops - 1] <= most && to_strides[loops - 1] <= most;
  const bool cube = rows && loops >= 2 && from_strides[loops - 2] % from_strides[loops - 1] == 0 &&
                    to_strides[loops - 2] % to_strides[loops - 1] == 0;
  const int taken = cube ? 2 : rows ? 1 : 0, outer = loops - taken;
  std::int64_t calls = 1;
  for (int loop = 0; loop < outer; ++loop) calls *= counts[loop];
  for (std::int64_t call = 0; call < calls; ++call) {
    const std::byte* source = from;
    std::byte* target = to;
    std::int64_t rest = call;
    for (int loop = outer - 1; loop >= 0; --loop) {
      source += rest % counts[loop] * from_strides[loop];
      target += rest % counts[loop] * to_strides[loop];
      rest /= counts[loop];
    }
    cudaError_t error = cudaSuccess;
    if (taken == 0) {
      error = cudaMemcpyAsync(target, source, width, cudaMemcpyDefault, stream);
    } else if (taken == 1) {
      error = cudaMemcpy2DAsync(target, static_cast<std::size_t>(to_strides[loops - 1]), source,
                                static_cast<std::size_t>(from_strides[loops - 1]), width,
                                static_cast<std::size_t>(counts[loops - 1]), cudaMemcpyDefault, stream);
    } else {
      const auto view = [&](std::byte* memory, const std::int64_t* strides) {
        return make_cudaPitchedPtr(memory, static_cast<std::size_t>(strides[loops - 1]), width,
                                   static_cast<std::size_t>(strides[loops - 2] / strides[loops - 1]));
      };
      cudaMemcpy3DParms box{};
      box.srcPtr = view(const_cast<std::byte*>(source), from_strides);
      box.dstPtr = view(target, to_strides);
      box.extent = make_cudaExtent(width, static_cast<std::size_t>(counts[loops - 1]), static_cast<std::size_t>(counts[loops - 2]));
      box.kind = cudaMemcpyDefault;
      error = cudaMemcpy3DAsync(&box, stream);
    }
    expect_card(error, "data was copied");
  }
}

Device Card::device() {
  if (device_) return *device_;
  Device device;
  device.name = properties_.name;
  device.memory_bytes = static_cast<std::int64_t>(properties_.totalGlobalMem);
  device.host_bytes = std::max<std::int64_t>(available_bytes() - kMostOutside, 0);
  Rates rates{properties_.major, properties_.minor, 128, 128};
  for (const Rates& known : kRates)
    if (std::pair(known.major, known.minor) <= std::pair(properties_.major, properties_.minor)) rates = known;
  // Two operations a multiply-add, at the clock that the card may reach.
  const double clocks = 1e3 * attribute(cudaDevAttrClockRate) * properties_.multiProcessorCount;
  device.flops = 2 * clocks * rates.f32;
  if (tf32_ && rates.tf32 > rates.f32) device.tf32_flops = 2 * clocks * rates.tf32;
  device.bandwidth = 2e3 * attribute(cudaDevAttrMemoryClockRate) * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
  device.full_duplex = properties_.asyncEngineCount >= 2;
  device.disk_out = 1e9;
  device.disk_in = 2e9;
  device.host_bandwidth = 4e10;
  device.launch_seconds = 4e-6;
  device_ = device;
  return device;
}

}  // namespace

bool card_is_here() {
  int count = 0;
  const bool here = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  cudaGetLastError();
  return here;
}

std::unique_ptr<Backend> make_cuda_backend(int threads, bool tf32) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
    cudaGetLastError();
    int driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver == 0) user_error("--backend cuda: this machine has no driver for NVIDIA cards; --backend cpu runs here");
    if (driver < CUDART_VERSION)
      user_error("--backend cuda: the driver here is for CUDA {}.{}, this build needs one for {}.{}; install a newer driver",
                 driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    user_error("--backend cuda: the driver finds no NVIDIA card that this process may use: {}", cudaGetErrorString(error));
  }
  return std::make_unique<Card>(threads > 0 ? threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency())), tf32);
}

}  // namespace outsize
