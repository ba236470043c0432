#include "ops/cuda/library/shared_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

#include "base/error.h"

namespace outsize {

SharedLibrary::SharedLibrary(std::string what, std::initializer_list<const char*> names) : what_(std::move(what)) {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  std::string reason;
  for (const char* name : names) {
    for (const std::filesystem::path& path : {program / "../lib" / name, program / name, std::filesystem::path(name)}) {
      if (path.has_parent_path() && !std::filesystem::exists(path, ignored)) continue;
      handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
      if (handle_) return;
      reason = dlerror();
    }
  }
  user_error("the cuda backend needs {}, which cannot be loaded: {}", what_, reason);
}

void* SharedLibrary::symbol(const char* name) const {
  void* const found = dlsym(handle_, name);
  if (!found) user_error("the cuda backend needs a newer {}: the one that is here has no {}", what_, name);
  return found;
}

}  // namespace outsize
