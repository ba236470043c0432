#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/storage.h"
#include "ops/alternatives.h"

namespace outsize {

// What plans are made for: how a device stores values, and what its kernels ask for. A backend is one.
class Target {
 public:
  virtual ~Target() = default;
  virtual StorageRule storage() const = 0;
  // The workspace of a call's kernel, in bytes; 0 for a call that is too large for one kernel: it will run in tiles, or be refused.
  std::int64_t workspace_bytes(const Call& call) { return workspace_bytes(call, {}); }
  // The same of the kernel of that name; of the one that is taken where nothing is chosen, without a name. Throws UserError where
  // the call has no such kernel.
  virtual std::int64_t workspace_bytes(const Call& call, std::string_view name) = 0;
  // The kernels that the device has for a call, first the one that is taken where nothing is chosen. None for a call that is too
  // large for one kernel.
  virtual std::vector<Alternative> alternatives(const Call& call) = 0;
};

}  // namespace outsize
