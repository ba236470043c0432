// What goes wrong in a step must be seen, and must not hang or allocate.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "backend/host_memory.h"
#include "backend/reference/reference.h"
#include "hand_program.h"
#include "run/checksums.h"

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
  int threads() const override { return inner_->threads(); }
  std::int64_t free_bytes() const override { return inner_->free_bytes(); }
  bool supports(DType dtype) const override { return inner_->supports(dtype); }
  std::byte* allocate(Tier tier, std::int64_t bytes) override {
    std::byte* const memory = inner_->allocate(tier, bytes);
    if (tier == Tier::host) host = memory;
    return memory;
  }
  std::byte* reallocate(Tier tier, std::byte* memory, std::int64_t bytes, std::int64_t wanted) override {
    return inner_->reallocate(tier, memory, bytes, wanted);
  }
  void deallocate(Tier tier, std::byte* memory, std::int64_t bytes) override { inner_->deallocate(tier, memory, bytes); }
  void release_kernels() override { inner_->release_kernels(); }
  void combine(Lane lane, Combine rule, const CopyPlan& plan, DType dtype, const std::byte* from, std::byte* to) override {
    inner_->combine(lane, rule, plan, dtype, from, to);
  }
  void zero(Lane lane, std::byte* memory, std::int64_t bytes) override { inner_->zero(lane, memory, bytes); }
  void fill(Tier tier, std::byte* memory, std::int64_t bytes, std::byte byte) override { inner_->fill(tier, memory, bytes, byte); }
  std::int64_t first_other(Tier tier, const std::byte* memory, std::int64_t bytes, std::byte byte) const override {
    return inner_->first_other(tier, memory, bytes, byte);
  }
  std::int64_t last_other(Tier tier, const std::byte* memory, std::int64_t bytes, std::byte byte) const override {
    return inner_->last_other(tier, memory, bytes, byte);
  }
  void upload(Tier tier, std::span<const std::byte> from, std::byte* to) override { inner_->upload(tier, from, to); }
  void download(Tier tier, const std::byte* from, std::span<std::byte> to) const override { inner_->download(tier, from, to); }
  double seconds(Lane lane, const std::function<void()>& body) override { return inner_->seconds(lane, body); }
  std::int64_t cache_bytes() const override { return inner_->cache_bytes(); }

  void copy(Lane lane, const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::byte* to) override {
    if ((fault == Fault::copy_in && lane == Lane::copy_in) || (fault == Fault::copy_out && lane == Lane::copy_out))
      throw UserError("the link is broken");
    inner_->copy(lane, plan, element_bytes, from, to);
  }

  // Faults of kernels are those of `add`.
  using Backend::kernel;
  std::vector<Alternative> alternatives(const Call& call) override { return inner_->alternatives(call); }
  std::shared_ptr<const Kernel> kernel(const Call& call, Lane lane, std::string_view chosen) override {
    auto inner = inner_->kernel(call, lane, chosen);
    if (call.site.op.def->kind() != "add") return inner;
    return std::make_shared<FaultyKernel>(inner, *this, stored_bytes(storage(), call.site.out(0), call.boxes.out[0].shape()));
  }

  Fault fault = Fault::none;
  std::function<void()> meanwhile = [] {};  // called by kernels of `add`
  std::byte* host = nullptr;                // the host arena

 private:
  class FaultyKernel final : public Kernel {
   public:
    FaultyKernel(std::shared_ptr<const Kernel> inner, const Faulty& backend, std::int64_t bytes)
        : inner_(std::move(inner)), backend_(backend), bytes_(bytes) {}
    std::string name() const override { return "faulty"; }
    void run(const KernelRun& run) const override {
      if (backend_.fault == Fault::kernel) throw InternalError("the kernel failed");
      inner_->run(run);
      if (backend_.fault == Fault::byte_after) run.out[0][bytes_] = std::byte{1};
      if (backend_.fault == Fault::byte_before) run.out[0][-1] = std::byte{1};
      if (backend_.fault == Fault::far_byte) run.out[0][bytes_ + 600] = std::byte{1};
      backend_.meanwhile();
    }

   private:
    std::shared_ptr<const Kernel> inner_;
    const Faulty& backend_;
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
  EXPECT_EQ(executor.measured_peak_bytes(), hand.program.peak_bytes.device);
  backend.fault = Faulty::Fault::byte_after;
  EXPECT_EQ(message_of<InternalError>(executor),
            "instruction 2 (kernel, op twice) wrote outside piece 'w' (16 bytes at 0 of the device arena): byte 1 after it was "
            "changed");
  Program shifted = hand.program;
  for (Piece& piece : shifted.pieces)
    if (piece.tier == Tier::device) piece.offset += 256;
  shifted.peak_bytes.device += 256;
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
  const auto z = std::ranges::find(hand.program.pieces, graph.find_value("z"), &Piece::value);
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

// The swap program with x on disk in the middle of the step, where it passes through host memory at 0 and, coming back, at 256.
HandProgram disk_program(const Graph& graph) {
  HandProgram hand(graph);
  const PieceId x = hand.piece("x", Tier::device, 0), y = hand.piece("y", Tier::device, 256);
  const PieceId out = hand.piece("x", Tier::host, 0), disk = hand.piece("x", Tier::disk, 0), in = hand.piece("x", Tier::host, 256);
  const PieceId w = hand.piece("w", Tier::device, 0), x_again = hand.piece("x", Tier::device, 256);
  const PieceId z = hand.piece("z", Tier::device, 512);
  hand.input(x);
  hand.output(z);
  hand.move(Action::copy_out, {hand.whole(x)}, {hand.whole(out)});
  hand.move(Action::disk_out, {hand.whole(out)}, {hand.whole(disk)}, {{Lane::copy_out, 1, 0}});
  hand.kernel("relu", {hand.whole(x)}, {hand.whole(y)});
  hand.kernel("twice", {hand.whole(y), hand.whole(y)}, {hand.whole(w)}, {{Lane::disk_out, 1, 0}});
  hand.move(Action::disk_in, {hand.whole(disk)}, {hand.whole(in)}, {{Lane::compute, 2, 0}});
  hand.move(Action::copy_in, {hand.whole(in)}, {hand.whole(x_again)}, {{Lane::disk_in, 1, 0}});
  hand.kernel("sum", {hand.whole(x_again), hand.whole(w)}, {hand.whole(z)}, {{Lane::copy_in, 1, 0}});
  return hand;
}

ExecutorOptions checked(bool debug, const std::string& directory = {}) {
  ExecutorOptions options = traced(debug);
  options.check_spill = true;
  options.spill_directory = directory;
  return options;
}

TEST(Faults, ChecksumsAreOfGrainsWhateverTheParts) {
  std::vector<std::byte> data(96);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
  const std::span<std::byte> all(data);
  Checksums sums(96, 32);
  for (std::size_t at = 0; at < 96; at += 12) sums.note(static_cast<std::int64_t>(at), all.subspan(at, 12));
  std::uint32_t running = 0;
  EXPECT_EQ(sums.find_changed(0, all, running), -1);
  EXPECT_EQ(sums.find_changed(32, all.subspan(32, 32), running), -1);
  data[70] ^= std::byte{1};
  EXPECT_EQ(sums.find_changed(0, all, running), 64);
  EXPECT_EQ(sums.find_changed(0, all.first(64), running), -1);
  // A grain is compared where its last part ends.
  EXPECT_EQ(sums.find_changed(64, all.subspan(64, 20), running), -1);
  EXPECT_EQ(sums.find_changed(84, all.subspan(84), running), 64);
  sums.note(64, all.subspan(64));
  EXPECT_EQ(sums.find_changed(0, all, running), -1);
}

TEST(Faults, AByteChangedInHostMemoryIsFound) {
  const Graph graph = graph_of(kSwapGraph);
  const HandProgram hand = swap_program(graph);
  for (const bool debug : {false, true}) {
    Faulty backend;
    Executor executor(graph, hand.program, backend, checked(debug));
    write_values(executor, graph, "x", Floats{-1, 2, -3, 4});
    executor.step();
    EXPECT_EQ(read_values(executor, graph, "z"), (Floats{-1, 6, -3, 12}));
    for (const Tier tier : {Tier::device, Tier::host, Tier::disk})
      EXPECT_EQ(executor.measured_peak_bytes(tier), hand.program.peak_bytes[tier]);
    backend.meanwhile = [&] { backend.host[5] ^= std::byte{4}; };
    write_values(executor, graph, "x", Floats{-1, 2, -3, 4});
    EXPECT_EQ(
        message_of<InternalError>(executor),
        "value 'x' was changed in host memory between two uses: the 16 bytes from byte 0 of its 16 are not those that were put "
        "there; another program wrote there, or the hardware fails");
  }
}

// A value that stays in host memory from step to step, and is changed between them; also one that is only read from there.
TEST(Faults, PersistentValuesAreCheckedFromStepToStep) {
  const Graph graph = graph_of(R"(graph stays
param p f32[4]
relu: y = relu(p)
output y
)");
  HandProgram hand(graph);
  const PieceId home = hand.piece("p", Tier::host, 0), p = hand.piece("p", Tier::device, 0), y = hand.piece("y", Tier::device, 256);
  hand.persistent(home);
  hand.output(y);
  hand.move(Action::copy_in, {hand.whole(home)}, {hand.whole(p)});
  hand.kernel("relu", {hand.whole(p)}, {hand.whole(y)}, {{Lane::copy_in, 1, 0}});
  Faulty backend;
  Executor executor(graph, hand.program, backend, checked(false));
  write_values(executor, graph, "p", Floats{-1, 2, -3, 4});
  executor.step();
  executor.step();
  EXPECT_EQ(read_values(executor, graph, "p"), (Floats{-1, 2, -3, 4}));
  backend.host[15] ^= std::byte{1};
  EXPECT_NE(message_of<InternalError>(executor).find("value 'p' was changed in host memory"), std::string::npos);
  EXPECT_THROW(read_values(executor, graph, "p"), InternalError);
  write_values(executor, graph, "p", Floats{1, 2, 3, 4});
  executor.step();
  EXPECT_EQ(read_values(executor, graph, "y"), (Floats{1, 2, 3, 4}));
}

class SpillFaults : public testing::Test {
 protected:
  SpillFaults() { std::filesystem::create_directories(folder_); }
  ~SpillFaults() override { std::filesystem::remove_all(folder_); }

  // The descriptor of the file in the folder: it has no other name.
  int descriptor() const {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(entry.path(), gone).string().starts_with(folder_))
        return std::stoi(entry.path().filename().string());
    }
    return -1;
  }
  // What a step says during which `meanwhile` is done while x is on disk.
  template <class Error>
  std::string with(const std::function<void()>& meanwhile, bool check = false) {
    const Graph graph = graph_of(kSwapGraph);
    const HandProgram hand = disk_program(graph);
    Faulty backend;
    ExecutorOptions options = checked(false, folder_);
    options.check_spill = check;
    Executor executor(graph, hand.program, backend, options);
    write_values(executor, graph, "x", Floats{-1, 2, -3, 4});
    executor.step();
    EXPECT_EQ(read_values(executor, graph, "z"), (Floats{-1, 6, -3, 12}));
    for (const Tier tier : {Tier::device, Tier::host, Tier::disk})
      EXPECT_EQ(executor.measured_peak_bytes(tier), hand.program.peak_bytes[tier]);
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
    backend.meanwhile = meanwhile;
    write_values(executor, graph, "x", Floats{-1, 2, -3, 4});
    const std::string message = message_of<Error>(executor);
    if (message == "no error") {
      EXPECT_EQ(read_values(executor, graph, "z"), (Floats{-1, 6, -3, 12}));
    }
    return message;
  }

  const std::string folder_ = std::filesystem::temp_directory_path() / fmt::format("outsize_spill_faults_{}", ::getpid());
};

