#include "ops/kernel.h"

#include <algorithm>

namespace outsize {

void KernelTable::add(std::string_view kind, KernelFactory factory) {
  OUTSIZE_CHECK(!has(kind));
  factories_.emplace_back(kind, factory);
}

bool KernelTable::has(std::string_view kind) const {
  return std::any_of(factories_.begin(), factories_.end(), [&](const auto& entry) { return entry.first == kind; });
}

std::unique_ptr<Kernel> KernelTable::prepare(const Call& call, const StorageRule& storage) const {
  const std::string_view kind = call.site.op.def->kind();
  for (const auto& [name, factory] : factories_)
    if (name == kind) return factory(call, storage);
  internal_error("backend {} has no kernel for {} (op {})", backend, kind, call.site.op.name);
}

}  // namespace outsize
