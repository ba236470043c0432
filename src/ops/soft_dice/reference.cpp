#include "ops/reference_support.h"
#include "ops/soft_dice/fraction.h"

namespace outsize {
namespace {

// The target at a position of p: its own element, or whether the label there is the channel.
template <class T>
class Target {
 public:
  Target(const ReferenceCall& call, int input) : one_hot_(call.in_type(input).dtype == DType::i32), call_(call), input_(input) {}
  double operator[](const Dims& at) const {
    if (!one_hot_) return static_cast<double>(call_.in<T>(input_)[at]);
    Dims label{at[0]};
    for (int i = 2; i < at.rank(); ++i) label.push_back(at[i]);
    return call_.in<std::int32_t>(input_)[label] == at[1] ? 1 : 0;
  }

 private:
  bool one_hot_;
  const ReferenceCall& call_;
  int input_;
};

void dice_sums(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto p = call.in<T>(0);
    const Target<T> target(call, 1);
    const auto sums = call.out<T>(0);
    const std::int64_t channels = call.in_type(0).shape[1];
    sums.clear();
    p.for_each([&](const Dims& at) {
      const std::int64_t column = at[0] * channels + at[1];
      sums(std::int64_t{0}, column) += static_cast<T>(static_cast<double>(p[at]) * target[at]);
      sums(std::int64_t{1}, column) += p[at];
      sums(std::int64_t{2}, column) += static_cast<T>(target[at]);
    });
  });
}

void dice_sums_grad(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto dsums = call.in<T>(0);
    const Target<T> target(call, 1);
    const auto dp = call.out<T>(0);
    const std::int64_t channels = call.out_type(0).shape[1];
    dp.for_each([&](const Dims& at) {
      const std::int64_t column = at[0] * channels + at[1];
      dp[at] = dsums(std::int64_t{0}, column) * static_cast<T>(target[at]) + dsums(std::int64_t{1}, column);
    });
    dp.clear_padding();
  });
}

void dice_loss(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto sums = call.in<T>(0);
    call.out<T>(0)(std::int64_t{0}) = static_cast<T>(dice_loss_of(sums.data(), sums.range(1).size(), call.site().number("smooth")));
  });
}

void dice_loss_grad(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto sums = call.in<T>(0);
    const double dloss = static_cast<double>(call.in<T>(1)(std::int64_t{0}));
    dice_loss_gradient(sums.data(), sums.range(1).size(), call.in_type(0).shape[1], call.site().number("smooth"), dloss,
                       call.out<T>(0).data());
  });
}

}  // namespace

void reference_soft_dice(KernelTable& table) {
  table.add("dice_sums", reference_kernel<dice_sums>);
  table.add("dice_sums_grad", reference_kernel<dice_sums_grad>);
  table.add("dice_loss", reference_kernel<dice_loss>);
  table.add("dice_loss_grad", reference_kernel<dice_loss_grad>);
}

}  // namespace outsize
