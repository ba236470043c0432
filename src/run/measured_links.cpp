#include "run/measured_links.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/alignment.h"
#include "cost/measure.h"

namespace outsize {
namespace {

constexpr int kTimes = 5;

// Memory of a tier that is given back at the end.
class Memory {
 public:
  Memory(Backend& backend, Tier tier, std::int64_t bytes)
      : backend_(backend), tier_(tier), bytes_(bytes), at_(backend.allocate(tier, bytes)) {}
  ~Memory() { backend_.deallocate(tier_, at_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* at(std::int64_t offset) const { return at_ + offset; }

 private:
  Backend& backend_;
  Tier tier_;
  std::int64_t bytes_;
  std::byte* at_;
};

// Of so many elements side by side.
CopyPlan run_of(std::int64_t elements) {
  CopyPlan plan;
  plan.length = elements;
  return plan;
}

class Links {
 public:
  explicit Links(Backend& backend)
      : backend_(backend),
        bytes_(std::clamp(backend.free_bytes() / 8 / kParts / kAlignment * kAlignment, kAlignment, std::int64_t{64} << 20)),
        device_(backend, Tier::device, kParts * bytes_),
        host_(backend, Tier::host, 2 * bytes_) {}

  LinkTimes times() {
    LinkTimes times;
    times.bytes = static_cast<double>(bytes_);
    const auto out = [&] { put(Lane::copy_out, 1); };
    const auto in = [&] { put(Lane::copy_in, 1); };
    times.out = alone(Lane::copy_out, out);
    times.in = alone(Lane::copy_in, in);
    kernels_ = 1;
    // As many that they take about as long as a copy.
    const double one = alone(Lane::compute, [&] { put(Lane::compute, 1); });
    kernels_ = std::clamp(static_cast<int>(std::lround(times.in / std::max(one, 1e-9))), 1, kMostKernels);
    const auto kernel = [&] { put(Lane::compute, 1); };
    times.kernel = alone(Lane::compute, kernel);
    times.out_beside_in = beside(Lane::copy_out, out, {Lane::copy_in});
    times.in_beside_out = beside(Lane::copy_in, in, {Lane::copy_out});
    times.kernel_beside_copies = beside(Lane::compute, kernel, {Lane::copy_out, Lane::copy_in});
    times.out_beside_kernel = beside(Lane::copy_out, out, {Lane::compute});
    times.in_beside_kernel = beside(Lane::copy_in, in, {Lane::compute});
    return times;
  }

 private:
  static constexpr std::int64_t kParts = 6;  // of the device's memory: one of each copy, two of each operand of the kernel
  static constexpr int kMostKernels = 200;
  static constexpr int kCover = 4;  // copies that surely take longer than one beside them, even if they are the faster ones

  // Copies, or kernels that take about as long.
  void put(Lane lane, int count) {
    for (int i = 0; i < count; ++i) {
      if (lane == Lane::copy_out) backend_.copy(lane, run_of(bytes_), 1, device_.at(0), host_.at(0));
      if (lane == Lane::copy_in) backend_.copy(lane, run_of(bytes_), 1, host_.at(bytes_), device_.at(bytes_));
      for (int k = 0; lane == Lane::compute && k < kernels_; ++k)
        backend_.combine(lane, Combine::sum, run_of(2 * bytes_ / size_of(DType::f32)), DType::f32, device_.at(2 * bytes_),
                         device_.at(4 * bytes_));
    }
  }

  template <class Body>
  double alone(Lane lane, const Body& body) {
    return beside(lane, body, {});
  }
  // What the body takes in its lane while the others are busy from before it begins until after it ends.
  template <class Body>
  double beside(Lane lane, const Body& body, std::initializer_list<Lane> others) {
    std::vector<double> seconds;
    for (int i = 0; i <= kTimes; ++i) {
      for (const Lane other : others) put(other, kCover);
      const double once = backend_.seconds(lane, body);
      backend_.queues()->finish();
      if (i > 0) seconds.push_back(once);  // the first warms up
    }
    return median(seconds);
  }

  Backend& backend_;
  std::int64_t bytes_;
  Memory device_, host_;
  int kernels_ = 1;
};

}  // namespace

LinkTimes time_links(Backend& backend) {
  OUTSIZE_CHECK(backend.queues() != nullptr);
  return Links(backend).times();
}

void use_links(Device& device, const LinkTimes& times) {
  device.link_out = times.bytes / times.out;
  device.link_in = times.bytes / times.in;
  const double both = std::max(1.0, (times.out_beside_in / times.out + times.in_beside_out / times.in) / 2);
  // Two copies at once take 2 / `both` times what one does: full duplex is nearer to twice than to once.
  device.full_duplex = 2 / both >= 1.5;
  device.link_overlap = device.full_duplex ? both : 1;
  const auto mean = [](double ratio) { return (1 + std::max(1.0, ratio)) / 2; };
  device.kernel_overlap = mean(times.kernel_beside_copies / times.kernel);
  device.copy_overlap = mean((times.out_beside_kernel / times.out + times.in_beside_kernel / times.in) / 2);
}

}  // namespace outsize
