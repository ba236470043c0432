#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/kernel.h"

// Where a backend has several kernels for a call, which differ in the time and the workspace that they take.
namespace outsize {

// One of the kernels that a backend has for a call.
struct Alternative {
  std::string name;
  std::int64_t workspace_bytes = 0;
  double seconds = -1;  // that the call was seen to take so; negative: not known
};

// The same, prepared.
struct PreparedAlternative {
  std::unique_ptr<Kernel> kernel;
  double seconds = -1;
};

// All kernels for a call, at least one, each with another name: first the one that KernelTable::prepare() gives.
using AlternativesFactory = std::vector<PreparedAlternative> (*)(const Call& call, const StorageRule& storage);

// The kinds of which a backend may have several kernels.
class AlternativesTable {
 public:
  void add(std::string_view kind, AlternativesFactory factory) { factories_.emplace_back(kind, factory); }
  // nullptr for a kind that has one kernel a call.
  AlternativesFactory find(std::string_view kind) const {
    for (const auto& [name, factory] : factories_)
      if (name == kind) return factory;
    return nullptr;
  }

 private:
  std::vector<std::pair<std::string, AlternativesFactory>> factories_;
};

// Beside the kernels of the backends in ops/registry.h.
AlternativesTable cpu_alternatives();
AlternativesTable cuda_alternatives(bool tf32);
AlternativesTable cuda_host_alternatives();

}  // namespace outsize
