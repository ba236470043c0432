// What goes wrong in a step must be seen, and must not hang or allocate.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>

#include "backend/reference/reference.h"
#include "hand_program.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define OUTSIZE_COUNT_ALLOCATIONS 1
namespace {
std::atomic<bool> counting{false};
std::atomic<std::int64_t> allocations{0};
void count() {
  if (counting) ++allocations;
}
}  // namespace

// Every allocation of the program passes here: operator new and the C library's own calls end in these too.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void* malloc(std::size_t size) noexcept {
  count();
  return __libc_malloc(size);
}
void* calloc(std::size_t number, std::size_t size) noexcept {
  count();
  return __libc_calloc(number, size);
}
void* realloc(void* memory, std::size_t size) noexcept {
  count();
  return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  count();
  return __libc_memalign(alignment, size);
}
}
#endif

namespace outsize {
namespace {

using Floats = std::vector<float>;

// The reference backend with a fault put in.
class Faulty final : public Backend {
 public:
  enum class Fault { none, copy_in, copy_out, kernel, byte_after, byte_before, far_byte };

  std::string_view name() const override { return "faulty"; }
  StorageRule storage() const override { return inner_->storage(); }
  bool supports(DType dtype) const override { return inner_->supports(dtype); }
  std::byte* allocate(Tier tier, std::int64_t bytes) override { return inner_->allocate(tier, bytes); }
  std::byte* reallocate(Tier tier, std::byte* memory, std::int64_t bytes, std::int64_t wanted) override {
    return inner_->reallocate(tier, memory, bytes, wanted);
  }
  void deallocate(Tier tier, std::byte* memory, std::int64_t bytes) override { inner_->deallocate(tier, memory, bytes); }
  void release_kernels() override { inner_->release_kernels(); }
  void add(const CopyPlan& plan, DType dtype, const std::byte* from, std::byte* to) override { inner_->add(plan, dtype, from, to); }
  void zero(std::byte* memory, std::int64_t bytes) override { inner_->zero(memory, bytes); }

  void copy(Lane lane, const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::byte* to) override {
    if ((fault == Fault::copy_in && lane == Lane::copy_in) || (fault == Fault::copy_out && lane == Lane::copy_out))
      throw UserError("the link is broken");
    inner_->copy(lane, plan, element_bytes, from, to);
  }

  // Faults of kernels are those of `add`.
  std::shared_ptr<const Kernel> kernel(const Call& call) override {
    auto inner = inner_->kernel(call);
    if (call.site.op.def->kind() != "add") return inner;
    return std::make_shared<FaultyKernel>(inner, fault, stored_bytes(storage(), call.site.out(0), call.boxes.out[0].shape()));
  }

  Fault fault = Fault::none;

 private:
  class FaultyKernel final : public Kernel {
   public:
    FaultyKernel(std::shared_ptr<const Kernel> inner, const Fault& fault, std::int64_t bytes)
        : inner_(std::move(inner)), fault_(fault), bytes_(bytes) {}
    std::string name() const override { return "faulty"; }
    void run(const KernelRun& run) const override {
      if (fault_ == Fault::kernel) throw InternalError("the kernel failed");
      inner_->run(run);
      if (fault_ == Fault::byte_after) run.out[0][bytes_] = std::byte{1};
      if (fault_ == Fault::byte_before) run.out[0][-1] = std::byte{1};
      if (fault_ == Fault::far_byte) run.out[0][bytes_ + 600] = std::byte{1};
    }

   private:
    std::shared_ptr<const Kernel> inner_;
    const Fault& fault_;
    std::int64_t bytes_;
  };

