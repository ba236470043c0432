#include "run/profile_cache.h"

#include <filesystem>
#include <span>

#include "base/cache_directory.h"
#include "base/say.h"
#include "base/sha256.h"
#include "data/file.h"

namespace outsize {
namespace {

bool is_there(const std::string& path) {
  std::error_code ignored;
  return !path.empty() && std::filesystem::exists(path, ignored);
}

}  // namespace

std::string MeasuredOn::describe() const {
  return fmt::format("{}, {}, {} of {} threads, {} backend{}{}, outsize {}", machine.processor, machine.vectors, threads,
                     machine.threads, backend, libraries.empty() ? "" : ", ", libraries, version);
}

std::string profile_cache_path(const MeasuredOn& on) {
  const std::filesystem::path directory = cache_directory();
  if (directory.empty()) return {};
  const std::string text = on.describe();
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return directory / fmt::format("profile-{}.txt", hash.hex_digest().substr(0, 16));
}

std::optional<Profile> read_profile_cache(const std::string& path) {
  if (!is_there(path)) return std::nullopt;
  try {
    return parse_profile(read_text(path), path);
  } catch (const UserError& error) {
    say("{}; what it keeps of earlier measurements is not used", error.what());
    return std::nullopt;
  }
}

void write_profile_cache(const std::string& path, const MeasuredOn& on, const Profile& profile) {
  if (path.empty()) return;
  Profile merged = profile;
  // Another process may have added to it since it was read.
  if (is_there(path)) {
    try {
      Profile there = parse_profile(read_text(path), path);
      merged.seconds.merge(there.seconds);
      for (const auto& [kind, scale] : profile.scale) keep_better(there.scale[kind], scale);
      merged.scale = std::move(there.scale);
      for (const std::string& key : there.disturbed)
        if (!profile.seconds.contains(key)) merged.disturbed.insert(key);
    } catch (const UserError&) {  // told when it was read
    }
  }
  const std::string text = fmt::format("# {}\n{}", on.describe(), print_profile(merged));
  try {
    std::error_code ignored;  // the file tells why it cannot be made
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    OutputFile file(path);
    file.write(std::as_bytes(std::span(text)));
    file.commit();
  } catch (const UserError& error) {
    say("{}; what was measured is not kept", error.what());
  }
}

}  // namespace outsize
