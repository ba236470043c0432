#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "stand_in.h"

// NVIDIA's names, as the backend calls them.
namespace outsize::stand_in {
namespace {

struct Settings {
  std::int64_t cards = 1;
  std::int64_t driver = 13000;
  std::int64_t memory = std::int64_t{768} << 20;
  std::int64_t others = 0;
  std::int64_t pinnable = std::int64_t{1} << 40;
  std::int64_t fails_at = -1;
  std::int64_t seed = 0;
  std::int64_t report = 0;
  std::int64_t pitch = 2147483647;
};

Settings read_settings() {
  Settings settings;
  const std::map<std::string, std::int64_t*> known{
      {"cards", &settings.cards},   {"driver", &settings.driver},     {"memory", &settings.memory},
      {"others", &settings.others}, {"pinnable", &settings.pinnable}, {"fails_at", &settings.fails_at},
      {"seed", &settings.seed},     {"report", &settings.report},     {"pitch", &settings.pitch}};
  const char* const given = std::getenv("OUTSIZE_STAND_IN");
  std::string text = given ? given : "";
  while (!text.empty()) {
    const std::string one = text.substr(0, text.find(','));
    text.erase(0, one.size() + 1);
    const std::size_t equals = one.find('=');
    const auto found = known.find(one.substr(0, equals));
    if (found == known.end() || equals == std::string::npos) {
      std::fprintf(stderr, "OUTSIZE_STAND_IN: '%s' is unknown\n", one.c_str());
      std::abort();
    }
    *found->second = std::stoll(one.substr(equals + 1));
  }
  return settings;
}

const Settings& settings() {
  static const Settings read = read_settings();
  return read;
}

// What the driver takes for itself.
constexpr std::int64_t kContext = std::int64_t{500} << 20;
constexpr std::int64_t kPage = std::int64_t{2} << 20;

class Stream;

// Everything that threads share. It is never destroyed: streams of the backend may end after it.
struct Card {
  std::mutex mutex;
  std::condition_variable changed;
  bool gone = false;
  Counts counts;
  std::map<std::int64_t, std::int64_t> allocated;   // bytes by offset
  std::map<const std::byte*, std::int64_t> pinned;  // bytes by address
  std::byte* addresses = nullptr;                   // of the card, which nobody can follow
  std::byte* memory = nullptr;                      // what lies there

  Card() {
    const auto map = [](int protection) {
      void* const found = mmap(nullptr, static_cast<std::size_t>(settings().memory), protection,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (found == MAP_FAILED) std::abort();
      return static_cast<std::byte*>(found);
    };
    addresses = map(PROT_NONE);
    memory = map(PROT_READ | PROT_WRITE);
    if (settings().report != 0)
      std::atexit([] { std::fprintf(stderr, "stand-in: %lld works\n", static_cast<long long>(stand_in::counts().works)); });
  }
  std::int64_t taken() const {
    std::int64_t total = kContext + settings().others;
    for (const auto& [offset, bytes] : allocated) total += bytes;
    return total;
  }
  bool is_pinned(const std::byte* from, std::int64_t bytes) const {
    const auto after = pinned.upper_bound(from);
    if (after == pinned.begin()) return false;
    const auto& [begin, size] = *std::prev(after);
    return from + bytes <= begin + size;
  }
};

Card& card() {
  static Card& one = *new Card();
  return one;
}

bool on_card(const void* address) {
  const auto* const at = static_cast<const std::byte*>(address);
  return at >= card().addresses && at < card().addresses + settings().memory;
}

// An event, or a word that is waited for, is looked at again at every change, and at least so often.
constexpr auto kLook = std::chrono::microseconds(50);

class Stream {
 public:
  Stream() : random_(static_cast<unsigned>(settings().seed) * 7919U + ++number()), thread_([this] { serve(); }) {}
  ~Stream() {
    {
      const std::lock_guard lock(card().mutex);
      ends_ = true;
    }
    card().changed.notify_all();
    thread_.join();
  }

