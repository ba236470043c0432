#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "ops/kernel.h"

namespace outsize {

// The prepared kernels of one backend: calls that are equal in all that a kernel may depend on (kind, attributes, types of the
// whole values, boxes, owned box) share one. A kernel stays valid when the graph it was prepared from is gone.
class KernelCache {
 public:
  KernelCache(KernelTable table, StorageRule storage) : table_(std::move(table)), storage_(storage) {}

  std::shared_ptr<const Kernel> get(const Call& call);
  // Forgets those that nobody else holds.
  void release_unused();

 private:
  KernelTable table_;
  StorageRule storage_;
  std::unordered_map<std::string, std::shared_ptr<const Kernel>> kernels_;
};

}  // namespace outsize
