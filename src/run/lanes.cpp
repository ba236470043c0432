#include "run/lanes.h"

#include "base/threads.h"

namespace outsize {
namespace {

// About a microsecond: enough for a lane that is just finishing, too little to steal time from kernels.
constexpr int kSpins = 500;

constexpr std::size_t at(Lane lane) { return static_cast<std::size_t>(lane); }

}  // namespace

Lanes::Lanes(const std::array<bool, kLanes>& used, const std::function<void(Lane)>& enter, std::function<void(Lane)> body)
    : body_(std::move(body)) {
  try {
    for (int index = 0; index < kLanes; ++index) {
      const auto lane = static_cast<Lane>(index);
      if (!used[at(lane)] || lane == Lane::compute) continue;
      threads_.push_back(start_thread("copies", [this, lane, &enter] {
        enter(lane);
        --running_;
        wake();
        serve(lane);
      }));
      ++running_;
    }
    block([this] { return running_ == 0; });
  } catch (...) {  // those that were started must not outlive what they use
    end();
    throw;
  }
}

Lanes::~Lanes() { end(); }

void Lanes::end() {
  stop_ = true;
  wake();
  for (std::thread& thread : threads_) thread.join();
}

// Every change is a sequentially consistent store followed by a sequentially consistent load of sleepers_, and a sleeper counts
// itself before it looks at the change: either the sleeper sees the change or wake() sees the sleeper.
template <class Ready>
void Lanes::block(Ready&& ready) {
  for (int spin = 0; spin < kSpins; ++spin)
    if (ready()) return;
  std::unique_lock lock(mutex_);
  ++sleepers_;
  changed_.wait(lock, ready);
  --sleepers_;
}

void Lanes::wake() {
  if (sleepers_ == 0) return;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void Lanes::run() {
  for (Counter& counter : counters_) counter.completed = 0;
  failed_ = false;
  error_ = nullptr;
  running_ = static_cast<int>(threads_.size());
  ++generation_;
  wake();
  run_body(Lane::compute);
  block([this] { return running_ == 0; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

bool Lanes::wait_for(Lane lane, std::int64_t count) {
  const std::atomic<std::int64_t>& completed = counters_[at(lane)].completed;
  block([&] { return completed >= count || failed_; });
  return completed >= count;
}

void Lanes::complete(Lane lane) {
  std::atomic<std::int64_t>& completed = counters_[at(lane)].completed;
  completed = completed.load(std::memory_order_relaxed) + 1;
  wake();
}

void Lanes::serve(Lane lane) {
  for (std::int64_t seen = 0;;) {
    block([&] { return generation_ != seen || stop_; });
    if (stop_) return;
    seen = generation_;
    run_body(lane);
    --running_;
    wake();
  }
}

void Lanes::run_body(Lane lane) noexcept {
  try {
    body_(lane);
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    failed_ = true;
    wake();
  }
}

}  // namespace outsize
