#pragma once

#include <array>
#include <vector>

#include "backend/cuda/runtime.h"
#include "backend/queues.h"

namespace outsize {

// Streams of a card. Device lanes wait for each other by events; they and the lanes of the host wait for each other by counters in
// pinned memory, which streams write and wait for by themselves.
class CardQueues final : public Queues {
 public:
  CardQueues();
  ~CardQueues() override;
  CardQueues(const CardQueues&) = delete;
  CardQueues& operator=(const CardQueues&) = delete;

  cudaStream_t stream(Lane lane) const { return streams_[static_cast<std::size_t>(lane)]; }
  void* queue(Lane lane) const override { return stream(lane); }
  void begin_step() override;
  void mark(Lane lane, std::int64_t count, bool for_host) override;
  void wait(Lane lane, Lane on, std::int64_t count) override;
  void complete(Lane lane, std::int64_t count) override;
  bool await(Lane lane, std::int64_t count, const std::atomic<bool>& stop) const override;
  void release() override;
  void finish() override;
  void stamp(Lane lane, std::int64_t number) override;
  double seconds(std::int64_t number) const override;
  std::int64_t stamps() const override { return kMostStamps; }

 private:
  static constexpr int kQueues = 3;  // the first three lanes
  static constexpr std::size_t kRing = 64;
  static constexpr std::int64_t kMostStamps = 200'000;
  static_assert(static_cast<int>(Lane::compute) < kQueues && static_cast<int>(Lane::copy_in) < kQueues &&
                static_cast<int>(Lane::copy_out) < kQueues);

  // The last marks of a lane, the oldest overwritten first.
  struct Marks {
    std::array<cudaEvent_t, kRing> events{};
    std::array<std::int64_t, kRing> counts{};
    std::size_t made = 0;  // in this step
  };

  // The event of the earliest mark that is left with at least so many instructions; one that is made now where there is none.
  cudaEvent_t event_of(Lane lane, std::int64_t count);
  volatile std::uint32_t& counter(Lane lane) const { return counters_[static_cast<std::size_t>(lane) * kCounterStride]; }

  static constexpr std::size_t kCounterStride = 16;  // of a cache line
  std::array<cudaStream_t, kQueues> streams_{};
  std::array<Marks, kQueues> marks_;
  std::array<std::array<std::int64_t, kLanes>, kQueues> waited_{};  // by lane: for how many instructions of each other
  std::uint32_t* counters_ = nullptr;                               // pinned: instructions done, by lane
  cudaEvent_t step_begin_ = nullptr;
  std::vector<cudaEvent_t> stamps_;
  decltype(&cuStreamWaitValue32) wait_value_ = nullptr;
  decltype(&cuStreamWriteValue32) write_value_ = nullptr;
};

}  // namespace outsize
