#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "program/program.h"

namespace outsize {

// The threads of the lanes, and how far each lane is. The compute lane runs on the thread that calls run(); every other used lane
// has a thread of its own that sleeps between runs.
class Lanes {
 public:
  // `enter(lane)` is called once by the thread of each used lane but compute, before the constructor returns. `body(lane)` executes
  // one lane of one step; it calls wait_for and complete.
  Lanes(const std::array<bool, kLanes>& used, const std::function<void(Lane)>& enter, std::function<void(Lane)> body);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Runs every lane once and returns when all have ended. When one throws, the others stop at their next instruction or wait, and
  // the first error is rethrown here. Allocates nothing.
  void run();

  // Called by bodies. Returns when `lane` has completed `count` instructions of this run: true; or when a lane has failed: false.
  bool wait_for(Lane lane, std::int64_t count);
  // One more instruction of `lane`, the caller's own, is complete.
  void complete(Lane lane);
  // How many it has completed, as its own thread knows.
  std::int64_t completed(Lane lane) const {
    return counters_[static_cast<std::size_t>(lane)].completed.load(std::memory_order_relaxed);
  }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  // Set once a lane has failed.
  const std::atomic<bool>& failure() const { return failed_; }

 private:
  // Counters of different lanes are written by different threads: keep them out of each other's cache line.
  struct alignas(64) Counter {
    std::atomic<std::int64_t> completed{0};
  };

  // Ends all threads.
  void end();
  void serve(Lane lane);
  void run_body(Lane lane) noexcept;
  // Blocks until `ready()`, which must become true by a change that is followed by wake().
  template <class Ready>
  void block(Ready&& ready);
  void wake();

  std::function<void(Lane)> body_;
  std::array<Counter, kLanes> counters_;
  std::atomic<bool> failed_{false};
  std::atomic<std::int64_t> generation_{0};  // of runs; threads start when it grows
  std::atomic<int> running_{0};              // threads that have not ended the current run; first, that have not entered their lane
  std::atomic<bool> stop_{false};
  std::exception_ptr error_;  // guarded by mutex_

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> sleepers_{0};
  std::vector<std::thread> threads_;
};

}  // namespace outsize
