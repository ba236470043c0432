#pragma once

#include <stdexcept>

namespace outsize {

// The user's mistake: a bad file, option or graph. The message says what was expected, what was found and what to do. Exit
// status 2.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Our mistake: a checker or an assertion failed. Exit status 3.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace outsize