  std::unique_ptr<Backend> inner_ = make_reference_backend();
};

template <class Error>
std::string message_of(Executor& executor) {
  try {
    executor.step();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Faults, AFailingLaneStopsAllAndTheStepCanBeRepeated) {
  const Graph graph = graph_of(kSwapGraph);
  const HandProgram hand = swap_program(graph);
  for (const bool debug : {false, true}) {
    Faulty backend;
    Executor executor(graph, hand.program, backend, traced(debug));
    for (int round = 0; round < 50; ++round) {
      backend.fault = Faulty::Fault::copy_in;  // compute waits for it
      EXPECT_EQ(message_of<UserError>(executor), "the link is broken");
      backend.fault = Faulty::Fault::copy_out;  // compute and copy_in wait for it
      EXPECT_EQ(message_of<UserError>(executor), "the link is broken");
      backend.fault = Faulty::Fault::kernel;  // copy_in waits for it
      EXPECT_EQ(message_of<InternalError>(executor), "the kernel failed");
      backend.fault = Faulty::Fault::none;
      write_values(executor, graph, "x", Floats{-1, 2, -3, 4});
      executor.step();
      EXPECT_EQ(read_values(executor, graph, "z"), (Floats{-1, 6, -3, 12}));
    }
  }
}

// The swap program's pieces of 16 bytes lie 256 apart, so 64 bytes around each belong to nobody.
TEST(Faults, CanariesCatchOneByteTooFar) {
  const Graph graph = graph_of(kSwapGraph);
  const HandProgram hand = swap_program(graph);
  Faulty backend;
  Executor executor(graph, hand.program, backend, traced(true, 64));
  write_values(executor, graph, "x", Floats{-1, 2, -3, 4});
  executor.step();
  EXPECT_EQ(executor.measured_peak_bytes(), hand.program.peak_bytes[0]);
  backend.fault = Faulty::Fault::byte_after;
  EXPECT_EQ(message_of<InternalError>(executor),
            "instruction 2 (kernel, op twice) wrote outside piece 'w' (16 bytes at 0 of the device arena): byte 1 after it was "
            "changed");
  Program shifted = hand.program;
  for (Piece& piece : shifted.pieces)
    if (piece.tier == Tier::device) piece.offset += 256;
  shifted.peak_bytes[0] += 256;
  Executor other(graph, shifted, backend, traced(true, 64));
  backend.fault = Faulty::Fault::byte_before;
  EXPECT_EQ(message_of<InternalError>(other),
            "instruction 2 (kernel, op twice) wrote outside piece 'w' (16 bytes at 256 of the device arena): byte 1 before it was "
            "changed");
}

TEST(Faults, TheGuardBehindTheArenaIsCheckedAfterEveryStep) {
  const Graph graph = graph_of(kSwapGraph);
  const HandProgram hand = swap_program(graph);
  Faulty backend;
  backend.fault = Faulty::Fault::far_byte;
  Executor executor(graph, hand.program, backend);
  write_values(executor, graph, "x", Floats{-1, 2, -3, 4});
  // w at 0: byte 616; z at 512: byte 1128. The arena ends at 528.
  EXPECT_EQ(message_of<InternalError>(executor), "byte 616 of the device arena was written, which ends at 528");
}

constexpr std::string_view kChainGraph = R"(graph chain
input x f32[2]
param p f32[2]
first: y = relu(x)
second: z = relu(y)
third: q = add(z, p)
output q
)";

// y and z take over x's bytes in place; q follows.
HandProgram chain_program(const Graph& graph) {
  HandProgram hand(graph);
  const PieceId p = hand.piece("p", Tier::device, 0);
  const PieceId x = hand.piece("x", Tier::device, 256), y = hand.piece("y", Tier::device, 256);
  const PieceId z = hand.piece("z", Tier::device, 256), q = hand.piece("q", Tier::device, 512);
  hand.program.piece(y).shares = x;
  hand.program.piece(z).shares = y;
  hand.persistent(p);
  hand.input(x);
  hand.output(q);
  hand.kernel("first", {hand.whole(x)}, {hand.whole(y)});
  hand.kernel("second", {hand.whole(y)}, {hand.whole(z)});
  hand.kernel("third", {hand.whole(z), hand.whole(p)}, {hand.whole(q)});
  return hand;
}

TEST(Faults, PoisonSparesInPlaceChainsOutputsAndPersistentValues) {
  const Graph graph = graph_of(kChainGraph);
  const HandProgram hand = chain_program(graph);
  const auto backend = make_reference_backend();
  Executor executor(graph, hand.program, *backend, traced(true, 32));
  write_values(executor, graph, "p", Floats{10, 20});
  for (int step = 0; step < 3; ++step) {
    write_values(executor, graph, "x", Floats{-1, 2});
    executor.step();
    EXPECT_EQ(read_values(executor, graph, "q"), (Floats{10, 22}));
  }
  // Without being written again, x is what the step left behind: relu(NaN) is what relu makes of it, but not 2.
  executor.step();
  EXPECT_NE(read_values(executor, graph, "q")[1], 22);
}

TEST(Faults, PoisonShowsAReadAfterTheLastUse) {
  const Graph graph = graph_of(kChainGraph);
  HandProgram hand = chain_program(graph);
  const auto z =
      std::find_if(hand.program.pieces.begin(), hand.program.pieces.end(), [](const Piece& piece) { return piece.label == "z"; });
  z->last = 1;  // wrong: the third op reads it
  const auto backend = make_reference_backend();
  Executor executor(graph, hand.program, *backend, traced(true));
  write_values(executor, graph, "p", Floats{10, 20});
  write_values(executor, graph, "x", Floats{-1, 2});
  executor.step();
  EXPECT_TRUE(std::isnan(read_values(executor, graph, "q")[1]));
}

TEST(Faults, DebugRunsRefuseAWaitForWhatIsIssuedLater) {
  const Graph graph = graph_of(kSwapGraph);
  HandProgram hand = swap_program(graph);
  hand.program.instructions[1].waits.push_back({Lane::copy_in, 1, 0});
  const auto backend = make_reference_backend();
  Executor executor(graph, hand.program, *backend, traced(true));
  EXPECT_EQ(message_of<InternalError>(executor),
            "instruction 1 (kernel, op relu) waits for an instruction of lane copy_in that is issued after it");
}

#ifdef OUTSIZE_COUNT_ALLOCATIONS
TEST(Faults, AStepAllocatesNothing) {
  const Graph graph = graph_of(kSwapGraph);
  const HandProgram hand = swap_program(graph);
  const auto backend = make_reference_backend();
  Executor executor(graph, hand.program, *backend, traced());
  write_values(executor, graph, "x", Floats{-1, 2, -3, 4});
  counting = true;
  delete new std::string(100, 'x');
  counting = false;
  ASSERT_EQ(allocations, 2);  // the counter counts: the string and its text
  allocations = 0;
  counting = true;
  for (int step = 0; step < 20; ++step) executor.step();
  counting = false;
  EXPECT_EQ(allocations, 0);
  EXPECT_EQ(executor.trace().events.size(), 5u);
}
#endif

}  // namespace
}  // namespace outsize
