#pragma once

#include <string>
#include <vector>

#include "data/datasets.h"

namespace outsize {

// Image files with what is known of them.
struct Listing {
  struct Entry {
    std::string file;
    std::int64_t label = 0;
    std::string mask;  // the file of its label map; then there is no label
  };

  std::string name;
  std::vector<std::string> classes;  // names, where labels have them
  std::int64_t class_count = 0;
  std::vector<Entry> entries;
  bool masks = false;
};

// Whether a file is an image (PNG, JPEG) or a slide (whole-slide formats, TIFF), by the end of its name.
bool is_image(const std::string& path);
bool is_slide(const std::string& path);

// A folder: a sub-folder for each class, in the order of their names; or images/ and masks/; or slides.csv; or the `part` of it
// that is one of these. Nothing is opened. Throws UserError naming what is missing.
Listing list_folder(const std::string& folder, Part part);
// The files and labels of a list.
Listing list_csv(const std::string& path);
// Where a folder's test set is; empty where it has none.
std::string test_folder(const std::string& folder);

}  // namespace outsize
