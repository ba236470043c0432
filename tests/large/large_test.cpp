// Values of more than 2^31 elements: whole calls of the CPU kernels, or where OUTSIZE_TEST_CARD is set (to f32 or tf32) of a
// card's, or (to host) of the card's block programs as loops of the host, checked on small boxes at the start, around the element
// 2^31 and at the end against the reference kernels on exactly their windows. Skipped where there is not memory enough.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <string>

#include "../close.h"
#include "backend/interface.h"
#include "graph/text.h"
#include "ops/registry.h"

namespace outsize {
namespace {

constexpr std::int64_t kSide = 11648;  // 16 × 11648² = 2,170,814,464 elements, 8.1 GiB in f32

std::int64_t available_bytes() {
  std::ifstream info("/proc/meminfo");
  std::string word;
  std::int64_t kib = 0;
  while (info >> word)
    if (word == "MemAvailable:") info >> kib;
  return kib * 1024;
}

// Memory that is not kept a moment longer than the test needs it.
class Buffer {
 public:
  explicit Buffer(std::int64_t bytes) : bytes_(bytes) {
    data_ = static_cast<std::byte*>(
        mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    madvise(data_, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  }
  ~Buffer() { munmap(data_, static_cast<std::size_t>(bytes_)); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// A piece of a card: memory of its own with what a buffer holds, which fetch() brings back.
class CardPiece {
 public:
  CardPiece(Backend& card, std::byte* host, std::int64_t bytes) : card_(card), host_(host, static_cast<std::size_t>(bytes)) {
    memory_ = card_.allocate(Tier::device, bytes);
    card_.upload(Tier::device, host_, memory_);
  }
  ~CardPiece() { card_.deallocate(Tier::device, memory_, static_cast<std::int64_t>(host_.size())); }
  CardPiece(const CardPiece&) = delete;
  CardPiece& operator=(const CardPiece&) = delete;
  std::byte* data() const { return memory_; }
  void fetch() const { card_.download(Tier::device, memory_, host_); }

 private:
  Backend& card_;
  std::span<std::byte> host_;
  std::byte* memory_ = nullptr;
};

// The integer behind the element at (c, h, w); `salt` tells values apart. Elements are this over 64, exact in f32.
std::int32_t numerator(std::int64_t salt, std::int64_t c, std::int64_t h, std::int64_t w) {
  const auto mixed = static_cast<std::uint32_t>(h * 131 + w * 17 + c * 7 + (h ^ w) * 3 + salt * 29);
  return static_cast<std::int32_t>(mixed % 251) - 125;
}

class Large : public testing::Test {
 protected:
  void SetUp() override {
    if (available_bytes() < std::int64_t{19} << 30) GTEST_SKIP() << "needs 19 GiB of free memory";
    register_ops();
    const char* card = std::getenv("OUTSIZE_TEST_CARD");
    const bool tf32 = card && std::string_view(card) == "tf32", host = card && std::string_view(card) == "host";
    backend_ = make_backend(host ? "cuda-host" : card ? "cuda" : "cpu", 2, tf32);
    tolerance_ = tf32 ? 1e-3 : 1e-5;
    reference_ = make_backend("reference", 1);
  }

  void parse(const std::string& op) {
    std::string shapes = fmt::format("input x f32[1, 16, {0}, {0}]\ninput x2 f32[1, 16, {0}, {0}]\n", kSide);
    shapes += fmt::format("input dy f32[1, 16, {0}, {0}]\nparam w f32[16, 16, 3, 3]\n", kSide / 2);
    shapes += "param c f32[16]\ninput moments f64[2, 16]\n";
    graph_ = parse_graph("graph large\n" + shapes + op + "\noutput y\n", "large");
    ASSERT_EQ(graph_.op_count(), 1);
  }
  const Op& op() const { return graph_.op(OpId(0)); }
  std::int64_t bytes(ValueId value) const {
    return stored_bytes(backend_->storage(), graph_.value(value).type, graph_.value(value).type.shape);
  }

  // Fills a piece that holds `box` with the pattern of a value.
  void fill(const StorageRule& rule, ValueId value, const Box& box, std::byte* data) const {
    const ValueType& type = graph_.value(value).type;
    const std::int64_t salt = value.index;
    if (type.format == Format::plain) {
      for (std::int64_t i = 0; i < box.elements(); ++i) {
        const std::int64_t number = numerator(salt, i, i / 3, i % 5);
        if (type.dtype == DType::f64)
          reinterpret_cast<double*>(data)[i] = std::abs(static_cast<double>(number)) / 64;
        else
          reinterpret_cast<float*>(data)[i] = static_cast<float>(number) / 64;
      }
      return;
    }
    float* const elements = reinterpret_cast<float*>(data);
#pragma omp parallel for
    for (std::int64_t h = box.lo[2]; h < box.hi[2]; ++h)
      for (std::int64_t c = box.lo[1]; c < box.hi[1]; ++c) {
        const auto offset = [&](std::int64_t w) { return stored_offset(rule, type.format, box, {0, c, h, w}); };
        float* const row = elements + offset(box.lo[3]);
        const std::int64_t step = box.extent(3) > 1 ? offset(box.lo[3] + 1) - offset(box.lo[3]) : 1;
        for (std::int64_t w = box.lo[3]; w < box.hi[3]; ++w)
          row[(w - box.lo[3]) * step] = static_cast<float>(numerator(salt, c, h, w)) / 64;
      }
  }

  // Runs the op whole: with `in_place_of` ≥ 0 its first output overwrites that input.
  void run(std::deque<Buffer>& inputs, std::deque<Buffer>& outputs, int in_place_of = -1) {
    CallBoxes boxes;
    for (ValueId input : op().inputs) boxes.in.push_back(Box::whole(graph_.value(input).type.shape));
    for (ValueId output : op().outputs) boxes.out.push_back(Box::whole(graph_.value(output).type.shape));
    for (std::size_t i = 0; i < op().inputs.size(); ++i) {
      inputs.emplace_back(bytes(op().inputs[i]));
      fill(backend_->storage(), op().inputs[i], boxes.in[i], inputs[i].data());
    }
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    for (const Buffer& buffer : inputs) in.push_back(buffer.data());
    for (std::size_t o = 0; o < op().outputs.size(); ++o) {
      outputs.emplace_back(in_place_of >= 0 && o == 0 ? 1 : bytes(op().outputs[o]));
      out.push_back(in_place_of >= 0 && o == 0 ? inputs[static_cast<std::size_t>(in_place_of)].data() : outputs[o].data());
    }
    const Call call{{graph_, op()}, boxes, boxes.in[0]};
    const auto kernel = backend_->kernel(call);
    const Buffer workspace(kernel->workspace_bytes() + 1);
    if (!backend_->queues()) return kernel->run({in, out, workspace.data(), call.boxes.in, call.boxes.out, call.owned});

    std::deque<CardPiece> pieces;
    for (std::size_t i = 0; i < in.size(); ++i)
      in[i] = pieces.emplace_back(*backend_, inputs[i].data(), bytes(op().inputs[i])).data();
    for (std::size_t o = 0; o < out.size(); ++o)
      out[o] = in_place_of >= 0 && o == 0 ? pieces[static_cast<std::size_t>(in_place_of)].data()
                                          : pieces.emplace_back(*backend_, outputs[o].data(), bytes(op().outputs[o])).data();
    const CardPiece room(*backend_, workspace.data(), kernel->workspace_bytes() + 1);
    kernel->run({in, out, room.data(), call.boxes.in, call.boxes.out, call.owned, backend_->queues()->queue(Lane::compute)});
    backend_->queues()->finish();
    for (const CardPiece& piece : pieces) piece.fetch();
  }

  // Small boxes of output 0 against the reference on their windows.
  void expect_windows(const std::byte* y) {
    const Dims shape = graph_.value(op().outputs[0]).type.shape;
    const std::int64_t h = shape[2], w = shape[3];
    const std::int64_t middle = (std::int64_t{1} << 31) / (16 * w);  // the row of a blocked map's element 2^31
    for (const auto& [row, column] : {std::pair{std::int64_t{0}, std::int64_t{0}}, std::pair{std::min(middle, h - 2) - 1, w / 2},
                                      std::pair{std::min(middle, h - 2), std::int64_t{0}}, std::pair{h - 2, w - 3}}) {
      const Box box({0, 0, row, column}, {1, 16, row + 2, column + 3});
      const OpSite site{graph_, op()};
      CallBoxes boxes = op().def->gather(site, box);
      std::vector<std::vector<double>> storage;  // aligned for any element
      std::vector<const std::byte*> in;
      std::vector<std::byte*> out;
      const auto room = [&](ValueId value, const Box& part) {
        storage.emplace_back(static_cast<std::size_t>(stored_bytes({1}, graph_.value(value).type, part.shape()) / 8 + 1));
        return reinterpret_cast<std::byte*>(storage.back().data());
      };
      for (std::size_t i = 0; i < op().inputs.size(); ++i) {
        std::byte* const data = room(op().inputs[i], boxes.in[i]);
        fill({1}, op().inputs[i], boxes.in[i], data);
        in.push_back(data);
      }
      for (std::size_t o = 0; o < op().outputs.size(); ++o) out.push_back(room(op().outputs[o], boxes.out[o]));
      const Call call{site, boxes, boxes.in[0]};
      reference_->kernel(call)->run({in, out, nullptr, call.boxes.in, call.boxes.out, call.owned});
      std::vector<double> found, expected;
      for (std::int64_t c = 0; c < 16; ++c)
        for (std::int64_t r = box.lo[2]; r < box.hi[2]; ++r)
          for (std::int64_t q = box.lo[3]; q < box.hi[3]; ++q) {
            const Dims at{0, c, r, q};
            expected.push_back(reinterpret_cast<const float*>(out[0])[stored_offset({1}, Format::map, box, at)]);
            found.push_back(
                reinterpret_cast<const float*>(y)[stored_offset(backend_->storage(), Format::map, Box::whole(shape), at)]);
          }
      EXPECT_TRUE(is_close(found, expected, tolerance_)) << to_string(box);
      EXPECT_TRUE(std::ranges::any_of(expected, [](double number) { return number != 0; })) << to_string(box);
    }
  }

  Graph graph_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Backend> reference_;
  double tolerance_ = 1e-5;
};

TEST_F(Large, Convolution) {
  parse("conv: y = conv2d(x, w, c) stride=[2, 2] padding=[1, 1, 0, 0]");
  std::deque<Buffer> in, out;
  run(in, out);
  expect_windows(out[0].data());
}

TEST_F(Large, ConvolutionDataGradient) {
  parse(fmt::format("conv: y = conv2d_grad_data(dy, w) stride=[2, 2] padding=[1, 1, 0, 0] input=[{0}, {0}]", kSide));
  std::deque<Buffer> in, out;
  run(in, out);
  expect_windows(out[0].data());
}

TEST_F(Large, MaxPool) {
  parse("pool: y = max_pool(x)");
  std::deque<Buffer> in, out;
  run(in, out);
  expect_windows(out[0].data());
}

TEST_F(Large, Add) {
  parse("add: y = add(x, x2)");
  std::deque<Buffer> in, out;
  run(in, out, 0);
  expect_windows(in[0].data());
}

TEST_F(Large, BatchNormApply) {
  parse("bn: y = batch_norm_apply(x, moments, c, c) activation=relu");
  std::deque<Buffer> in, out;
  run(in, out, 0);
  expect_windows(in[0].data());
}

TEST_F(Large, BatchNormStats) {
  parse("bn: y = batch_norm_stats(x)");
  std::deque<Buffer> in, out;
  run(in, out);
  const double* stats = reinterpret_cast<const double*>(out[0].data());
  const double count = static_cast<double>(kSide * kSide);
  for (std::int64_t c = 0; c < 16; c += 5) {
    std::int64_t sum = 0, squares = 0;  // exact: 1.4e8 × 125² fits
#pragma omp parallel for reduction(+ : sum, squares)
    for (std::int64_t h = 0; h < kSide; ++h)
      for (std::int64_t w = 0; w < kSide; ++w) {
        const std::int64_t number = numerator(op().inputs[0].index, c, h, w);
        sum += number;
        squares += number * number;
      }
    const double mean = static_cast<double>(sum) / count / 64;
    const double m2 = static_cast<double>(squares) / 4096 - count * mean * mean;
    EXPECT_EQ(stats[c], count);
    EXPECT_NEAR(stats[16 + c], mean, 1e-6);
    EXPECT_NEAR(stats[32 + c] / m2, 1, 1e-6);
  }
}

}  // namespace
}  // namespace outsize