TEST_F(SpillFaults, AByteChangedOnDiskIsFound) {
  const auto change = [this] {
    const std::byte other{0x55};
    ASSERT_EQ(pwrite(descriptor(), &other, 1, 9), 1);
  };
  EXPECT_NE(with<InternalError>(change, true).find("value 'x' was changed on disk between two uses"), std::string::npos);
}

TEST_F(SpillFaults, ATruncatedFileIsAnErrorAndNeverAHole) {
  const std::string message = with<UserError>([this] { ASSERT_EQ(ftruncate(descriptor(), 4), 0); });
  EXPECT_EQ(message, "spill directory '" + folder_ +
                         "': the spill file ended 12 B early: it was truncated from outside; name a directory of your own with "
                         "--spill");
  // Written at its end it is as long as before, and what lay before would read as zeros.
  SpillFile file(folder_, 100);
  const std::vector<std::byte> data(10, std::byte{1});
  file.write(0, data);
  ASSERT_EQ(ftruncate(descriptor(), 0), 0);
  EXPECT_THROW(file.write(90, data), UserError);
  EXPECT_EQ(file.touched_bytes(), 10);
}

TEST_F(SpillFaults, AnErrorOfTheDeviceSaysWhereAndWhatToDo) {
  const std::string message = with<UserError>([this] {
    const int folder = open("/", O_RDONLY | O_DIRECTORY);  // a folder has a size, but cannot be read as a file
    ASSERT_GE(dup2(folder, descriptor()), 0);
    close(folder);
  });
  EXPECT_EQ(message, "spill directory '" + folder_ +
                         "': cannot read 16 B: Is a directory; name a writable directory on a local disk with --spill");
}

