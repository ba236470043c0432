#include "data/listing.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>

#include "base/text.h"
#include "data/file.h"

namespace outsize {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kImages{".png", ".jpg", ".jpeg"};
constexpr std::array<std::string_view, 10> kSlides{".svs", ".tif", ".tiff", ".ndpi", ".mrxs",
                                                   ".scn", ".vms", ".vmu",  ".bif",  ".svslide"};

constexpr std::int64_t kMostLabel = std::numeric_limits<std::int32_t>::max() - 1;

bool ends_with_any(const std::string& path, std::span<const std::string_view> endings) {
  std::string ending = fs::path(path).extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return std::ranges::find(endings, ending) != endings.end();
}

// What is in a folder, sorted by name, without hidden entries.
std::vector<fs::path> entries_of(const std::string& folder) {
  std::vector<fs::path> entries;
  std::error_code failure;
  for (fs::directory_iterator it(folder, failure), end; !failure && it != end; it.increment(failure))
    if (!it->path().filename().string().starts_with('.')) entries.push_back(it->path());
  if (failure) user_error("{}: cannot be read: {}", folder, failure.message());
  std::ranges::sort(entries, {}, [](const fs::path& path) { return path.filename().string(); });
  return entries;
}

std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const fs::path& path : entries_of(folder))
    if (fs::is_directory(path)) names.push_back(path.filename().string());
  return names;
}

std::vector<std::string> images_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const fs::path& path : entries_of(folder))
    if (is_image(path.string()) || is_slide(path.string())) files.push_back(path.string());
  if (files.empty()) user_error("{}: has no images (.png, .jpg, .jpeg) and no slides (.svs, .tif and others)", folder);
  return files;
}

// One sub-folder a class. A test set has the numbers of the training set's classes.
Listing list_classes(const std::string& folder, const std::vector<std::string>& classes) {
  Listing listing{.name = folder, .classes = classes, .class_count = static_cast<std::int64_t>(classes.size())};
  for (const std::string& name : folders_in(folder)) {
    const auto found = std::ranges::find(classes, name);
    if (found == classes.end())
      user_error("{}: class '{}' is not one of the training set's: {}", folder, name, fmt::join(classes, ", "));
    for (const std::string& file : images_in((fs::path(folder) / name).string()))
      listing.entries.push_back({.file = file, .label = found - classes.begin()});
  }
  return listing;
}

Listing list_masks(const std::string& folder) {
  Listing listing{.name = folder, .masks = true};
  for (const std::string& file : images_in((fs::path(folder) / "images").string())) {
    const fs::path mask = fs::path(folder) / "masks" / (fs::path(file).stem().string() + ".png");
    if (!fs::exists(mask)) user_error("{}: expected its label map in {}", file, mask.string());
    listing.entries.push_back({.file = file, .mask = mask.string()});
  }
  return listing;
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  return text;
}

}  // namespace

bool is_image(const std::string& path) { return ends_with_any(path, kImages); }
bool is_slide(const std::string& path) { return ends_with_any(path, kSlides); }

std::string test_folder(const std::string& folder) {
  if (!fs::is_directory(fs::path(folder) / "train")) return {};
  for (const char* name : {"test", "val", "valid"})
    if (fs::is_directory(fs::path(folder) / name)) return (fs::path(folder) / name).string();
  return {};
}

Listing list_folder(const std::string& folder, Part part) {
  const std::string test = test_folder(folder), train = test.empty() ? folder : (fs::path(folder) / "train").string();
  if (part == Part::test && test.empty())
    user_error("{}: has no test set of its own; expected the folders train and test (or val) in it", folder);
  const std::string& chosen = part == Part::test ? test : train;
  if (fs::is_directory(fs::path(chosen) / "images") && fs::is_directory(fs::path(chosen) / "masks")) return list_masks(chosen);
  if (const fs::path list = fs::path(chosen) / "slides.csv"; fs::exists(list)) return list_csv(list.string());
  const std::vector<std::string> classes = folders_in(train);
  if (classes.empty())
    user_error("{}: expected a sub-folder of images for each class, or the folders images and masks; found no folder", train);
  return list_classes(chosen, classes);
}

Listing list_csv(const std::string& path) {
  Listing listing{.name = path};
  std::vector<std::string> labels;
  std::vector<std::int64_t> lines;  // of the labels
  const std::string text = read_text(path);
  std::string_view rest = text;
  for (std::int64_t line_number = 1; !rest.empty(); ++line_number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty() || line.front() == '#') continue;
    const std::size_t comma = line.rfind(',');
    if (comma == std::string_view::npos) user_error("{}:{}: expected file,label, found '{}'", path, line_number, line);
    const std::string_view file = trimmed(line.substr(0, comma)), label = trimmed(line.substr(comma + 1));
    if (listing.entries.empty() && file == "file") continue;  // a heading
    const std::string found = (fs::path(path).parent_path() / file).string();
    if (!is_image(found) && !is_slide(found)) user_error("{}:{}: '{}' is neither an image nor a slide", path, line_number, file);
    if (!fs::exists(found)) user_error("{}:{}: there is no file {}", path, line_number, found);
    if (label.empty()) user_error("{}:{}: expected a label after the comma", path, line_number);
    listing.entries.push_back({.file = found});
    labels.emplace_back(label);
    lines.push_back(line_number);
  }
  if (listing.entries.empty()) user_error("{}: names no images; expected lines file,label", path);

  // Numbers are the labels; anything else are names, numbered in their order.
  std::int64_t number = 0;
  if (std::ranges::all_of(labels, [&](const std::string& label) { return parse_integer(label, number); })) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      parse_integer(labels[i], number);
      if (number < 0 || number > kMostLabel)
        user_error("{}:{}: label {} of {} is not one of 0 to {}", path, lines[i], number, listing.entries[i].file, kMostLabel);
      listing.entries[i].label = number;
      listing.class_count = std::max(listing.class_count, number + 1);
    }
    return listing;
  }
  std::map<std::string, std::int64_t> numbers;
  for (const std::string& label : labels) numbers.emplace(label, 0);
  for (auto& [name, index] : numbers) {
    index = static_cast<std::int64_t>(listing.classes.size());
    listing.classes.push_back(name);
  }
  for (std::size_t i = 0; i < labels.size(); ++i) listing.entries[i].label = numbers[labels[i]];
  listing.class_count = static_cast<std::int64_t>(listing.classes.size());
  return listing;
}

}  // namespace outsize
