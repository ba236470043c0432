#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "graph/opdef.h"
#include "graph_test_support.h"

namespace outsize {
namespace {

namespace fs = std::filesystem;

// The words in quotes of a file, comments apart.
std::set<std::string> quoted_words(const fs::path& path) {
  std::ifstream file(path);
  std::set<std::string> words;
  for (std::string line; std::getline(file, line);) {
    line = line.substr(0, line.find("//"));
    for (std::size_t begin = line.find('"'); begin != std::string::npos;) {
      const std::size_t end = line.find('"', begin + 1);
      if (end == std::string::npos) break;
      words.insert(line.substr(begin + 1, end - begin - 1));
      begin = line.find('"', end + 1);
    }
  }
  return words;
}

// Words that are the kind of an op and here mean something else.
const std::set<std::string> kOtherMeanings{
    "data/pixels.cpp mean",                                              // of the pixels
    "plan/planners/blend.cpp split",  "plan/planners/stream.cpp split",  // an option of the planner
    "plan/planners/tsplit.cpp split",                                    // likewise
    "run/session.cpp split",                                             // the same
    "run/training_run.cpp adam",                                         // an optimizer, as users name it
    "run/training_run.cpp sgd",                                          // likewise
};

// What is known about an op stands in its folder, and models are made of ops; nothing else names one.
TEST(OpKinds, AreNamedByOpsAndModelsAlone) {
  register_ops();
  const fs::path source = fs::path(OUTSIZE_TESTS).parent_path() / "src";
  std::set<std::string> found;
  std::int64_t files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(source)) {
    const std::string path = entry.path().lexically_relative(source).generic_string();
    const std::string extension = entry.path().extension().string();
    if ((extension != ".cpp" && extension != ".h") || path.starts_with("ops/") || path.starts_with("model/")) continue;
    ++files;
    const std::set<std::string> words = quoted_words(entry.path());
    for (const OpDef* def : all_op_defs())
      if (words.contains(std::string(def->kind()))) found.insert(path + " " + std::string(def->kind()));
  }
  EXPECT_GT(files, 100);
  EXPECT_EQ(found, kOtherMeanings);
}

TEST(OpKinds, EachUseHasOne) {
  register_ops();
  const auto count = [](Use use) { return std::ranges::count(all_op_defs(), use, &OpDef::use); };
  for (const Use use : {Use::add, Use::gated_sum, Use::accumulate, Use::square_sum, Use::clip_factor, Use::correct_count})
    EXPECT_EQ(count(use), 1);
  for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::adam, Optimizer::adamw}) {
    const auto updates = [&](const OpDef* def) { return def->update_rule({.optimizer = optimizer}).has_value(); };
    EXPECT_EQ(std::ranges::count_if(all_op_defs(), updates), 1);
  }
}

}  // namespace
}  // namespace outsize
