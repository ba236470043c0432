#include <gtest/gtest.h>

#include <numeric>

#include "backend/host_memory.h"
#include "hand_program.h"
#include "run/layout.h"
#include "run/spill_file.h"

namespace outsize {
namespace {

// Memory and movement without kernels, on as many threads as asked for.
class Mover final : public HostBackend {
 public:
  Mover(std::int64_t block, int threads) : HostBackend({}, StorageRule{block}, threads) {}
  bool supports(DType) const override { return true; }
};

template <class Call>
std::string user_error_of(Call&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(HostMemory, RunsComeInOrderFromAnyStart) {
  CopyPlan plan;
  plan.from = 100;
  plan.length = 1;
  const std::int64_t counts[] = {2, 1, 3, 2}, from[] = {50, 7, 10, 3}, to[] = {12, 0, 4, 2};
  std::copy_n(counts, 4, plan.count);
  std::copy_n(from, 4, plan.from_stride);
  std::copy_n(to, 4, plan.to_stride);
  std::vector<std::pair<std::int64_t, std::int64_t>> all, pieced;
  for_each_run(plan, 0, run_count(plan), [&](std::int64_t a, std::int64_t b) { all.emplace_back(a, b); });
  ASSERT_EQ(all.size(), 12u);
  EXPECT_EQ(all[1], std::pair(std::int64_t{103}, std::int64_t{2}));
  EXPECT_EQ(all[11], std::pair(std::int64_t{100 + 50 + 2 * 10 + 3}, std::int64_t{12 + 2 * 4 + 2}));
  for (std::int64_t begin = 0; begin < 12; begin += 5)
    for_each_run(plan, begin, std::min<std::int64_t>(12, begin + 5),
                 [&](std::int64_t a, std::int64_t b) { pieced.emplace_back(a, b); });
  EXPECT_EQ(pieced, all);
}

// A middle box of 1.5 million floats, of a few long runs and of many short ones, on one thread and on three.
TEST(HostMemory, CopyAndAddOnManyThreads) {
  const std::pair<Box, Box> cases[] = {
      {Box::whole({3, 1 << 20}), Box({1, 5}, {3, (1 << 20) - 7})},
      {Box::whole({1 << 15, 64}), Box({3, 2}, {(1 << 15) - 1, 50})},
  };
  for (const auto& [all, part] : cases)
    for (const int threads : {1, 3}) {
      Mover backend(1, threads);
      std::vector<float> from(static_cast<std::size_t>(all.elements()));
      std::iota(from.begin(), from.end(), 0.f);
      std::vector<float> to(static_cast<std::size_t>(part.elements()), 0.5f), expected(to.size());
      const CopyPlan plan = plan_copy({}, Format::plain, all, part, part);
      const auto* const source = reinterpret_cast<const std::byte*>(from.data());
      auto* const target = reinterpret_cast<std::byte*>(to.data());
      for (std::size_t i = 0; i < to.size(); ++i) {
        const std::int64_t width = part.extent(1), row = static_cast<std::int64_t>(i) / width,
                           column = static_cast<std::int64_t>(i) % width;
        expected[i] = from[static_cast<std::size_t>((part.lo[0] + row) * all.extent(1) + part.lo[1] + column)];
      }
      backend.copy(Lane::compute, plan, 4, source, target);
      EXPECT_TRUE(to == expected);
      backend.combine(Lane::compute, Combine::sum, plan, DType::f32, source, target);
      for (float& value : expected) value *= 2;
      EXPECT_TRUE(to == expected);
      backend.zero(Lane::compute, target, part.elements() * 4);
      EXPECT_TRUE(to == std::vector<float>(to.size(), 0.f));
    }
}

TEST(HostMemory, AllocatesZeroedAlignedPagesOrRefuses) {
  Mover backend(1, 1);
  const std::int64_t large = (std::int64_t{5} << 20) + 1;
  std::byte* const memory = backend.allocate(Tier::device, large);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % (2 << 20), 0u);
  EXPECT_EQ(memory[0], std::byte{0});
  memory[large - 1] = std::byte{1};
  backend.deallocate(Tier::device, memory, large);
  std::byte* const small = backend.allocate(Tier::host, 10);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small) % 4096, 0u);
  backend.deallocate(Tier::host, small, 10);
  const std::string refusal = user_error_of([&] { backend.allocate(Tier::device, std::int64_t{1} << 50); });
  EXPECT_EQ(refusal.find("cannot get 1024 TiB (1125899906842624 bytes) of device memory: "), 0u) << refusal;
}

TEST(Backend, MakesByName) {
  EXPECT_EQ(make_backend("reference", 0)->name(), "reference");
  EXPECT_TRUE(make_backend("reference", 0)->supports(DType::f64));
  EXPECT_EQ(make_backend("cpu", 2)->name(), "cpu");
  EXPECT_FALSE(make_backend("cpu", 2)->supports(DType::f64));
  EXPECT_EQ(user_error_of([] { make_backend("abacus", 0); }).find("there is no backend 'abacus'; this build has reference, cpu"),
            0u);
}

