#include "data/npz.h"

#include <algorithm>

#include "base/text.h"
#include "data/npy.h"

namespace outsize {

namespace {
constexpr std::string_view kSuffix = ".npy";
}

std::vector<std::string> NpzFile::names() const {
  std::vector<std::string> names;
  for (const ZipMember& member : zip_.members()) {
    std::string name = member.name;
    if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
    names.push_back(std::move(name));
  }
  return names;
}

bool NpzFile::has(std::string_view name) const { return std::ranges::count(names(), name) > 0; }

const ZipMember& NpzFile::member(std::string_view name) const {
  const std::vector<std::string> all = names();
  const auto found = std::ranges::find(all, name);
  if (found == all.end()) {
    std::string shown;
    for (const std::string& other : all) shown += (shown.empty() ? "" : ", ") + in_quotes(other);
    user_error("{}: expected an array {}, found only: {}", path(), in_quotes(name), shown);
  }
  return zip_.members()[static_cast<std::size_t>(found - all.begin())];
}

std::string NpzFile::describe(std::string_view name) const { return fmt::format("{}: array {}", path(), in_quotes(name)); }

Array NpzFile::read(std::string_view name) const { return parse_npy(zip_.read(member(name)), describe(name)); }

ArrayReader NpzFile::open(std::string_view name) const {
  const UnpackedMember found = zip_.open(member(name));
  return {found.file, found.begin, found.bytes, describe(name)};
}

}  // namespace outsize
