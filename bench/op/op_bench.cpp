// Times every op of every case sized for timing, forward and backward, on the cpu backend; Google Benchmark does the timing.
//
//   op_bench --cases          the cases as JSON: what bench/op/run.py computes in PyTorch
//   op_bench [flags of Google Benchmark]
//
// Each benchmark is "<folder>/<case>/<phase>/<op>" with the counters flops and bytes of one call (the op's own cost) and, as label,
// the kernel's name. "ceiling/…" are the machine's: what memory moves and what multiply-adds it can do, with all threads.
#include <benchmark/benchmark.h>

#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "all_cases.h"
#include "base/philox.h"
#include "graph/autodiff.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/cpu_support.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// Cache-line-aligned memory.
using Buffer = std::unique_ptr<std::byte[], decltype([](std::byte* memory) { std::free(memory); })>;

Buffer allocate(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(align_up(std::max<std::int64_t>(bytes, 1), 64));
  Buffer buffer(static_cast<std::byte*>(std::aligned_alloc(64, size)));
  std::memset(buffer.get(), 0, size);
  return buffer;
}

// A case's differentiated graph with memory for all its values.
class Subject {
 public:
  Subject(const OpCase& op_case) : graph_(parse_graph(op_case.graph, op_case.name)), storage_(cpu_storage()) {
    if (op_case.differentiate) {
      AutodiffOptions options{graph_.outputs(), {}};
      for (std::int64_t i = 0; i < graph_.value_count(); ++i)
        if (graph_.value(ValueId(i)).role == Role::input && is_float(graph_.value(ValueId(i)).type.dtype))
          options.with_respect.push_back(ValueId(i));
      differentiate(graph_, options);
    }
    verify_graph(graph_);
    for (const Value& value : graph_.values()) {
      memory_.push_back(allocate(stored_bytes(storage_, value.type, value.type.shape)));
      if (!value.producer) fill(value, memory_.back().get(), op_case.integer_limit);
    }
  }

  const Graph& graph() const { return graph_; }

  // One op as a prepared call on whole values.
  struct Prepared {
    std::unique_ptr<Kernel> kernel;
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    CallBoxes boxes;
    Box owned;
    Buffer workspace;
    Cost cost;

    void run() const { kernel->run({in, out, workspace.get(), boxes.in, boxes.out, owned}); }
  };

  Prepared prepare(const KernelTable& kernels, const Op& op) const {
    Prepared prepared;
    const OpSite site{graph_, op};
    for (ValueId id : op.inputs) {
      prepared.in.push_back(memory_[static_cast<std::size_t>(id.index)].get());
      prepared.boxes.in.push_back(Box::whole(graph_.value(id).type.shape));
    }
    for (ValueId id : op.outputs) {
      prepared.out.push_back(memory_[static_cast<std::size_t>(id.index)].get());
      prepared.boxes.out.push_back(Box::whole(graph_.value(id).type.shape));
    }
    prepared.owned = prepared.boxes.in[static_cast<std::size_t>(op.def->push_driver(site))];
    prepared.kernel = kernels.prepare({site, prepared.boxes, prepared.owned}, storage_);
    prepared.workspace = allocate(prepared.kernel->workspace_bytes());
    prepared.cost = op.def->cost(site, prepared.boxes);
    return prepared;
  }

 private:
  // Uniform numbers in the real elements; the channels that pad a block stay zero.
  void fill(const Value& value, std::byte* to, std::int64_t integer_limit) const {
    const RandomStream stream(1, value.name);
    const Box box = Box::whole(value.type.shape);
    Dims position = box.lo;
    for (std::int64_t i = 0; i < box.elements(); ++i) {
      const std::int64_t at = stored_offset(storage_, value.type.format, box, position);
      if (value.type.dtype == DType::f32)
        reinterpret_cast<float*>(to)[at] = static_cast<float>(2 * stream.uniform(static_cast<std::uint64_t>(i)) - 1);
      else if (value.type.dtype == DType::i32)
        reinterpret_cast<std::int32_t*>(to)[at] =
            static_cast<std::int32_t>(stream.below(static_cast<std::uint64_t>(i), integer_limit));
      for (int dim = box.rank() - 1; dim >= 0 && ++position[dim] == box.hi[dim]; --dim) position[dim] = box.lo[dim];
    }
  }