  void put(std::function<void()> work) {
    {
      const std::lock_guard lock(card().mutex);
      works_.push_back(std::move(work));
    }
    card().changed.notify_all();
  }
  // Returns when it is empty, or the card is gone.
  void wait() {
    std::unique_lock lock(card().mutex);
    card().changed.wait(lock, [&] { return card().gone || (works_.empty() && !busy_); });
  }

 private:
  static unsigned& number() {
    static unsigned streams = 0;
    return streams;
  }
  void serve() {
    std::unique_lock lock(card().mutex);
    while (true) {
      card().changed.wait(lock, [this] { return ends_ || !works_.empty(); });
      if (works_.empty()) return;
      const std::function<void()> work = std::move(works_.front());
      works_.pop_front();
      busy_ = true;
      const bool runs = !card().gone;
      lock.unlock();
      if (runs) {
        // Now and then long enough for others to overtake.
        if (settings().seed != 0 && random_() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 400));
        work();
      }
      lock.lock();
      busy_ = false;
      card().changed.notify_all();
    }
  }

  std::deque<std::function<void()>> works_;
  bool busy_ = false;
  bool ends_ = false;
  std::minstd_rand random_;
  std::thread thread_;
};

struct Event {
  std::int64_t recorded = 0;  // how often it was put into a stream
  std::int64_t reached = 0;   // the last of these that is done
  std::chrono::steady_clock::time_point at;
};

Stream* stream_of(void* stream) { return static_cast<Stream*>(stream); }
Event* event_of(cudaEvent_t event) { return reinterpret_cast<Event*>(event); }

// The error that every call has from when the card is gone.
cudaError_t state() {
  const std::lock_guard lock(card().mutex);
  return card().gone ? cudaErrorLaunchFailure : cudaSuccess;
}

cudaError_t count_wait() {
  const std::lock_guard lock(card().mutex);
  ++card().counts.waits;
  return card().gone ? cudaErrorLaunchFailure : cudaSuccess;
}

void count_copy(const void* from, const void* to, std::int64_t bytes) {
  if (on_card(from) == on_card(to)) return;
  const auto* const host = static_cast<const std::byte*>(on_card(from) ? to : from);
  const std::lock_guard lock(card().mutex);
  if (!card().is_pinned(host, bytes)) ++card().counts.unpinned_copies;
}

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t fail(cudaError_t error) {
  last_error = error;
  return error;
}

}  // namespace

Counts counts() {
  const std::lock_guard lock(card().mutex);
  return card().counts;
}

void put(void* stream, std::function<void()> work) {
  {
    const std::lock_guard lock(card().mutex);
    if (card().counts.works++ == settings().fails_at) card().gone = true;
    if (card().gone) {
      card().changed.notify_all();
      return;
    }
  }
  if (stream == nullptr) return work();
  stream_of(stream)->put(std::move(work));
}

void wait_for(void* stream) {
  if (stream != nullptr) stream_of(stream)->wait();
}

template <class T>
T* real(T* address) {
  if (address == nullptr || !on_card(address)) return address;
  const auto offset = reinterpret_cast<const std::byte*>(address) - card().addresses;
  return reinterpret_cast<T*>(card().memory + offset);
}
template std::byte* real(std::byte*);
template const std::byte* real(const std::byte*);

}  // namespace outsize::stand_in

