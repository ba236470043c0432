#pragma once

#include <cstdint>

#include "graph/storage.h"
#include "ops/kernel.h"

namespace outsize {

// What plans are made for: how a device stores values, and what its kernels ask for. A backend is one.
class Target {
 public:
  virtual ~Target() = default;
  virtual StorageRule storage() const = 0;
  // The workspace of a call's kernel, in bytes; 0 for a call that is too large for one kernel: it will run in tiles, or be refused.
  virtual std::int64_t workspace_bytes(const Call& call) = 0;
};

}  // namespace outsize
