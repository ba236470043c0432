#pragma once

#include <string>

namespace outsize {

// A library of the system that is loaded when it is first needed, so that programs which need no card do without it. It stays
// loaded until the program ends.
class SharedLibrary {
 public:
  // Tries the file names in order, each beside the program (in `../lib` and in the program's own folder) and where the system
  // looks. Throws UserError saying what `what` is needed for and what the system answered.
  SharedLibrary(std::string what, std::initializer_list<const char*> names);

  // The function of that name as a pointer of type F. Throws UserError where the library is older and has none.
  template <class F>
  F function(const char* name) const {
    return reinterpret_cast<F>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;

  std::string what_;
  void* handle_ = nullptr;
};

}  // namespace outsize
