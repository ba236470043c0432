#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ops/alternatives.h"

namespace outsize {

// The prepared kernels of one backend: calls that are equal in all that a kernel may depend on (kind, attributes, types of the
// whole values, boxes, owned box) share one. A kernel stays valid when the graph it was prepared from is gone.
class KernelCache {
 public:
  KernelCache(KernelTable table, StorageRule storage, AlternativesTable alternatives = {})
      : table_(std::move(table)), storage_(storage), alternatives_(std::move(alternatives)) {}

  // The kernel of that name, or the table's where none is given. Throws UserError, with the names there are, where the call has no
  // such kernel.
  std::shared_ptr<const Kernel> get(const Call& call, std::string_view name = {});
  // The kernels that a call has; the first is the table's.
  const std::vector<Alternative>& alternatives(const Call& call);
  // Forgets those that nobody else holds.
  void release_unused();

 private:
  [[noreturn]] void refuse(const Call& call, std::string_view name, const std::string& names) const;

  KernelTable table_;
  StorageRule storage_;
  AlternativesTable alternatives_;
  std::unordered_map<std::string, std::shared_ptr<const Kernel>> kernels_;
  std::unordered_map<std::string, std::vector<Alternative>> listed_;
};

}  // namespace outsize
