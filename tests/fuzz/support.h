#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace outsize::fuzz {

// A file in memory that holds the input of the moment, for readers that take a path.
class InputPath {
 public:
  InputPath() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(descriptor_)) {
    OUTSIZE_CHECK(descriptor_ >= 0);
  }
  ~InputPath() { ::close(descriptor_); }
  InputPath(const InputPath&) = delete;
  InputPath& operator=(const InputPath&) = delete;

  // The path of a file of these bytes; the one before is gone.
  const std::string& of(std::span<const std::uint8_t> bytes) {
    OUTSIZE_CHECK(::ftruncate(descriptor_, 0) == 0);
    OUTSIZE_CHECK(::pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<::ssize_t>(bytes.size()));
    return path_;
  }

 private:
  int descriptor_;
  std::string path_;
};

// Runs `read`, which may refuse its input: a UserError that names `file`, in a message of one line. Whatever else it throws
// goes on, and ends the run as a finding.
template <class Read>
void accept_or_refuse(std::string_view file, Read&& read) {
  std::string message;
  try {
    read();
    return;
  } catch (const UserError& error) {
    message = error.what();
  }
  if (message.find(file) == std::string::npos) internal_error("the refusal does not name the file: {}", message);
  if (std::ranges::any_of(message, [](char c) { return static_cast<unsigned char>(c) < ' '; }))
    internal_error("the refusal has unprintable characters: {}", message);
}

inline std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace outsize::fuzz
