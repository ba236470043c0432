// What single kernels take on the card that is here, in TF32: card_bench [PART…]   (attention, fused, products, stems, depthwise,
// maps, rows)
//
// A line a kernel: milliseconds, TFLOP/s by the op's own cost, and the bytes of that cost as a share of what a copy within the card
// moves, measured in the same run. Where there is a choice (bytes of scores, a block program or cuDNN, aligned rows or the product
// as it is), each gets a line; "chosen" is what a training run takes.
#include <cuda_runtime_api.h>

#include <iostream>
#include <set>

#include "graph/autodiff.h"
#include "graph/fusion.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/attention/cuda_attention.h"
#include "ops/conv/cuda_convolution.h"
#include "ops/cuda/library/cublaslt.h"
#include "ops/registry.h"

namespace outsize {
namespace {

constexpr StorageRule kStorage{.channels_last = true};
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

void expect(cudaError_t status, const char* what) {
  if (status != cudaSuccess) user_error("{}: {}", what, cudaGetErrorString(status));
}

// Memory of the card, full of f32 near 0.01.
class Memory {
 public:
  explicit Memory(std::int64_t bytes) {
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
    expect(cudaMalloc(&at_, size), "memory of the card");
    expect(cudaMemset(at_, 0x3c, size), "memory of the card");
  }
  Memory(Memory&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
  Memory& operator=(Memory&&) = delete;
  ~Memory() { cudaFree(at_); }
  std::byte* get() const { return static_cast<std::byte*>(at_); }
  float* floats() const { return static_cast<float*>(at_); }

 private:
  void* at_ = nullptr;
};

// The mean seconds of runs that follow each other, for about 30 ms, after one that warms up.
template <class Work>
double seconds_of(const Work& work) {
  cudaEvent_t begin = nullptr, end = nullptr;
  expect(cudaEventCreate(&begin), "an event");
  expect(cudaEventCreate(&end), "an event");
  const auto take = [&](int runs) {
    float milliseconds = 0;
    cudaEventRecord(begin, nullptr);
    for (int i = 0; i < runs; ++i) work();
    cudaEventRecord(end, nullptr);
    expect(cudaEventSynchronize(end), "a kernel");
    expect(cudaEventElapsedTime(&milliseconds, begin, end), "a kernel");
    return milliseconds * 1e-3 / runs;
  };
  take(1);
  const double once = take(1);
  const double mean = take(static_cast<int>(std::clamp(0.03 / once, 2.0, 50.0)));
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return mean;
}

// Bytes read and written a second by a copy of 1 GiB.
double copy_rate() {
  constexpr std::int64_t kBytes = 1024 * kMiB;
  const Memory from(kBytes), to(kBytes);
  return 2.0 * static_cast<double>(kBytes) /
         seconds_of([&] { cudaMemcpyAsync(to.get(), from.get(), kBytes, cudaMemcpyDeviceToDevice, nullptr); });
}

void print(const std::string& what, const std::string& how, double seconds, const Cost& cost, const std::string& kernel) {
  static const double copy = copy_rate();
  static const bool told = [] {
    fmt::print("copy within the card: {:.0f} GB/s read and written\n", copy * 1e-9);
    return true;
  }();
  static_cast<void>(told);
  fmt::print("{:44} {:12} {:9.3f} ms {:7.1f} TFLOP/s {:5.0f} % of copy  {}\n", what, how, seconds * 1e3,
             cost.flops / seconds * 1e-12, 100 * cost.bytes / seconds / copy, kernel.substr(0, 100));
  std::fflush(stdout);
}

// A kernel on whole values, with its memory.
void time_op(const OpSite& site, const std::string& what, const std::string& how) {
  static const KernelTable table = cuda_kernels(true);
  CallBoxes boxes;
  for (int i = 0; i < site.inputs(); ++i) boxes.in.push_back(Box::whole(site.in(i).shape));
  for (int i = 0; i < site.outputs(); ++i) boxes.out.push_back(Box::whole(site.out(i).shape));
  const std::unique_ptr<Kernel> kernel = table.prepare({site, boxes, boxes.in[0]}, kStorage);
  std::vector<Memory> memory;
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  const auto allocate = [&](const ValueType& type) { return memory.emplace_back(stored_bytes(kStorage, type, type.shape)).get(); };
  for (int i = 0; i < site.inputs(); ++i) in.push_back(allocate(site.in(i)));
  for (int i = 0; i < site.outputs(); ++i) out.push_back(allocate(site.out(i)));
  const Memory workspace(kernel->workspace_bytes());
  const double seconds = seconds_of([&] { kernel->run({in, out, workspace.get(), boxes.in, boxes.out, boxes.in[0], nullptr}); });
  print(fmt::format("{} {}", what, site.op.def->kind()), how, seconds, site.op.def->cost(site, boxes),
        fmt::format("{} MiB {}", kernel->workspace_bytes() / kMiB, kernel->name()));
}

// The ops of a graph and of its gradient with respect to all inputs, of the kinds that are named.
void time_graph(const std::string& what, const std::string& body, const std::set<std::string>& kinds,
                const std::string& how = "chosen") {
  Graph graph = fuse(parse_graph(fmt::format("graph g\n{}\noutput y\n", body), what));
  AutodiffOptions options{graph.outputs(), {}};
  for (std::int64_t i = 0; i < graph.value_count(); ++i)
    if (graph.value(ValueId(i)).role == Role::input && is_float(graph.value(ValueId(i)).type.dtype))
      options.with_respect.push_back(ValueId(i));
  differentiate(graph, options);
  verify_graph(graph);
  std::set<std::string> left = kinds;
  for (std::int64_t i = 0; i < graph.op_count(); ++i)
    if (const OpSite site{graph, graph.op(OpId(i))}; left.erase(std::string(site.op.def->kind())) > 0) time_op(site, what, how);
  for (const std::string& kind : left) fmt::print("{}: there is no {}\n", what, kind);
}

std::string attention_graph(int samples, int tokens, int features, const std::string& rest) {
  std::string body;
  for (const char* name : {"q", "k", "v"}) body += fmt::format("input {} f32[{}, {}, {}]\n", name, samples, tokens, features);
  return body + rest;
}

// Attention made of products, by how much is worked on at once.
void attention() {
  const auto graph = attention_graph;
  card::fused_attention().allowed = false;
  const std::int64_t usual = card::score_bytes();
  for (const std::int64_t mib : {24, 48, 96, 192, 384}) {
    card::score_bytes() = mib * kMiB;
    const std::string how = fmt::format("{} MiB{}", mib, mib * kMiB == usual ? " *" : "");
    time_graph("32 x 512, 16 heads of 64, dropout",
               graph(32, 512, 1024, "input key i32[4]\nlook: y = attention(q, k, v, key) heads=16 p=0.1"),
               {"attention", "attention_grad"}, how);
    time_graph("32 x 512, 16 heads of 64", graph(32, 512, 1024, "look: y = attention(q, k, v) heads=16"),
               {"attention", "attention_grad"}, how);
    time_graph("8 x 1024, 12 heads of 64, causal", graph(8, 1024, 768, "look: y = attention(q, k, v) heads=12 causal=1"),
               {"attention", "attention_grad"}, how);
  }
  card::score_bytes() = usual;
  const std::int64_t usual_blocks = card::causal_blocks();
  for (const std::int64_t blocks : {1, 2, 4, 8}) {
    card::causal_blocks() = blocks;
    time_graph("8 x 1024, 12 heads of 64, causal", graph(8, 1024, 768, "look: y = attention(q, k, v) heads=12 causal=1"),
               {"attention", "attention_grad"}, fmt::format("{} blocks{}", blocks, blocks == usual_blocks ? " *" : ""));
  }
  card::causal_blocks() = usual_blocks;
  card::fused_attention() = {};
}

// Attention made of products beside the fused kernels, and those in all blocks that there are.
void fused() {
  struct Model {
    const char* name;
    int samples, tokens, heads, width;
    const char* attributes;
  };
  FusedAttention& choice = card::fused_attention();
  for (const auto& [name, samples, tokens, heads, width, attributes] :
       {Model{"BERT-large", 32, 512, 16, 64, ""}, Model{"BERT-large, dropout", 32, 512, 16, 64, "p=0.1"},
        Model{"GPT-2", 8, 1024, 12, 64, "causal=1"}, Model{"GPT-2, dropout", 8, 1024, 12, 64, "causal=1 p=0.1"},
        Model{"GPT-2 XL", 4, 1024, 25, 64, "causal=1"}, Model{"ViT-B", 64, 197, 12, 64, ""},
        Model{"heads of 32", 32, 512, 32, 32, ""}, Model{"heads of 128", 32, 512, 8, 128, ""}}) {
    const bool dropout = std::string_view(attributes).find("p=") != std::string_view::npos;
    const std::string what = fmt::format("{}: {} x {} x {} x {}", name, samples, heads, tokens, width);
    const std::string graph =
        attention_graph(samples, tokens, heads * width,
                        fmt::format("{}look: y = attention(q, k, v{}) heads={} {}", dropout ? "input key i32[4]\n" : "",
                                    dropout ? ", key" : "", heads, attributes));
    choice.allowed = false;
    time_graph(what, graph, {"attention", "attention_grad"}, "composed");
    choice.allowed = true;
    for (int i = 0; i < kFusedChoices; ++i) {
      choice.forward = i;
      time_graph(what, graph, {"attention"}, fmt::format("forward {}{}", i, i == 0 ? " *" : ""));
    }
    choice = {};
    for (int i = 0; i < kFusedChoices; ++i) {
      choice.queries = i;
      time_graph(what, graph, {"attention_grad"}, fmt::format("queries {}{}", i, i == 0 ? " *" : ""));
    }
    choice = {};
    for (int i = 1; i < kFusedChoices; ++i) {
      choice.keys = i;
      time_graph(what, graph, {"attention_grad"}, fmt::format("keys {}", i));
    }
    choice = {};
  }
}

// The product as one call of the library, whatever its rows are aligned to.
void time_library(const std::string& what, const ProductShape& shape) {
  const auto elements = [](const MatrixLayout& matrix, std::int64_t rows, std::int64_t columns) {
    return matrix.stride * (matrix.transposed ? columns : rows);
  };
  constexpr std::int64_t kWorkspace = 32 * kMiB;
  const LibraryProduct product(shape, true, kWorkspace);
  const Memory a(4 * elements(shape.a, shape.rows, shape.inner)), b(4 * elements(shape.b, shape.inner, shape.columns)),
      c(4 * elements(shape.c, shape.rows, shape.columns)), workspace(kWorkspace);
  const double seconds = seconds_of([&] {
    product.run({a.floats(), b.floats(), c.floats(), nullptr}, false, workspace.get(), nullptr);
  });
  const double products = static_cast<double>(shape.rows) * static_cast<double>(shape.inner) * static_cast<double>(shape.columns);
  print(what, "one call", seconds, {2 * products, 0}, product.name());
}

void products() {
  struct Layer {
    std::int64_t rows, inputs, outputs;
  };
  const std::set<std::string> kinds{"linear", "linear_grad_data", "linear_grad_weight"};
  for (const auto& [rows, inputs, outputs] : {Layer{16384, 1024, 30522}, Layer{8192, 768, 50257}, Layer{16384, 1024, 1024},
                                              Layer{16384, 1024, 4096}, Layer{16384, 4096, 1024}, Layer{8192, 768, 3072}}) {
    const std::string what = fmt::format("{} x {} x {}", rows, inputs, outputs);
    time_graph(what,
               fmt::format("input x f32[{}, {}]\nparam w f32[{}, {}]\nparam b f32[{}]\nfc: y = linear(x, w, b)", rows, inputs,
                           outputs, inputs, outputs),
               kinds);
    if (outputs % 4 == 0) continue;
    time_library(what + " forward", {rows, inputs, outputs, {inputs, false}, {inputs, true}, {outputs, false}, {}});
    time_library(what + " data", {rows, outputs, inputs, {outputs, false}, {inputs, false}, {inputs, false}, {}});
    time_library(what + " weight", {outputs, rows, inputs, {outputs, true}, {inputs, false}, {inputs, false}, {}});
  }
}

void convolutions(const std::string& what, const std::string& body, const std::set<std::string>& kinds) {
  for (const auto& [choice, how] : {std::pair{ConvolutionChoice::own, "own"}, std::pair{ConvolutionChoice::library, "cuDNN"},
                                    std::pair{ConvolutionChoice::fastest, "chosen"}}) {
    card::convolution_choice() = choice;
    time_graph(what, body, kinds, how);
  }
  card::convolution_choice() = ConvolutionChoice::fastest;
}

void stems() {
  convolutions("ResNet's first, batch 256",
               "input x f32[256, 3, 224, 224]\nparam w f32[64, 3, 7, 7]\nconv: y = conv2d(x, w) stride=[2, 2] padding=[3, 3, 3, 3]",
               {"conv2d_grad_weight"});
  convolutions("VGG's first, 4096 x 4096",
               "input x f32[1, 3, 4096, 4096]\nparam w f32[64, 3, 3, 3]\nparam b f32[64]\n"
               "conv: y = conv2d(x, w, b) padding=[1, 1, 1, 1]",
               {"conv2d_grad_weight"});
}

void depthwise() {
  for (const int side : {7, 3})
    convolutions(fmt::format("depthwise {0} x {0}, 64 x 192 x 56 x 56", side),
                 fmt::format("input x f32[64, 192, 56, 56]\nparam w f32[192, 1, {0}, {0}]\nparam b f32[192]\n"
                             "conv: y = conv2d(x, w, b) padding=[{1}, {1}, {1}, {1}] groups=192",
                             side, side / 2),
                 {"conv2d", "conv2d_grad_data", "conv2d_grad_weight"});
}

void maps() {
  const std::string map = "f32[256, 256, 56, 56]", what = "256 x 256 x 56 x 56";
  time_graph(what, fmt::format("input x {0}\nrelu: y = relu(x)", map), {"relu", "relu_grad"});
  time_graph(what, fmt::format("input a {0}\ninput b {0}\nadd: y = add(a, b)", map), {"add"});
  time_graph(what,
             fmt::format("input x {0}\nparam gamma f32[256]\nparam beta f32[256]\nstats: stats = batch_norm_stats(x)\n"
                         "finalize: moments = batch_norm_finalize(stats)\napply: y = batch_norm_apply(x, moments, gamma, beta)",
                         map),
             {"batch_norm_stats", "batch_norm_apply", "batch_norm_grad_stats", "batch_norm_grad_apply"});
  time_graph("262144 rows of 512", "input x f32[262144, 512]\nsoft: y = softmax(x)", {"softmax", "softmax_grad"});
  time_graph("16384 rows of 1024",
             "input x f32[16384, 1024]\nparam gamma f32[1024]\nparam beta f32[1024]\n"
             "norm: y = layer_norm(x, gamma, beta)",
             {"layer_norm", "layer_norm_grad"});
}

// What is bound by memory and small, narrow or long: shown beside large maps, with no bar.
void rows() {
  time_graph("rows of 50257, 4096 of them", "input x f32[4096, 50257]\nsoft: y = softmax(x)", {"softmax", "softmax_grad"});
  for (const char* map : {"f32[256, 2048, 7, 7]", "f32[256, 3, 224, 224]"})
    time_graph(map,
               fmt::format("input x {0}\nparam gamma f32[{1}]\nparam beta f32[{1}]\nstats: stats = batch_norm_stats(x)\n"
                           "finalize: moments = batch_norm_finalize(stats)\napply: y = batch_norm_apply(x, moments, gamma, beta)",
                           map, std::string_view(map).starts_with("f32[256, 3,") ? 3 : 2048),
               {"batch_norm_stats", "batch_norm_apply", "batch_norm_grad_stats", "batch_norm_grad_apply"});
  time_graph("256 x 64 x 112 x 112",
             "input x f32[256, 64, 112, 112]\npool: y = max_pool(x) kernel=[3, 3] stride=[2, 2] padding=[1, 1, 1, 1]",
             {"max_pool", "max_pool_grad"});
}

int run(const std::set<std::string>& parts) {
  int cards = 0;
  if (cudaGetDeviceCount(&cards) != cudaSuccess || cards == 0) user_error("there is no CUDA device");
  register_ops();
  const std::pair<std::string, void (*)()> all[] = {
      {"attention", attention}, {"fused", fused}, {"products", products}, {"stems", stems},
      {"depthwise", depthwise}, {"maps", maps},   {"rows", rows}};
  for (const auto& [name, part] : all) {
    if (!parts.empty() && !parts.contains(name)) continue;
    fmt::print("-- {}\n", name);
    try {
      part();
    } catch (const UserError& error) {
      fmt::print("{}: {}\n", name, error.what());
    }
  }
  return 0;
}

}  // namespace
}  // namespace outsize

int main(int count, char** arguments) {
  try {
    return outsize::run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    std::cerr << "card_bench: " << error.what() << "\n";
    return 1;
  }
}
