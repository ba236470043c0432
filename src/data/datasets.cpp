#include "data/datasets.h"

#include <filesystem>

#include "data/listed_dataset.h"
#include "outsize/requests.h"

namespace outsize {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGenerated = "generated:";

std::shared_ptr<const Dataset> make_generated(const std::string& what, const DataOptions& options) {
  const std::string text = what.substr(kGenerated.size());
  const std::string kind = text.substr(0, text.find(':'));
  if (kind != "slides") user_error("--data {}: '{}' is not generated; expected generated:slides", what, kind);
  return make_generated_slides(text.size() > kind.size() ? text.substr(kind.size() + 1) : "", options);
}

Listing single_slide(const std::string& path) { return {.name = path, .class_count = 1, .entries = {{.file = path}}}; }

}  // namespace

std::shared_ptr<const Dataset> make_dataset(const std::string& what, const DataOptions& options) {
  if (what.empty() || what == "synthetic") return make_synthetic_dataset(options);
  if (what.starts_with(kGenerated)) return make_generated(what, options);
  std::error_code failure;
  const fs::file_status status = fs::status(what, failure);
  if (!fs::exists(status)) user_error("{}: cannot be opened: there is no such file or folder", what);
  if (fs::is_directory(status)) return make_listed_dataset(list_folder(what, options.part), options);
  if (what.ends_with(".npz")) return make_npz_dataset(what, options);
  if (what.ends_with(".npy")) return make_npy_dataset(what, options);
  if (options.part == Part::test) user_error("{}: has no test set of its own", what);
  if (what.ends_with(".csv")) return make_listed_dataset(list_csv(what), options);
  if (is_slide(what)) return make_listed_dataset(single_slide(what), options);
  user_error("--data {}: expected {}", what, kDataForms);
}

std::optional<std::int64_t> classes_of(const std::string& what) {
  std::error_code failure;
  if (!fs::exists(what, failure)) return {};
  if (what.ends_with(".npz")) return npz_classes(what);
  if (what.ends_with(".npy")) return npy_classes(what);
  std::optional<Listing> listing;
  if (fs::is_directory(what, failure))
    listing = list_folder(what, Part::train);
  else if (what.ends_with(".csv"))
    listing = list_csv(what);
  if (!listing || listing->class_count == 0) return {};
  return listing->class_count;
}

bool has_test_part(const std::string& what) {
  if (what.empty() || what == "synthetic" || what.starts_with(kGenerated)) return true;
  return !test_folder(what).empty();
}

}  // namespace outsize
