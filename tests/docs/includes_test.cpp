// What every file of src/ includes is known to its folder by the table in src/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace outsize {
namespace {

namespace fs = std::filesystem;

const fs::path kRepository = fs::path(OUTSIZE_TESTS).parent_path();

struct Include {
  fs::path file;  // from the repository's root
  int line = 0;
  std::string path;
  bool quoted = false;

  std::string first() const { return path.substr(0, path.find('/')); }
  bool has_folder() const { return path.find('/') != std::string::npos; }
};

std::ostream& operator<<(std::ostream& out, const Include& include) {
  return out << include.file.string() << ":" << include.line << " includes " << include.path;
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<Include> includes_below(const std::string& folder) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*(["<])([^">]+)[">].*)re");
  std::vector<Include> includes;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRepository / folder)) {
    const fs::path& path = entry.path();
    if (path.extension() != ".h" && path.extension() != ".cpp" && path.extension() != ".cu") continue;
    int number = 0;
    for (const std::string& line : lines_of(path)) {
      ++number;
      std::smatch match;
      if (std::regex_match(line, match, kInclude))
        includes.push_back({fs::relative(path, kRepository), number, match[2].str(), match[1].str() == "\""});
    }
  }
  return includes;
}

// The table: a row is | `folder/` | what it is | target | links |.
struct Row {
  std::string folder;
  std::vector<std::string> inner;  // folders of its own, in their order
  std::set<std::string> links;
};

std::vector<Row> table() {
  static const std::regex kFolder("`([a-z]+)/`"), kWord("[a-z]+");
  std::vector<Row> rows;
  const auto all = [](const std::string& text, const std::regex& what, int group) {
    std::vector<std::string> found;
    for (std::sregex_iterator at(text.begin(), text.end(), what), end; at != end; ++at) found.push_back((*at)[group].str());
    return found;
  };
  for (const std::string& line : lines_of(kRepository / "src" / "README.md")) {
    if (!line.starts_with("| `")) continue;
    std::vector<std::string> cells{""};
    for (const char c : line.substr(1))
      if (c == '|')
        cells.emplace_back();
      else
        cells.back() += c;
    if (cells.size() < 4) continue;
    Row row;
    row.folder = all(cells[0], kFolder, 1).at(0);
    for (const std::string& inner : all(cells[1], kFolder, 1))
      if (fs::is_directory(kRepository / "src" / row.folder / inner)) row.inner.push_back(inner);
    for (const std::string& link : all(cells[3], kWord, 0)) row.links.insert(link == "kernels" ? "ops" : link);
    rows.push_back(row);
  }
  return rows;
}

// By folder, what it may know: itself, what its row links, and what those know.
std::map<std::string, std::set<std::string>> known_of(const std::vector<Row>& rows) {
  std::map<std::string, std::set<std::string>> known;
  for (const Row& row : rows) {
    std::set<std::string> of{row.folder};
    for (const std::string& link : row.links)
      if (const auto above = known.find(link); above != known.end()) of.insert(above->second.begin(), above->second.end());
    known[row.folder] = of;
  }
  return known;
}

TEST(Includes, TheTableLinksUpwardsOnly) {
  std::set<std::string> above{"fmt"};
  for (const Row& row : table()) {
    for (const std::string& link : row.links)
      EXPECT_TRUE(link == row.folder || above.contains(link)) << row.folder << "/ links " << link << ", which is not above it";
    above.insert(row.folder);
  }
  EXPECT_GE(above.size(), 12u);
}

TEST(Includes, AFolderKnowsThoseThatItsRowLinks) {
  const std::vector<Row> rows = table();
  const std::map<std::string, std::set<std::string>> known = known_of(rows);
  std::map<std::string, int> seen;
  for (const Include& include : includes_below("src")) {
    const std::string folder = std::next(include.file.begin())->string();
    ASSERT_TRUE(known.contains(folder)) << include.file << ": src/README.md has no row for " << folder << "/";
    const std::string of = include.first();
    if (!include.has_folder() || of == "outsize") continue;  // include/outsize is known to all
    EXPECT_TRUE(!include.quoted || known.contains(of)) << include << ", which is in no folder of src/";
    if (!known.contains(of)) continue;
    EXPECT_TRUE(known.at(folder).contains(of)) << include << ", but " << folder << "/ links no " << of << "/";
    ++seen[folder];
  }
  for (const Row& row : rows) EXPECT_GT(seen[row.folder], 0) << row.folder << "/ has no file that includes any";
}

// A folder that its row divides knows those of its parts that stand before, and the files outside the parts know none but the
// first.
TEST(Includes, APartKnowsThoseBeforeIt) {
  int divided = 0;
  for (const Row& row : table()) {
    if (row.inner.empty()) continue;
    ++divided;
    const auto rank = [&](const std::string& part) { return std::ranges::find(row.inner, part) - row.inner.begin(); };
    for (const fs::directory_entry& entry : fs::directory_iterator(kRepository / "src" / row.folder))
      EXPECT_TRUE(!entry.is_directory() || rank(entry.path().filename().string()) < std::ssize(row.inner))
          << entry.path() << " is not in its row";
    for (const Include& include : includes_below("src/" + row.folder)) {
      std::vector<std::string> from, to;
      for (const fs::path& part : include.file) from.push_back(part.string());
      for (const fs::path& part : fs::path(include.path)) to.push_back(part.string());
      if (to[0] != row.folder || to.size() < 3) continue;
      const auto own = from.size() > 3 ? rank(from[2]) : 0;
      EXPECT_LE(rank(to[1]), own) << include << ", which stands after it";
    }
  }
  EXPECT_GE(divided, 1);
}

// Plans are made and checked where no device is: only kernels and backends see kernels and the libraries of a device.
TEST(Includes, OnlyKernelsAndBackendsSeeADevice) {
  static const std::regex kKernel(R"(ops/(.*/)?(cpu|reference|cuda)[^/]*(/.*)?)");
  static const std::regex kLibrary(R"((oneapi/|dnnl|cuda|cublas|cudnn|omp\.h).*)");
  int seen = 0;
  for (const Include& include : includes_below("src")) {
    const bool device = std::regex_match(include.path, include.quoted ? kKernel : kLibrary);
    if (!device) continue;
    ++seen;
    const std::string file = fs::relative(include.file, "src").string();
    EXPECT_TRUE(file.starts_with("backend/") || std::regex_match(file, kKernel)) << include;
  }
  EXPECT_GT(seen, 0);
}

// The command line, the examples and the public headers themselves have nothing but the public headers.
TEST(Includes, UsersSeeThePublicHeadersAlone) {
  std::set<std::string> folders;
  for (const Row& row : table()) folders.insert(row.folder);
  for (const char* folder : {"cli", "examples", "include"}) {
    int seen = 0;
    for (const Include& include : includes_below(folder)) {
      const std::string of = include.first();
      const bool beside =
          include.quoted && !include.has_folder() && fs::exists(kRepository / include.file.parent_path() / include.path);
      seen += of == "outsize" && include.has_folder();
      EXPECT_TRUE(!include.quoted || beside || (of == "outsize" && include.has_folder())) << include;
      EXPECT_FALSE(include.has_folder() && folders.contains(of)) << include << " of src/";
      EXPECT_FALSE(beside && std::string_view(folder) == "include") << include << ": as users see it, outsize/" << include.path;
    }
    EXPECT_GT(seen, 0) << folder;
  }
}

}  // namespace
}  // namespace outsize
