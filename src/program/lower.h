#pragma once

#include <functional>

#include "base/id_vector.h"
#include "outsize/budget.h"
#include "program/offsets.h"
#include "program/program.h"

namespace outsize {

struct LowerOptions {
  StorageRule storage;
  // The workspace a call needs on the backend.
  std::function<std::int64_t(const Call&)> workspace;
  // The workspace of each op's call on whole values, by op; nullptr: not known, `workspace` is asked.
  const IdVector<OpId, std::int64_t>* whole_workspace = nullptr;
  // The workspace that a call needs whose kernel the plan chooses, by the kernel's name; nullptr: as `workspace` says.
  std::function<std::int64_t(const Call&, std::string_view name)> chosen_workspace;
  Budgets budgets = kNoLimits;
  std::int64_t canary_bytes = 0;  // debug: bytes left free around every piece
  bool loops = true;              // roll repeating tiles into loops
  // The processor that reads files can address device memory: windows of sources are read right into it; and what goes to disk, or
  // comes from there, does not pass through host memory.
  bool direct_sources = false;
  bool direct_disk = false;
  bool lowest = false;            // packs as low as the packer can, not only below the budgets
  Effort effort = Effort::quick;  // of the packer, where what is live fits
  bool takeovers = true;          // streamed results take over the bytes of what their pass reads for the last time
  // Of an earlier program of the same run, which must have every persistent value of this one; nullptr for the first.
  const PersistentLayout* layout = nullptr;
  // Called with the program as it is after the instructions of each step of the plan ("step"), and after each phase of lowering:
  // "instructions", "in place", "offsets" (with those that exceed a budget, too) and "waits".
  std::function<void(std::string_view phase, const Program&)> observe;
};

// plan → steps → pieces → offsets → waits → checked program. Refused when the packed peak of a tier exceeds its budget. Throws
// UserError for a plan that does not check.
Planned<Program> lower(const Graph& graph, const Plan& plan, const LowerOptions& options);

}  // namespace outsize
