// What `outsize selfcheck` looks at, on backends with one thing wrong each.
#include "outsize/selfcheck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "backend/host_memory.h"
#include "check/parts.h"
#include "ops/registry.h"

namespace outsize {
namespace {

using checks::Part;
using testing::Contains;
using testing::HasSubstr;

// What is wrong with the kernels of relu, or with copies to the host.
enum class Fault { none, output_off, not_a_number, past_the_output, changed_input, lost_byte };

class FaultyKernel final : public Kernel {
 public:
  FaultyKernel(std::shared_ptr<const Kernel> kernel, Fault fault) : kernel_(std::move(kernel)), fault_(fault) {}
  std::int64_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  std::string name() const override { return kernel_->name(); }
  void run(const KernelRun& run) const override {
    kernel_->run(run);
    float* const out = reinterpret_cast<float*>(run.out[0]);
    if (fault_ == Fault::output_off) out[0] += 1;
    if (fault_ == Fault::not_a_number) out[0] = std::numeric_limits<float>::quiet_NaN();
    if (fault_ == Fault::past_the_output) out[run.out_boxes[0].elements()] = 0;
    if (fault_ == Fault::changed_input) const_cast<std::byte*>(run.in[0])[0] ^= std::byte{1};
  }

 private:
  std::shared_ptr<const Kernel> kernel_;
  Fault fault_;
};

class Faulty final : public HostBackend {
 public:
  explicit Faulty(Fault fault) : HostBackend(cuda_host_kernels(), StorageRule{.channels_last = true}, 1), fault_(fault) {}
  bool supports(DType dtype) const override { return dtype != DType::f64; }
  using HostBackend::kernel;
  std::shared_ptr<const Kernel> kernel(const Call& call, Lane lane, std::string_view name) override {
    std::shared_ptr<const Kernel> kernel = HostBackend::kernel(call, lane, name);
    if (fault_ == Fault::none || fault_ == Fault::lost_byte || call.site.op.def->kind() != "relu") return kernel;
    return std::make_shared<FaultyKernel>(std::move(kernel), fault_);
  }
  void copy(Lane lane, const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::byte* to) override {
    HostBackend::copy(lane, plan, element_bytes, from, to);
    if (fault_ == Fault::lost_byte && lane == Lane::copy_out) to[4099] ^= std::byte{1};
  }

 private:
  Fault fault_;
};

Part ops_with(Fault fault) {
  register_ops();
  Faulty backend(fault);
  return checks::check_ops(backend, "f32", 1e-5, {});
}

TEST(Selfcheck, FindsNothingWhereNothingIsWrong) {
  const Part ops = ops_with(Fault::none);
  EXPECT_TRUE(ops.well()) << ops.wrong.front();
  EXPECT_THAT(ops.found, HasSubstr(fmt::format("cases of {} kinds", all_op_defs().size())));
  Faulty backend(Fault::none);
  const Part link = checks::check_link(backend, {});
  EXPECT_TRUE(link.well()) << link.wrong.front();
}

TEST(Selfcheck, FindsOutputsThatAreOff) {
  EXPECT_THAT(ops_with(Fault::output_off).wrong,
              Contains(testing::AllOf(HasSubstr("relu/"), HasSubstr("from the reference, 1e-05 allowed"))));
  EXPECT_THAT(ops_with(Fault::not_a_number).wrong,
              Contains(testing::AllOf(HasSubstr("relu/"), HasSubstr("inf from the reference"))));
}

TEST(Selfcheck, FindsWhatAKernelMayNotDo) {
  EXPECT_THAT(ops_with(Fault::past_the_output).wrong,
              Contains(testing::AllOf(HasSubstr("(relu) on cuda-host"), HasSubstr("wrote past output 0"))));
  EXPECT_THAT(ops_with(Fault::changed_input).wrong,
              Contains(testing::AllOf(HasSubstr("(relu) on cuda-host"), HasSubstr("changed input 0"))));
}

TEST(Selfcheck, SaysNoMoreThanFitsOnAScreen) {
  const Part part = ops_with(Fault::output_off);
  EXPECT_LE(part.wrong.size(), checks::kMostWrong);
}

TEST(Selfcheck, FindsCopiesThatLoseAByte) {
  Faulty backend(Fault::lost_byte);
  EXPECT_THAT(checks::check_link(backend, {}).wrong, Contains(HasSubstr("came back differs, first at byte 4096 of")));
}

TEST(Selfcheck, ComparesRuns) {
  TrainingReport keep, other;
  keep.losses = {2, 1};
  keep.parameters_sha256 = "aa";
  keep.measured_peaks.device = keep.predicted_peaks.device = 1000;
  other = keep;
  Part well;
  checks::check_peak(well, other);
  checks::compare_bits(well, other, keep);
  checks::compare_losses(well, other, keep, "keep");
  EXPECT_TRUE(well.well());

  other.parameters_sha256 = "ab";
  other.measured_peaks.device = 1001;
  for (const double loss : {1.001, std::numeric_limits<double>::quiet_NaN()}) {
    other.losses = {2, loss};
    Part wrong;
    checks::check_peak(wrong, other);
    checks::compare_bits(wrong, other, keep);
    checks::compare_losses(wrong, other, keep, "keep");
    EXPECT_THAT(wrong.wrong, testing::ElementsAre("took 1001 bytes of the device's memory where 1000 were predicted",
                                                  "its steps leave other parameters than keep's",
                                                  HasSubstr("from those of keep, 1e-04 allowed")));
  }
}

}  // namespace
}  // namespace outsize
