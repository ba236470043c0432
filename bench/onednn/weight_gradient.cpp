// How fast the library's weight gradients are in blocked layouts, and how fast a plain loop over one block of weights could be.
//
//   g++ -std=c++20 -O3 -fopenmp bench/onednn/weight_gradient.cpp -o weight_gradient -ldnnl && OMP_NUM_THREADS=2 ./weight_gradient
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <numeric>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

namespace {

using dnnl::memory;

double fastest(int repetitions, const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < repetitions; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

// The weight gradient of a convolution with kernels of 3 over `samples` maps of `dims` extents each.
void measure_library(int dims, std::int64_t inputs, std::int64_t outputs, std::int64_t extent, std::int64_t samples, bool padded) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const std::int64_t padding = padded ? 1 : 0;
  memory::dims x{samples, inputs}, weight{outputs, inputs}, y{samples, outputs};
  for (int i = 0; i < dims; ++i) {
    x.push_back(extent + 2 - 2 * padding);
    weight.push_back(3);
    y.push_back(extent);
  }
  const memory::dims ones(static_cast<std::size_t>(dims), 1), pads(static_cast<std::size_t>(dims), padding);
  const auto tag = dims == 2 ? memory::format_tag::nChw16c : memory::format_tag::nCdhw16c;
  const memory::desc x_desc(x, memory::data_type::f32, tag), y_desc(y, memory::data_type::f32, tag);
  const memory::desc any(weight, memory::data_type::f32, memory::format_tag::any);
  const auto direct = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, direct, x_desc, any, y_desc, ones, pads, pads}, engine);
  const dnnl::convolution_backward_weights::primitive_desc description({direct, x_desc, any, y_desc, ones, pads, pads}, engine,
                                                                       forward);
  memory xs(x_desc, engine), ys(y_desc, engine), weights(description.diff_weights_desc(), engine);
  for (memory* filled : {&xs, &ys}) {
    auto* const numbers = static_cast<float*>(filled->get_data_handle());
    for (std::size_t i = 0; i < filled->get_desc().get_size() / sizeof(float); ++i) numbers[i] = static_cast<float>(i % 7) - 3;
  }
  const dnnl::convolution_backward_weights primitive(description);
  const double seconds = fastest(4, [&] {
    primitive.execute(stream, {{DNNL_ARG_SRC, xs}, {DNNL_ARG_DIFF_DST, ys}, {DNNL_ARG_DIFF_WEIGHTS, weights}});
    stream.wait();
  });
  const double positions = std::accumulate(y.begin() + 2, y.end(), static_cast<double>(samples), std::multiplies<>());
  const double taps = dims == 2 ? 9 : 27;
  std::printf("library %d-D %3lld>%-3lld extent %2lld samples %2lld %-7s %7.1f ms  %6.1f GFLOP/s  %s\n", dims,
              static_cast<long long>(inputs), static_cast<long long>(outputs), static_cast<long long>(extent),
              static_cast<long long>(samples), padded ? "padded" : "before", 1000 * seconds,
              2e-9 * taps * static_cast<double>(inputs * outputs) * positions / seconds, description.impl_info_str());
}

// One block of 16 inputs by 16 outputs over a row of positions: the sums stay in registers.
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"))) void add_row(const float* x, const float* dy,
                                                                                           std::int64_t count, float* weights) {
  constexpr int kBlock = 16;
  float sum[kBlock][kBlock];
  std::copy_n(weights, kBlock * kBlock, &sum[0][0]);
  for (std::int64_t p = 0; p < count; ++p)
#pragma GCC unroll 16
    for (int i = 0; i < kBlock; ++i) {
      const float factor = x[p * kBlock + i];
#pragma omp simd
      for (int o = 0; o < kBlock; ++o) sum[i][o] += factor * dy[p * kBlock + o];
    }
  std::copy_n(&sum[0][0], kBlock * kBlock, weights);
}

void measure_loop() {
  constexpr std::int64_t kRow = 64, kTaps = 9, kRounds = 2000;
  std::vector<float> x((kRow + kTaps) * 16, 0.5F), dy(kRow * 16, 0.25F), weights(kTaps * 256);
  const double seconds = fastest(20, [&] {
    for (std::int64_t round = 0; round < kRounds; ++round)
      for (std::int64_t tap = 0; tap < kTaps; ++tap) add_row(x.data() + tap * 16, dy.data(), kRow, weights.data() + tap * 256);
  });
  std::printf("loop over one block, from the first cache, one thread: %.1f GFLOP/s\n",
              2e-9 * kRounds * kTaps * kRow * 256 / seconds);
}

}  // namespace

int main() {
  for (const bool padded : {true, false}) {
    measure_library(3, 192, 64, 64, 1, padded);
    measure_library(3, 64, 64, 64, 1, padded);
    measure_library(3, 384, 128, 32, 1, padded);
  }
  measure_library(2, 192, 64, 64, 64, true);
  measure_library(2, 384, 128, 32, 32, true);
  measure_loop();
  return 0;
}
