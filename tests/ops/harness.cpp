#include "harness.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/each_position.h"
#include "ops/combine.h"
#include "ops/cuda/block.h"
#include "ops/registry.h"
#if __has_include("ops/cpu_support.h")
#include "ops/cpu_support.h"
#define OUTSIZE_TEST_CPU 1
#endif

namespace outsize::test {

void paste(Tensor& tensor, const Tensor& part) {
  for_each_position(part.box, [&](const Dims& position) { tensor[position] = part[position]; });
}

void combine(Combine rule, Tensor& tensor, const Tensor& part) {
  if (part.box.empty()) return;
  const auto with = [&]<class T>(T) {
    const Tensor before = crop(tensor, part.box);
    std::vector<T> total(before.numbers.begin(), before.numbers.end());
    const std::vector<T> added(part.numbers.begin(), part.numbers.end());
    combine_into(rule, part.type.dtype, reinterpret_cast<std::byte*>(total.data()),
                 reinterpret_cast<const std::byte*>(added.data()), part.box.elements());
    Tensor sum = before;
    sum.numbers.assign(total.begin(), total.end());
    paste(tensor, sum);
  };
  if (part.type.dtype == DType::f64) return with(double{});
  if (part.type.dtype == DType::f32) return with(float{});
  OUTSIZE_CHECK(part.type.dtype == DType::i32);
  with(std::int32_t{});
}

const std::vector<Backend>& backends() {
  static const KernelTable reference = reference_kernels();
  static const std::vector<Backend> all = [] {
#if OUTSIZE_WITH_CUDA
    if (const char* precision = std::getenv("OUTSIZE_TEST_CARD")) {
      const bool tf32 = std::string_view(precision) == "tf32";
      static const KernelTable kernels = cuda_kernels(tf32);
      static const std::unique_ptr<outsize::Backend> card = make_backend("cuda", 0, tf32);
      Backend backend{fmt::format("cuda_{}", precision), &kernels, DType::f32, card->storage()};
      backend.device = card.get();
      backend.tolerance = backend.box_tolerance = tf32 ? 1e-3 : 1e-5;
      return std::vector<Backend>{{"reference_f64", &reference, DType::f64, {1}, 1e-12}, backend};
    }
#endif
    std::vector<Backend> list{
        {"reference_f64", &reference, DType::f64, {1}, 1e-12},
        {"reference_f32", &reference, DType::f32, {1}},
        {"reference_f32_block8", &reference, DType::f32, {8}},
        {"reference_f32_channels_last", &reference, DType::f32, {.channels_last = true}},
    };
#ifdef OUTSIZE_TEST_CPU
    static const KernelTable cpu = cpu_kernels();
    for (std::int64_t block : {8, 16})
      list.push_back({fmt::format("cpu_block{}", block), &cpu, DType::f32, {block}, 1e-5, block == cpu_storage().channel_block});
#endif
    static const KernelTable cuda_host = cuda_host_kernels();
    const StorageRule channels_last{.channels_last = true};
    list.push_back({"cuda_host", &cuda_host, DType::f32, channels_last});
    list.push_back({"cuda_host_backwards", &cuda_host, DType::f32, channels_last});
    list.back().backwards = true;
    return list;
  }();
  return all;
}

const std::vector<Backend>& tf32_backends() {
  static const KernelTable kernels = cuda_host_kernels(true);
  static const std::vector<Backend> all = [] {
    std::vector<Backend> list;
    if (backends().back().device != nullptr) return list;
    for (const bool backwards : {false, true}) {
      list.push_back({backwards ? "cuda_host_tf32_backwards" : "cuda_host_tf32", &kernels, DType::f32, {.channels_last = true}});
      list.back().tolerance = list.back().box_tolerance = 1e-3;
      list.back().backwards = backwards;
    }
    return list;
  }();
  return all;
}

const Backend& exact_backend() { return backends().front(); }

void fail(const std::string& fault) { ADD_FAILURE() << fault; }

void order_blocks(const Backend& backend) { emulated::emulation_runs_backwards() = backend.backwards; }

std::vector<Tensor> run_op(const Backend& backend, const OpSite& site, const std::vector<Tensor>& inputs,
                           const Invocation& invocation) {
  order_blocks(backend);
  return checks::run_op(backend, site, inputs, invocation, fail);
}

std::vector<Tensor> run_cropped(const Backend& backend, const OpSite& site, const std::vector<Tensor>& whole_inputs,
                                const Invocation& invocation) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < whole_inputs.size(); ++i) inputs.push_back(crop(whole_inputs[i], invocation.boxes.in[i]));
  return run_op(backend, site, inputs, invocation);
}

}  // namespace outsize::test