  Graph graph_;
  StorageRule storage_;
  std::vector<Buffer> memory_;
};

void time_op(benchmark::State& state, const Subject::Prepared& prepared) {
  for (auto _ : state) prepared.run();
  state.counters["flops"] = prepared.cost.flops;
  state.counters["bytes"] = prepared.cost.bytes;
  state.SetLabel(prepared.kernel->name());
}

// All ops of a case are kept until the run, in graph order, so that each finds what the ones before it made.
void register_case(const std::string& folder, const OpCase& op_case, const KernelTable& kernels) {
  const auto subject = std::make_shared<Subject>(op_case);
  for (const Op& op : subject->graph().ops()) {
    const auto prepared = std::make_shared<Subject::Prepared>(subject->prepare(kernels, op));
    prepared->run();
    const std::string phase = op.phase == Phase::backward ? "backward" : "forward";
    benchmark::RegisterBenchmark(fmt::format("{}/{}/{}/{}", folder, op_case.name, phase, op.name).c_str(),
                                 [subject, prepared](benchmark::State& state) { time_op(state, *prepared); })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
}

OUTSIZE_CLONES void triad(const float* a, const float* b, float* c, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) c[i] = a[i] + 3.0F * b[i];
}

void measure_bandwidth(benchmark::State& state) {
  constexpr std::int64_t kElements = std::int64_t{1} << 25;
  const Buffer a = allocate(kElements * 4), b = allocate(kElements * 4), c = allocate(kElements * 4);
  for (auto _ : state)
    parallel_chunks(kElements, kElements * 12, [&](std::int64_t from, std::int64_t count) {
      triad(f32(a.get()) + from, f32(b.get()) + from, f32(c.get()) + from, count);
    });
  state.counters["bytes"] = 12.0 * kElements;
}

// Sums that do not wait for each other, as many as keep all units busy.
OUTSIZE_CLONES float multiply_add(std::int64_t rounds, float start) {
  constexpr int kLanes = 16;
  constexpr int kSums = 12;
  float sum[kSums][kLanes];
  for (int s = 0; s < kSums; ++s)
    for (int i = 0; i < kLanes; ++i) sum[s][i] = start + static_cast<float>(s * kLanes + i);
  for (std::int64_t r = 0; r < rounds; ++r)
    for (int s = 0; s < kSums; ++s)
#pragma omp simd
      for (int i = 0; i < kLanes; ++i) sum[s][i] = sum[s][i] * 0.999F + start;
  float total = 0;
  for (int s = 0; s < kSums; ++s)
    for (int i = 0; i < kLanes; ++i) total += sum[s][i];
  return total;
}

void measure_arithmetic(benchmark::State& state) {
  constexpr std::int64_t kRounds = 1 << 20;
  constexpr std::int64_t kParts = 8;
  for (auto _ : state) {
    float results[kParts];
    parallel_for(kParts, kParallelBytes, [&](std::int64_t i) { results[i] = multiply_add(kRounds, static_cast<float>(i)); });
    benchmark::DoNotOptimize(results);
  }
  state.counters["flops"] = 2.0 * 12 * 16 * kRounds * kParts;
}

void print_cases() {
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  for (const auto& [folder, list] : all_cases())
    for (const OpCase& op_case : list)
      if (op_case.bench)
        cases.push_back({{"case", folder + "/" + op_case.name},
                         {"graph", op_case.graph},
                         {"torch", op_case.torch},
                         {"integer_limit", op_case.integer_limit},
                         {"differentiate", op_case.differentiate}});
  std::cout << cases.dump() << "\n";
}

}  // namespace
}  // namespace outsize

int main(int argc, char** argv) {
  outsize::register_ops();
  if (argc == 2 && std::string_view(argv[1]) == "--cases") {
    outsize::print_cases();
    return 0;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const outsize::KernelTable kernels = outsize::cpu_kernels();
  for (const auto& [folder, list] : outsize::all_cases())
    for (const outsize::OpCase& op_case : list)
      if (op_case.bench) outsize::register_case(folder, op_case, kernels);
  benchmark::RegisterBenchmark("ceiling/memory", outsize::measure_bandwidth)->Unit(benchmark::kMillisecond)->UseRealTime();
  benchmark::RegisterBenchmark("ceiling/arithmetic", outsize::measure_arithmetic)->Unit(benchmark::kMillisecond)->UseRealTime();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
