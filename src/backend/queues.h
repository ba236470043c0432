#pragma once

#include <atomic>
#include <cstdint>

#include "program/program.h"

namespace outsize {

// The lanes of a device that works on its own: instructions are put into a queue for each lane (compute, copy_out, copy_in) by one
// thread, in program order, and are done later, each queue in order, beside each other and beside the threads of the host's lanes
// (disk_out, disk_in, host). Nothing here allocates.
class Queues {
 public:
  virtual ~Queues() = default;

  // What kernels and copies of a lane are given as their queue.
  virtual void* queue(Lane lane) const = 0;

  // A step begins, in which no lane has done anything yet. All queues are empty.
  virtual void begin_step() = 0;
  // What has been put into the lane's queue so far are its first `count` instructions. `for_host`: a lane of the host will ask.
  virtual void mark(Lane lane, std::int64_t count, bool for_host) = 0;
  // What is put into the lane's queue from now on waits until lane `on`, of the device or the host, has done `count` instructions.
  // Those of the device are in their queue by then.
  virtual void wait(Lane lane, Lane on, std::int64_t count) = 0;
  // A lane of the host has done `count` instructions. Called by its thread.
  virtual void complete(Lane lane, std::int64_t count) = 0;
  // Called by the thread of a host lane: returns true when the device's lane has done `count` instructions, which are or will be
  // marked for the host; false once `stop` is set.
  virtual bool await(Lane lane, std::int64_t count, const std::atomic<bool>& stop) const = 0;
  // A lane failed: those that wait for a lane of the host go on, so that the queues run dry.
  virtual void release() = 0;
  // Returns when all queues are empty. Throws UserError where the device failed.
  virtual void finish() = 0;

  // Takes the time of the lane's queue, once what was put in before is done; `seconds` says it after finish(), from the beginning
  // of the step. Stamps are numbered from 0; those from `stamps()` on are not taken.
  virtual void stamp(Lane lane, std::int64_t number) = 0;
  virtual double seconds(std::int64_t number) const = 0;
  virtual std::int64_t stamps() const = 0;
};

}  // namespace outsize
