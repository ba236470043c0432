#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "../close.h"
#include "all_cases.h"
#include "graph/autodiff.h"
#include "graph/fusion.h"
#include "graph/text.h"
#include "ops/conv/cuda_convolution.h"
#include "ops/registry.h"

// Convolutions on the card that is here beside those of the reference kernels, and what they take. Skipped where there is none.
namespace outsize {
namespace {

constexpr StorageRule kStorage{.channels_last = true};

// Memory of the card, and the same on the host.
class Mirror {
 public:
  explicit Mirror(std::int64_t bytes) : host_(static_cast<std::size_t>(bytes), std::byte{0xff}) {
    if (bytes > 0) {
      EXPECT_EQ(cudaMalloc(&card_, static_cast<std::size_t>(bytes)), cudaSuccess);
    }
    upload();
  }
  Mirror(Mirror&& other) noexcept : host_(std::move(other.host_)), card_(std::exchange(other.card_, nullptr)) {}
  Mirror& operator=(Mirror&&) = delete;
  ~Mirror() { cudaFree(card_); }

  void fill(std::mt19937& random, float scale) {
    std::normal_distribution<float> normal(0, scale);
    for (std::size_t i = 0; i < host_.size() / sizeof(float); ++i) floats()[i] = normal(random);
    upload();
  }
  void upload() {
    if (card_ != nullptr) {
      EXPECT_EQ(cudaMemcpy(card_, host_.data(), host_.size(), cudaMemcpyHostToDevice), cudaSuccess);
    }
  }
  std::vector<float> download() const {
    std::vector<float> numbers(host_.size() / sizeof(float));
    if (card_ != nullptr) {
      EXPECT_EQ(cudaMemcpy(numbers.data(), card_, host_.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    }
    return numbers;
  }
  float* floats() { return reinterpret_cast<float*>(host_.data()); }
  std::byte* host() { return host_.empty() ? nullptr : host_.data(); }
  std::byte* card() const { return static_cast<std::byte*>(card_); }

 private:
  std::vector<std::byte> host_;
  void* card_ = nullptr;
};

// A graph's convolutions and their gradients.
struct Convolutions {
  Graph graph;
  explicit Convolutions(const OpCase& op_case, bool fused) : graph(parse_graph(op_case.graph, op_case.name)) {
    if (fused) graph = fuse(graph);
    AutodiffOptions options{graph.outputs(), {}};
    for (std::int64_t i = 0; i < graph.value_count(); ++i)
      if (graph.value(ValueId(i)).role == Role::input) options.with_respect.push_back(ValueId(i));
    differentiate(graph, options);
  }
  template <class Function>
  void for_each(const Function& function) const {
    for (std::int64_t i = 0; i < graph.op_count(); ++i)
      if (const OpSite site{graph, graph.op(OpId(i))}; site.op.def->kind().starts_with("conv")) function(site);
  }
};

CallBoxes whole(const OpSite& site) {
  CallBoxes boxes;
  for (int i = 0; i < site.inputs(); ++i) boxes.in.push_back(Box::whole(site.in(i).shape));
  for (int i = 0; i < site.outputs(); ++i) boxes.out.push_back(Box::whole(site.out(i).shape));
  return boxes;
}

// A call with its memory.
class Trial {
 public:
  Trial(const OpSite& site, const CallBoxes& boxes, bool tf32)
      : site_(site), boxes_(boxes), kernel_(cuda_kernels(tf32).prepare({site, boxes, boxes.in[0]}, kStorage)) {
    std::mt19937 random(7);
    for (std::size_t i = 0; i < boxes.in.size(); ++i)
      in_.emplace_back(bytes(site.in(static_cast<int>(i)), boxes.in[i])).fill(random, 1);
    for (std::size_t i = 0; i < boxes.out.size(); ++i) out_.emplace_back(bytes(site.out(static_cast<int>(i)), boxes.out[i]));
    workspace_.emplace(kernel_->workspace_bytes());
  }

  const Kernel& kernel() const { return *kernel_; }

  void run(cudaStream_t stream) {
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    for (const Mirror& mirror : in_) in.push_back(mirror.card());
    for (const Mirror& mirror : out_) out.push_back(mirror.card());
    kernel_->run({in, out, workspace_->card(), boxes_.in, boxes_.out, boxes_.in[0], stream});
  }

  // The relative error of the results, in the L2 norm.
  double error() {
    run(nullptr);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    static const KernelTable reference = reference_kernels();
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    for (Mirror& mirror : in_) in.push_back(mirror.host());
    for (Mirror& mirror : out_) out.push_back(mirror.host());
    reference.prepare({site_, boxes_, boxes_.in[0]}, kStorage)
        ->run({in, out, nullptr, boxes_.in, boxes_.out, boxes_.in[0], nullptr});
    double worst = 0;
    for (Mirror& mirror : out_) {
      const std::vector<float> found = mirror.download();
      const std::span expected(mirror.floats(), found.size());
      // One element may be the small difference of large ones.
      worst = std::max(worst, relative_l2_error(found, expected, std::sqrt(static_cast<double>(found.size()))));
    }
    return worst;
  }

  // Whether it gives the same bits twice.
  bool repeats() {
    std::vector<std::vector<float>> first;
    for (const Mirror& mirror : out_) first.push_back(mirror.download());
    for (Mirror& mirror : out_) mirror.upload();
    run(nullptr);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (std::size_t i = 0; i < out_.size(); ++i)
      if (const std::vector<float> again = out_[i].download();
          std::memcmp(again.data(), first[i].data(), again.size() * sizeof(float)) != 0)
        return false;
    return true;
  }

  double seconds() {
    cudaEvent_t begin = nullptr, end = nullptr;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    float least = INFINITY;
    for (int i = 0; i < 6; ++i) {
      cudaEventRecord(begin, nullptr);
      run(nullptr);
      cudaEventRecord(end, nullptr);
      cudaEventSynchronize(end);
      float milliseconds = 0;
      EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
      if (i > 0) least = std::min(least, milliseconds);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return least * 1e-3;
  }

 private:
  static std::int64_t bytes(const ValueType& type, const Box& box) {
    return box.empty() ? 0 : stored_bytes(kStorage, type, box.shape());
  }

  OpSite site_;
  CallBoxes boxes_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<Mirror> in_, out_;
  std::optional<Mirror> workspace_;
};

class ConvolutionsOnTheCard : public testing::Test {
 protected:
  void SetUp() override {
    int cards = 0;
    if (cudaGetDeviceCount(&cards) != cudaSuccess || cards == 0) GTEST_SKIP() << "no CUDA device";
    register_ops();
  }
};

Box random_box(std::mt19937& random, const Dims& shape) {
  Box box = Box::whole(shape);
  for (int dim = 0; dim < shape.rank(); ++dim) {
    const std::int64_t size = std::uniform_int_distribution<std::int64_t>(1, shape[dim])(random);
    const std::int64_t lo = std::uniform_int_distribution<std::int64_t>(0, shape[dim] - size)(random);
    box.set(dim, {lo, lo + size});
  }
  return box;
}

TEST_F(ConvolutionsOnTheCard, GiveWhatTheReferenceGives) {
  std::mt19937 random(11);
  int calls = 0;
  for (const auto& [op, cases] : all_cases()) {
    if (!op.starts_with("conv")) continue;
    for (const OpCase& op_case : cases) {
      if (op_case.bench) continue;
      for (const bool fused : {false, true})
        Convolutions(op_case, fused).for_each([&](const OpSite& site) {
          for (const bool tf32 : {false, true})
            for (int i = 0; i < 4; ++i) {
              CallBoxes boxes = whole(site);
              if (i == 1 || i == 2) boxes = site.op.def->gather(site, random_box(random, site.out(0).shape));
              if (i == 3) boxes = site.op.def->push(site, random_box(random, site.in(0).shape));
              Trial trial(site, boxes, tf32);
              const std::string what = fmt::format("{}, {} {} by {}, out {}", op_case.name, site.op.def->kind(),
                                                   tf32 ? "tf32" : "f32", trial.kernel().name(), to_string(boxes.out[0]));
              EXPECT_LE(trial.error(), tf32 ? 2e-3 : 1e-5) << what;
              EXPECT_TRUE(trial.repeats()) << what;
              ++calls;
            }
        });
    }
  }
  fmt::print("{} calls\n", calls);
}

// A NaN in the input reaches the result through bias and relu.
TEST_F(ConvolutionsOnTheCard, KeepNan) {
  const OpCase op_case{.name = "nan", .graph = R"(
graph nan
input x f32[8, 64, 32, 32]
param weight f32[64, 64, 3, 3] init=normal:0.3
param bias f32[64] init=normal:0.3
conv: y = conv2d(x, weight, bias) padding=[1, 1, 1, 1] activation=relu
output y
)"};
  const Graph graph = parse_graph(op_case.graph, op_case.name);
  const OpSite site{graph, graph.op(OpId(0))};
  for (const bool tf32 : {false, true}) {
    const CallBoxes boxes = whole(site);
    const std::unique_ptr<Kernel> kernel = cuda_kernels(tf32).prepare({site, boxes, boxes.in[0]}, kStorage);
    Mirror x(8 * 64 * 32 * 32 * 4), weight(64 * 64 * 9 * 4), bias(64 * 4), y(8 * 64 * 32 * 32 * 4),
        workspace(kernel->workspace_bytes());
    std::mt19937 random(7);
    for (Mirror* mirror : {&x, &weight, &bias}) mirror->fill(random, 1);
    x.floats()[64 * (5 * 32 + 7)] = std::nanf("");
    x.upload();
    const std::vector<const std::byte*> in{x.card(), weight.card(), bias.card()};
    const std::vector<std::byte*> out{y.card()};
    kernel->run({in, out, workspace.card(), boxes.in, boxes.out, boxes.in[0], nullptr});
    const std::vector<float> found = y.download();
    std::int64_t wrong = 0;
    for (std::int64_t row = 4; row <= 6; ++row)
      for (std::int64_t column = 6; column <= 8; ++column)
        for (std::int64_t c = 0; c < 64; ++c) wrong += !std::isnan(found[static_cast<std::size_t>((row * 32 + column) * 64 + c)]);
    EXPECT_EQ(wrong, 0) << kernel->name() << (tf32 ? ", tf32" : "");
  }
}

struct Timed {
  const char* name;
  const char* graph;
};

TEST_F(ConvolutionsOnTheCard, Take) {
  const Timed timed[]{
      {"3x3, 256 channels",
       "input x f32[32, 256, 56, 56]\nparam w f32[256, 256, 3, 3]\nparam b f32[256]\n"
       "conv: y = conv2d(x, w, b) padding=[1, 1, 1, 1] activation=relu"},
      {"1x1, 256 to 64", "input x f32[256, 256, 56, 56]\nparam w f32[64, 256, 1, 1]\nconv: y = conv2d(x, w)"},
      {"3x3 stride 2",
       "input x f32[128, 128, 56, 56]\nparam w f32[128, 128, 3, 3]\n"
       "conv: y = conv2d(x, w) stride=[2, 2] padding=[1, 1, 1, 1]"},
      {"stem 7x7",
       "input x f32[256, 3, 224, 224]\nparam w f32[64, 3, 7, 7]\n"
       "conv: y = conv2d(x, w) stride=[2, 2] padding=[3, 3, 3, 3]"},
      {"stem 3x3",
       "input x f32[1, 3, 2048, 2048]\nparam w f32[64, 3, 3, 3]\nparam b f32[64]\n"
       "conv: y = conv2d(x, w, b) padding=[1, 1, 1, 1] activation=relu"},
      {"second of VGG",
       "input x f32[1, 64, 2048, 2048]\nparam w f32[64, 64, 3, 3]\nparam b f32[64]\n"
       "conv: y = conv2d(x, w, b) padding=[1, 1, 1, 1] activation=relu"},
      {"depthwise 7x7",
       "input x f32[64, 192, 56, 56]\nparam w f32[192, 1, 7, 7]\nparam b f32[192]\n"
       "conv: y = conv2d(x, w, b) padding=[3, 3, 3, 3] groups=192"},
      {"depthwise 3x3",
       "input x f32[64, 192, 56, 56]\nparam w f32[192, 1, 3, 3]\n"
       "conv: y = conv2d(x, w) padding=[1, 1, 1, 1] groups=192"},
      {"3-D 32 to 64",
       "input x f32[1, 32, 128, 128, 128]\nparam w f32[64, 32, 3, 3, 3]\n"
       "conv: y = conv3d(x, w) padding=[1, 1, 1, 1, 1, 1]"},
      {"3-D doubling",
       "input x f32[1, 64, 64, 64, 64]\nparam w f32[64, 32, 2, 2, 2]\nparam b f32[32]\n"
       "conv: y = conv_transpose3d(x, w, b) stride=[2, 2, 2]"},
  };
  for (const Timed& one : timed) {
    const OpCase op_case{.name = one.name, .graph = fmt::format("graph g\n{}\noutput y\n", one.graph)};
    Convolutions(op_case, true).for_each([&](const OpSite& site) {
      for (const bool tf32 : {true, false}) {
        Trial trial(site, whole(site), tf32);
        const CallBoxes boxes = whole(site);
        const double seconds = trial.seconds();
        fmt::print("{:18} {:22} {:4} {:8.3f} ms {:6.1f} TFLOP/s, workspace {:5} MiB, {}\n", one.name, site.op.def->kind(),
                   tf32 ? "tf32" : "f32", seconds * 1e3, site.op.def->cost(site, boxes).flops / seconds * 1e-12,
                   trial.kernel().workspace_bytes() >> 20, trial.kernel().name());
        const std::vector<ConvolutionSignature> signatures = emulated::convolution_signatures({site, boxes, boxes.in[0]}, tf32);
        if (signatures.size() == 1)
          for (const auto& plan : convolution_plans(signatures[0]))
            fmt::print("    {:20} {:8.3f} ms, workspace {} MiB\n", plan->name(), plan->seconds() * 1e3,
                       plan->workspace_bytes() >> 20);
      }
    });
  }
}

}  // namespace
}  // namespace outsize