namespace {

using namespace outsize::stand_in;

std::size_t most_pitch() { return static_cast<std::size_t>(settings().pitch); }
std::byte* bytes_of(void* memory) { return static_cast<std::byte*>(memory); }
const std::byte* bytes_of(const void* memory) { return static_cast<const std::byte*>(memory); }

CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int) {
  auto* const word = reinterpret_cast<volatile std::uint32_t*>(address);
  stream_of(stream)->put([=] {
    while (static_cast<std::int32_t>(*word - value) < 0) {
      if (state() != cudaSuccess) return;
      std::this_thread::sleep_for(kLook);
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
  });
  return state() == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

CUresult write_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int) {
  auto* const word = reinterpret_cast<volatile std::uint32_t*>(address);
  stream_of(stream)->put([=] {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    *word = value;
  });
  return state() == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(settings().cards);
  if (settings().driver == 0 || settings().driver < CUDART_VERSION / 1000 * 1000) return fail(cudaErrorInsufficientDriver);
  return *count > 0 ? state() : fail(cudaErrorNoDevice);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = static_cast<int>(settings().driver);
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return state(); }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorInvalidPitchValue: return "invalid pitch argument";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorNotReady: return "device not ready";
    default: return "another error";
  }
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "stand-in card");
  properties->totalGlobalMem = static_cast<std::size_t>(settings().memory);
  properties->major = 9;
  properties->multiProcessorCount = 4;
  properties->asyncEngineCount = 2;
  properties->l2CacheSize = 1 << 20;
  properties->memPitch = static_cast<std::size_t>(settings().pitch);
  return state();
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrGlobalMemoryBusWidth ? 256 : 1'000'000;
  return state();
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(card().mutex);
  *total = static_cast<std::size_t>(settings().memory);
  *free = static_cast<std::size_t>(std::max<std::int64_t>(settings().memory - card().taken(), 0));
  return card().gone ? cudaErrorLaunchFailure : cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t size) {
  const std::lock_guard lock(card().mutex);
  if (card().gone) return fail(cudaErrorLaunchFailure);
  const auto bytes = static_cast<std::int64_t>((size + kPage - 1) / kPage * kPage);
  if (card().taken() + bytes > settings().memory) return fail(cudaErrorMemoryAllocation);
  std::int64_t at = 0;
  for (const auto& [offset, taken] : card().allocated) {
    if (at + bytes <= offset) break;
    at = offset + taken;
  }
  card().allocated[at] = bytes;
  card().counts.allocations.push_back(static_cast<std::int64_t>(size));
  *memory = card().addresses + at;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return state();
  const std::lock_guard lock(card().mutex);
  const auto found = card().allocated.find(bytes_of(memory) - card().addresses);
  if (found == card().allocated.end()) return fail(cudaErrorInvalidValue);
  madvise(card().memory + found->first, static_cast<std::size_t>(found->second), MADV_DONTNEED);
  card().allocated.erase(found);
  return card().gone ? fail(cudaErrorLaunchFailure) : cudaSuccess;
}
cudaError_t cudaHostRegister(void* memory, std::size_t size, unsigned int) {
  const std::lock_guard lock(card().mutex);
  std::int64_t total = static_cast<std::int64_t>(size);
  for (const auto& [at, bytes] : card().pinned) total += bytes;
  if (total > settings().pinnable) return fail(cudaErrorMemoryAllocation);
  card().pinned[bytes_of(memory)] = static_cast<std::int64_t>(size);
  card().counts.pinned.push_back(static_cast<std::int64_t>(size));
  return card().gone ? fail(cudaErrorLaunchFailure) : cudaSuccess;
}
cudaError_t cudaHostUnregister(void* memory) {
  const std::lock_guard lock(card().mutex);
  return card().pinned.erase(bytes_of(memory)) == 1 ? cudaSuccess : fail(cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t size, unsigned int flags) {
  *memory = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  return cudaHostRegister(*memory, size, flags);
}
cudaError_t cudaFreeHost(void* memory) {
  const cudaError_t error = cudaHostUnregister(memory);
  std::free(memory);
  return error;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
  {
    const std::lock_guard lock(card().mutex);
    ++card().counts.made;
  }
  *stream = reinterpret_cast<cudaStream_t>(new Stream());
  return state();
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream_of(stream);
  return state();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  count_wait();
  wait_for(stream);
  return state();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  Event* const awaited = event_of(event);
  std::int64_t recorded = 0;
  {
    const std::lock_guard lock(card().mutex);
    recorded = awaited->recorded;
  }
  stream_of(stream)->put([=] {
    std::unique_lock lock(card().mutex);
    card().changed.wait(lock, [&] { return card().gone || awaited->reached >= recorded; });
  });
  return state();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  const std::lock_guard lock(card().mutex);
  ++card().counts.made;
  *event = reinterpret_cast<cudaEvent_t>(new Event());
  return card().gone ? fail(cudaErrorLaunchFailure) : cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event_of(event);
  return state();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Event* const made = event_of(event);
  std::int64_t number = 0;
  {
    const std::lock_guard lock(card().mutex);
    number = ++made->recorded;
  }
  stream_of(stream)->put([=] {
    {
      const std::lock_guard lock(card().mutex);
      made->reached = number;
      made->at = std::chrono::steady_clock::now();
    }
    card().changed.notify_all();
  });
  return state();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  count_wait();
  std::unique_lock lock(card().mutex);
  card().changed.wait(lock, [&] { return card().gone || event_of(event)->reached >= event_of(event)->recorded; });
  return card().gone ? fail(cudaErrorLaunchFailure) : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const std::lock_guard lock(card().mutex);
  if (card().gone) return fail(cudaErrorLaunchFailure);
  for (const Event* event : {event_of(begin), event_of(end)})
    if (event->recorded == 0 || event->reached < event->recorded) return fail(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(event_of(end)->at - event_of(begin)->at).count();
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t size, cudaStream_t stream) {
  if (!on_card(memory)) {
    const std::lock_guard lock(card().mutex);
    if (!card().is_pinned(bytes_of(memory), static_cast<std::int64_t>(size))) return fail(cudaErrorInvalidValue);
  }
  put(stream, [=] { std::memset(real(bytes_of(memory)), value, size); });
  return state();
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size, cudaMemcpyKind, cudaStream_t stream) {
  count_copy(from, to, static_cast<std::int64_t>(size));
  put(stream, [=] { std::memcpy(real(bytes_of(to)), real(bytes_of(from)), size); });
  return state();
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                              std::size_t height, cudaMemcpyKind, cudaStream_t stream) {
  if (to_pitch < width || from_pitch < width || to_pitch > most_pitch() || from_pitch > most_pitch())
    return fail(cudaErrorInvalidPitchValue);
  const auto spanned = [&](std::size_t pitch) { return static_cast<std::int64_t>(pitch * (height - 1) + width); };
  count_copy(from, to, spanned(on_card(from) ? to_pitch : from_pitch));
  put(stream, [=] {
    for (std::size_t row = 0; row < height; ++row)
      std::memcpy(real(bytes_of(to)) + row * to_pitch, real(bytes_of(from)) + row * from_pitch, width);
  });
  return state();
}
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* box, cudaStream_t stream) {
  for (const cudaPitchedPtr* side : {&box->srcPtr, &box->dstPtr}) {
    if (side->pitch < box->extent.width || side->pitch > most_pitch()) return fail(cudaErrorInvalidPitchValue);
    if (side->ysize < box->extent.height) return fail(cudaErrorInvalidValue);
  }
  const cudaMemcpy3DParms copied = *box;
  put(stream, [copied] {
    const auto plane = [&](const cudaPitchedPtr& side, std::size_t depth) {
      return real(bytes_of(side.ptr)) + depth * side.ysize * side.pitch;
    };
    for (std::size_t depth = 0; depth < copied.extent.depth; ++depth)
      for (std::size_t row = 0; row < copied.extent.height; ++row)
        std::memcpy(plane(copied.dstPtr, depth) + row * copied.dstPtr.pitch,
                    plane(copied.srcPtr, depth) + row * copied.srcPtr.pitch, copied.extent.width);
  });
  return state();
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned int, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const std::string_view asked = name;
  *found = asked == "cuStreamWaitValue32"    ? reinterpret_cast<void*>(&wait_value)
           : asked == "cuStreamWriteValue32" ? reinterpret_cast<void*>(&write_value)
                                             : nullptr;
  *result = *found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return state();
}

}  // extern "C"
