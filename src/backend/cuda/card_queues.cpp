#include "backend/cuda/card_queues.h"

#include <algorithm>
#include <limits>
#include <thread>

#include "program/schedule.h"

namespace outsize {
namespace {

// A function of the driver, which a machine without a card has not.
template <class F>
F driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  expect_card(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result),
              "its driver was asked for functions");
  if (result != cudaDriverEntryPointSuccess)
    user_error("the driver of the card is too old: it has no {}; install a newer one", name);
  return reinterpret_cast<F>(found);
}

void expect_driver(CUresult result, const char* doing) {
  if (result != CUDA_SUCCESS) user_error("the card failed while {}: driver error {}", doing, static_cast<int>(result));
}

constexpr std::uint32_t kReleased = std::numeric_limits<std::int32_t>::max();

CUdeviceptr address_of(volatile std::uint32_t& counter) {
  return static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(&counter));
}

}  // namespace

CardQueues::CardQueues() {
  wait_value_ = driver_function<decltype(wait_value_)>("cuStreamWaitValue32");
  write_value_ = driver_function<decltype(write_value_)>("cuStreamWriteValue32");
  for (cudaStream_t& stream : streams_)
    expect_card(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "its queues were made");
  for (Marks& marks : marks_)
    for (cudaEvent_t& event : marks.events)
      expect_card(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "its queues were made");
  expect_card(cudaEventCreate(&step_begin_), "its queues were made");
  expect_card(cudaHostAlloc(reinterpret_cast<void**>(&counters_), kLanes * kCounterStride * sizeof(std::uint32_t),
                            cudaHostAllocPortable | cudaHostAllocMapped),
              "its queues were made");
}

CardQueues::~CardQueues() {
  for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  for (const Marks& marks : marks_)
    for (cudaEvent_t event : marks.events) cudaEventDestroy(event);
  for (cudaEvent_t event : stamps_) cudaEventDestroy(event);
  cudaEventDestroy(step_begin_);
  cudaFreeHost(counters_);
}

void CardQueues::begin_step() {
  for (int lane = 0; lane < kLanes; ++lane) counter(static_cast<Lane>(lane)) = 0;
  for (Marks& marks : marks_) marks.made = 0;
  waited_ = {};
  expect_card(cudaEventRecord(step_begin_, stream(Lane::compute)), "a step began");
  // Stamps of every lane come after it.
  for (const Lane lane : {Lane::copy_out, Lane::copy_in})
    expect_card(cudaStreamWaitEvent(stream(lane), step_begin_, 0), "a step began");
}

void CardQueues::mark(Lane lane, std::int64_t count, bool for_host) {
  Marks& marks = marks_[index_of(lane)];
  const std::size_t place = marks.made++ % kRing;
  marks.counts[place] = count;
  expect_card(cudaEventRecord(marks.events[place], stream(lane)), "a step ran");
  if (!for_host) return;
  OUTSIZE_CHECK(count < kReleased);
  expect_driver(write_value_(stream(lane), address_of(counter(lane)), static_cast<cuuint32_t>(count), 0), "a step ran");
}

cudaEvent_t CardQueues::event_of(Lane lane, std::int64_t count) {
  Marks& marks = marks_[index_of(lane)];
  const std::size_t left = std::min(marks.made, kRing);
  // Counts rise from mark to mark: the search goes back from the latest.
  std::size_t found = kRing;
  for (std::size_t back = 1; back <= left; ++back) {
    const std::size_t place = (marks.made - back) % kRing;
    if (marks.counts[place] < count) break;
    found = place;
  }
  if (found < kRing) return marks.events[found];
  mark(lane, count, false);
  return marks.events[(marks.made - 1) % kRing];
}

void CardQueues::wait(Lane lane, Lane on, std::int64_t count) {
  std::int64_t& waited = waited_[index_of(lane)][index_of(on)];
  if (count <= waited) return;
  waited = count;
  if (of_device(on)) return expect_card(cudaStreamWaitEvent(stream(lane), event_of(on, count), 0), "a step ran");
  OUTSIZE_CHECK(count < kReleased);
  expect_driver(wait_value_(stream(lane), address_of(counter(on)), static_cast<cuuint32_t>(count), CU_STREAM_WAIT_VALUE_GEQ),
                "a step ran");
}

void CardQueues::complete(Lane lane, std::int64_t count) {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // what the lane wrote is there before its counter says so
  counter(lane) = static_cast<std::uint32_t>(count);
}

bool CardQueues::await(Lane lane, std::int64_t count, const std::atomic<bool>& stop) const {
  constexpr int kSpins = 100;
  for (int tries = 0; static_cast<std::int64_t>(counter(lane)) < count; ++tries) {
    if (stop) return false;
    if (tries > kSpins) std::this_thread::sleep_for(std::chrono::microseconds(10));
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return true;
}

void CardQueues::release() {
  for (int lane = kQueues; lane < kLanes; ++lane) counter(static_cast<Lane>(lane)) = kReleased;
}

void CardQueues::finish() {
  for (cudaStream_t stream : streams_) expect_card(cudaStreamSynchronize(stream), "a step ran");
}

void CardQueues::stamp(Lane lane, std::int64_t number) {
  if (number >= kMostStamps) return;
  while (static_cast<std::int64_t>(stamps_.size()) <= number) {
    cudaEvent_t event = nullptr;
    expect_card(cudaEventCreate(&event), "its times were taken");
    stamps_.push_back(event);
  }
  expect_card(cudaEventRecord(stamps_[static_cast<std::size_t>(number)], stream(lane)), "its times were taken");
}

double CardQueues::seconds(std::int64_t number) const {
  float milliseconds = 0;
  expect_card(cudaEventElapsedTime(&milliseconds, step_begin_, stamps_[static_cast<std::size_t>(number)]), "its times were taken");
  return static_cast<double>(milliseconds) / 1000;
}

}  // namespace outsize
