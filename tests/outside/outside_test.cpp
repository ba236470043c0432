// What a step takes outside its arena: every allocation of the process passes the functions below. Ours takes nothing (tests/run
// shows it with the reference backend); what is left is the libraries' own, and must be small and given back.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "../batches.h"
#include "cost/devices.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "run/batch_spec.h"
#include "run/trainer.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

std::atomic<std::int64_t> live_bytes{0}, peak_bytes{0}, calls{0};

void* gained(void* memory) {
  if (!memory) return memory;
  ++calls;
  const std::int64_t live = live_bytes += static_cast<std::int64_t>(malloc_usable_size(memory));
  std::int64_t peak = peak_bytes;
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
  return memory;
}

void* lost(void* memory) {
  if (memory) live_bytes -= static_cast<std::int64_t>(malloc_usable_size(memory));
  return memory;
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t size) noexcept { return gained(__libc_malloc(size)); }
void* calloc(std::size_t number, std::size_t size) noexcept { return gained(__libc_calloc(number, size)); }
void* realloc(void* memory, std::size_t size) noexcept { return gained(__libc_realloc(lost(memory), size)); }
void* memalign(std::size_t alignment, std::size_t size) noexcept { return gained(__libc_memalign(alignment, size)); }
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept { return gained(__libc_memalign(alignment, size)); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  *memory = gained(__libc_memalign(alignment, size));
  return *memory ? 0 : ENOMEM;
}
void free(void* memory) noexcept { __libc_free(lost(memory)); }
}

namespace outsize {
namespace {

TEST(Outside, AStepTakesLittleBesideItsArenaAndGivesItBack) {
  register_ops();
  ModelOptions options;
  options.batch = 4;
  options.image_height = options.image_width = 64;
  StepGraph training = make_training_graph(build_model("resnet50", options), {});
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  PrepareOptions choices;
  choices.planner = "keep";
  Prepared prepared = prepare(training.graph, *backend, Profile{find_device("cpu"), {}}, choices).take();
  const std::int64_t arena = prepared.program.peak_bytes.device;
  const auto source = synthetic_batches(batch_spec_of(training), 1);
  Trainer trainer({std::move(training), std::move(prepared)}, *backend, 1);
  Batch batch;
  source->make(0, batch);
  trainer.step(batch, 0.01);  // libraries set themselves up

  const std::int64_t before = live_bytes, calls_before = calls;
  peak_bytes = before;
  for (int step = 0; step < 3; ++step) trainer.step(batch, 0.01);
  const std::int64_t outside_bytes = peak_bytes - before, left_behind = live_bytes - before;
  RecordProperty("outside_bytes", std::to_string(outside_bytes));
  std::printf("outside_bytes %lld (%lld allocations a step) beside an arena of %lld\n", static_cast<long long>(outside_bytes),
              static_cast<long long>((calls - calls_before) / 3), static_cast<long long>(arena));
  EXPECT_EQ(left_behind, 0);
  EXPECT_LE(outside_bytes, std::int64_t{8} << 20);  // oneDNN packs matrix products into up to some 4 MiB
  EXPECT_EQ(trainer.measured_peak_bytes(), arena);
}

}  // namespace
}  // namespace outsize

#endif