TEST(Backend, EqualCallsShareAKernelThatOutlivesItsGraph) {
  const auto backend = make_backend("reference", 1);
  std::shared_ptr<const Kernel> kernel;
  {
    const Graph graph = graph_of(kSwapGraph);
    const auto call = [&](std::string_view op, std::int64_t lo, std::int64_t hi) {
      const OpSite site{graph, graph.op(graph.find_op(op))};
      return Call{site, site.op.def->gather(site, Box({lo}, {hi})), {}};
    };
    kernel = backend->kernel(call("twice", 0, 4));
    EXPECT_EQ(backend->kernel(call("sum", 0, 4)), kernel);                                  // another op, the same call
    EXPECT_NE(backend->kernel(call("twice", 0, 2)), kernel);                                // another extent
    EXPECT_NE(backend->kernel(call("twice", 0, 2)), backend->kernel(call("twice", 2, 4)));  // another position
  }
  const float a[] = {1, 2, 3, 4}, b[] = {10, 20, 30, 40};
  float sum[4];
  const std::byte* const in[] = {reinterpret_cast<const std::byte*>(a), reinterpret_cast<const std::byte*>(b)};
  std::byte* const out[] = {reinterpret_cast<std::byte*>(sum)};
  const Box boxes[] = {Box::whole({4}), Box::whole({4})};
  kernel->run({in, out, nullptr, boxes, std::span(boxes).first(1), {}});
  EXPECT_EQ(sum[3], 44);
}

// Two samples of three channels of one row of two, in blocks of four channels: the fourth is a zero.
TEST(Layout, BlockedMaps) {
  const StorageRule rule{4};
  const ValueType type{DType::f32, {2, 3, 1, 2}, Format::map};
  const std::vector<float> dense{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::vector<float> expected{1, 3, 5, 0, 2, 4, 6, 0, 7, 9, 11, 0, 8, 10, 12, 0};
  std::vector<float> stored(16, -1), back(12);
  auto* const memory = reinterpret_cast<std::byte*>(stored.data());
  store_dense(rule, type, std::as_bytes(std::span(dense)), [&](std::int64_t offset, std::span<const std::byte> part) {
    std::memcpy(memory + offset, part.data(), part.size());
  });
  EXPECT_EQ(stored, expected);
  load_dense(rule, type, std::as_writable_bytes(std::span(back)),
             [&](std::int64_t offset, std::span<std::byte> part) { std::memcpy(part.data(), memory + offset, part.size()); });
  EXPECT_EQ(back, dense);
}

// Larger than one buffer, of one byte and of eight bytes an element, and at an odd address.
TEST(Layout, RoundTripsInParts) {
  const StorageRule rule{8};
  for (const DType dtype : {DType::u8, DType::f64}) {
    const ValueType type{dtype, {2, 11, 50, 70}, Format::map};
    const std::int64_t bytes = type.elements() * size_of(dtype);
    std::vector<std::byte> dense(static_cast<std::size_t>(bytes + 1)), back(dense.size());
    for (std::size_t i = 0; i < dense.size(); ++i) dense[i] = static_cast<std::byte>(i * 7 % 251);
    back[0] = dense[0];
    std::vector<std::byte> stored(static_cast<std::size_t>(stored_bytes(rule, type, type.shape)), std::byte{1});
    store_dense(rule, type, std::span(dense).subspan(1), [&](std::int64_t offset, std::span<const std::byte> part) {
      std::memcpy(stored.data() + offset, part.data(), part.size());
    });
    const Dims position{1, 9, 20, 33};
    const std::int64_t in_stored = stored_offset(rule, Format::map, Box::whole(type.shape), position) * size_of(dtype);
    const std::int64_t in_dense = stored_offset({}, Format::map, Box::whole(type.shape), position) * size_of(dtype);
    EXPECT_EQ(stored[static_cast<std::size_t>(in_stored)], dense[static_cast<std::size_t>(1 + in_dense)]);
    load_dense(rule, type, std::span(back).subspan(1), [&](std::int64_t offset, std::span<std::byte> part) {
      std::memcpy(part.data(), stored.data() + offset, part.size());
    });
    EXPECT_TRUE(back == dense);
  }
}

TEST(SpillFile, RefusesWithTheDirectoryAndAWayOut) {
  const std::string missing = user_error_of([] { SpillFile("/no/such/directory", 1); });
  EXPECT_NE(missing.find("'/no/such/directory'"), std::string::npos) << missing;
  EXPECT_NE(missing.find("--spill"), std::string::npos) << missing;
  const std::string full = user_error_of([] { SpillFile("", std::int64_t{1} << 60); });
  EXPECT_NE(full.find("cannot reserve"), std::string::npos) << full;
  EXPECT_NE(full.find("--spill"), std::string::npos) << full;
}

TEST(SpillFile, KeepsBytes) {
  SpillFile file("", 100);
  const std::vector<std::byte> data{std::byte{1}, std::byte{2}, std::byte{3}};
  std::vector<std::byte> back(3);
  file.write(97, data);
  file.read(97, back);
  EXPECT_EQ(back, data);
  EXPECT_NE(user_error_of([&] { file.read(98, back); }).find("ended 1 B early"), std::string::npos);
}

}  // namespace
}  // namespace outsize
