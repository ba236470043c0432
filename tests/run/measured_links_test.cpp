#include "run/measured_links.h"

#include <gtest/gtest.h>

#include <map>

#include "backend/host_memory.h"

namespace outsize {
namespace {

// A card whose work takes the time that its rates say, and is not done: copies at 8 bytes a nanosecond out and 4 in, each 1.25
// times as long while one runs the other way and 1.5 times beside kernels; kernels of 100 µs, 1.2 times as long beside copies.
class Clockwork final : public HostBackend, private Queues {
 public:
  Clockwork() : HostBackend({}, StorageRule{.channels_last = true}, 1) {}

  bool supports(DType) const override { return true; }
  Queues* queues() override { return this; }
  void copy(Lane lane, const CopyPlan& plan, std::int64_t element_bytes, const std::byte*, std::byte*) override {
    EXPECT_TRUE(lane == Lane::copy_out || lane == Lane::copy_in);
    work_[lane] += static_cast<double>(plan.length * element_bytes) / (lane == Lane::copy_out ? 8e9 : 4e9);
  }
  void combine(Lane lane, Combine, const CopyPlan&, DType, const std::byte*, std::byte*) override { work_[lane] += 1e-4; }

  double seconds(Lane lane, const std::function<void()>& body) override {
    const std::map<Lane, double> others = work_;
    work_.clear();
    body();
    EXPECT_EQ(work_.size(), 1U);  // of this lane alone
    const auto busy = [&](Lane other) { return others.contains(other); };
    double pace = 1;
    if (lane == Lane::compute) {
      if (busy(Lane::copy_out) || busy(Lane::copy_in)) pace = 1.2;
    } else {
      if (busy(Lane::compute)) pace *= 1.5;
      if (busy(lane == Lane::copy_in ? Lane::copy_out : Lane::copy_in)) pace *= 1.25;
    }
    // Those beside it are busy all the time, at their own fastest.
    for (const auto& [other, left] : others) EXPECT_GT(left, pace * work_[lane]) << name_of(other);
    return pace * work_[lane];
  }

 private:
  void* queue(Lane) const override { return nullptr; }
  void begin_step() override {}
  void mark(Lane, std::int64_t, bool) override {}
  void wait(Lane, Lane, std::int64_t) override {}
  void complete(Lane, std::int64_t) override {}
  bool await(Lane, std::int64_t, const std::atomic<bool>&) const override { return true; }
  void release() override {}
  void finish() override { work_.clear(); }
  void stamp(Lane, std::int64_t) override {}
  double seconds(std::int64_t) const override { return 0; }
  std::int64_t stamps() const override { return 0; }

  std::map<Lane, double> work_;
};

TEST(MeasuredLinks, RatesAndOverlapsComeFromTimes) {
  Device device;
  use_links(device, {.bytes = 8e6,
                     .out = 1e-3,
                     .in = 2e-3,
                     .out_beside_in = 1.1e-3,
                     .in_beside_out = 2.6e-3,
                     .kernel = 1e-3,
                     .kernel_beside_copies = 1.06e-3,
                     .out_beside_kernel = 1e-3,
                     .in_beside_kernel = 2.4e-3});
  EXPECT_DOUBLE_EQ(device.link_out, 8e9);
  EXPECT_DOUBLE_EQ(device.link_in, 4e9);
  EXPECT_TRUE(device.full_duplex);
  EXPECT_DOUBLE_EQ(device.link_overlap, 1.2);     // the mean of 1.1 and 1.3
  EXPECT_DOUBLE_EQ(device.kernel_overlap, 1.03);  // half of 1.06
  EXPECT_DOUBLE_EQ(device.copy_overlap, 1.05);    // half of the mean of 1 and 1.2
}

TEST(MeasuredLinks, CopiesThatHinderEachOtherAreHalfDuplex) {
  Device device;
  LinkTimes times{.bytes = 1e6,
                  .out = 1e-3,
                  .in = 1e-3,
                  .kernel = 1,
                  .kernel_beside_copies = 0.99,
                  .out_beside_kernel = 1e-3,
                  .in_beside_kernel = 1e-3};
  times.out_beside_in = times.in_beside_out = 1.9e-3;
  use_links(device, times);
  EXPECT_FALSE(device.full_duplex);
  EXPECT_EQ(device.link_overlap, 1);
  EXPECT_EQ(device.kernel_overlap, 1);  // chance alone makes it faster
}

TEST(MeasuredLinks, AloneTogetherAndBesideKernels) {
  Clockwork card;
  Device device;
  use_links(device, time_links(card));
  EXPECT_NEAR(device.link_out, 8e9, 1);
  EXPECT_NEAR(device.link_in, 4e9, 1);
  EXPECT_TRUE(device.full_duplex);
  EXPECT_NEAR(device.link_overlap, 1.25, 1e-9);
  EXPECT_NEAR(device.kernel_overlap, 1.1, 1e-9);
  EXPECT_NEAR(device.copy_overlap, 1.25, 1e-9);
}

}  // namespace
}  // namespace outsize
