#include "ops/conv/reference_loops.h"
#include "ops/registry.h"

namespace outsize {
namespace {

ConvLoops loops_of(const ReferenceCall& call, const Dims& weight, const Dims& x) {
  return {sliding_windows(call.site(), spatial(weight), spatial(x), true), channels_of(call.site(), weight)};
}

void conv(const ReferenceCall& call) {
  const ConvLoops loops = loops_of(call, call.in_type(1).shape, call.in_type(0).shape);
  dispatch_conv(call.in_type(0).dtype, loops.windows.rank, [&]<class T, int R>() {
    const View<const T> x = call.in<T>(0);
    const View<const T> weight = call.in<T>(1);
    const View<T> y = call.out<T>(0);
    const bool relu = call.site().word("activation") == "relu";
    const bool biased = call.has_in(2) && !call.in<T>(2).empty();
    y.for_each([&](const Dims& p) {
      const T sum = loops.gather<R>(x, weight, p) + (biased ? call.in<T>(2)(p[1]) : T{0});
      y[p] = relu && sum < T{0} ? T{0} : sum;
    });
    y.clear_padding();
  });
}

void conv_grad_data(const ReferenceCall& call) {
  const ConvLoops loops = loops_of(call, call.in_type(1).shape, call.out_type(0).shape);
  dispatch_conv(call.in_type(0).dtype, loops.windows.rank, [&]<class T, int R>() {
    const View<const T> dy = call.in<T>(0);
    const View<const T> weight = call.in<T>(1);
    const View<T> dx = call.out<T>(0);
    dx.clear();
    dy.for_each([&](const Dims& p) { loops.scatter<R>(dy, weight, dx, p); });
  });
}

// The gradient of the bias is the sum of dy.
void conv_grad_weight(const ReferenceCall& call) {
  const ConvLoops loops = loops_of(call, call.out_type(0).shape, call.in_type(1).shape);
  dispatch_conv(call.in_type(0).dtype, loops.windows.rank, [&]<class T, int R>() {
    const View<const T> dy = call.in<T>(0);
    const View<const T> x = call.in<T>(1);
    const View<T> dw = call.out<T>(0);
    dw.clear();
    dy.for_each([&](const Dims& p) { loops.correlate<R>(dy, x, dw, p); });
    if (call.has_out(1)) {
      const View<T> db = call.out<T>(1);
      db.clear();
      dy.for_each([&](const Dims& p) { db(p[1]) += dy[p]; });
    }
  });
}

}  // namespace

void reference_conv(KernelTable& table) {
  for (const std::string_view kind : {"conv2d", "conv3d"}) table.add(kind, reference_kernel<conv>);
  for (const std::string_view kind : {"conv2d_grad_data", "conv3d_grad_data"}) table.add(kind, reference_kernel<conv_grad_data>);
  for (const std::string_view kind : {"conv2d_grad_weight", "conv3d_grad_weight"})
    table.add(kind, reference_kernel<conv_grad_weight>);
}

}  // namespace outsize
