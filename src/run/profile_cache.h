#pragma once

#include <optional>
#include <string>

#include "cost/measure.h"
#include "cost/profile.h"

namespace outsize {

// What the times of a backend's kernels depend on besides their signatures.
struct MeasuredOn {
  Machine machine;
  std::string backend;
  std::string libraries;  // "oneDNN 2.6.3"
  std::string version;    // of this program
  std::int64_t threads = 1;

  // "AMD EPYC, AVX2, 2 of 2 threads, cpu backend, oneDNN 2.6.3, outsize 0.1.0"
  std::string describe() const;
};

// The file that keeps what was measured: $XDG_CACHE_HOME/outsize/profile-KEY.txt, or the same in ~/.cache. Empty where neither
// variable names a place.
std::string profile_cache_path(const MeasuredOn& on);

// What the file has, or nothing where there is none. One that cannot be read is told in one line on standard error, and counts as
// none.
std::optional<Profile> read_profile_cache(const std::string& path);

// Writes device and entries of `profile` to the file, and keeps those entries there that the profile has not; a file that cannot be
// read is written anew, one that cannot be written is told in one line on standard error.
void write_profile_cache(const std::string& path, const MeasuredOn& on, const Profile& profile);

}  // namespace outsize