TEST_F(SpillFaults, ARemovedDirectoryDoesNotMatter) {
  EXPECT_EQ(with<UserError>([this] { std::filesystem::remove_all(folder_); }, true), "no error");
}

TEST(Faults, MemoryThatTheMachineHasNotIsRefusedBeforehand) {
  const auto backend = make_reference_backend();
  const std::int64_t much = 2 * available_bytes();
  for (const Memory::Sizes& sizes : {Memory::Sizes{much, 0, 0}, Memory::Sizes{64, much, 0}}) {
    try {
      Memory(*backend, sizes, 64, "");
      FAIL();
    } catch (const UserError& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with("cannot get ")) << message;
      EXPECT_NE(message.find(sizes.host > 0 ? "of host memory: the system has" : "of device memory: the system has"),
                std::string::npos)
          << message;
      EXPECT_NE(message.find("give a smaller --memory or --host-memory"), std::string::npos) << message;
    }
  }
}

#ifdef OUTSIZE_COUNT_ALLOCATIONS
TEST(Faults, AStepAllocatesNothing) {
  const Graph graph = graph_of(kSwapGraph);
  const HandProgram hand = disk_program(graph);
  const auto backend = make_reference_backend();
  Executor executor(graph, hand.program, *backend, checked(false));
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
  EXPECT_EQ(executor.trace().events.size(), 7u);
}
#endif

}  // namespace
}  // namespace outsize
