// The command run as a user runs it, each test in a folder of its own.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "data/file.h"

namespace outsize {

using Json = nlohmann::json;

struct Result {
  int status = -1;
  std::string out;
  std::string err;
};

// A network with everything a plan must get right: convolution, norm, residual, pooling. Small enough for every build.
inline const std::string kModel = "resnet18 --width 0.125 --image 32 --batch 4 --classes 5 --seed 3";

class Cli : public testing::Test {
 protected:
  Cli() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        std::filesystem::temp_directory_path() / (std::string("outsize_cli_") + test->name() + "_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~Cli() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  Result run(const std::string& arguments) const {
    const std::string command = "cd '" + folder_.string() + "' && '" OUTSIZE_PROGRAM "' " + arguments + " >stdout 2>stderr";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), text("stdout"), text("stderr")};
  }
  // The same, ended by a signal after so many milliseconds unless it ends before; a status that is not 0 where it was.
  Result run_killed(const std::string& arguments, int milliseconds, const std::string& signal = "KILL") const {
    const std::string command = fmt::format("cd '{}' && timeout -s {} {}.{:03} '" OUTSIZE_PROGRAM "' {} >stdout 2>stderr",
                                            folder_.string(), signal, milliseconds / 1000, milliseconds % 1000, arguments);
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 137, text("stdout"), text("stderr")};
  }
  // The object that a command prints under --json; it must succeed, and say nothing on standard error.
  Json json(const std::string& arguments) const {
    const Result result = run(arguments + " --json");
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return Json::parse(result.out);
  }
  Json train(const std::string& more) const { return json("train " + kModel + " " + more); }

  std::string text(const std::string& name) const { return read_text(path(name)); }
  void write(const std::string& name, const std::string& content) const { std::ofstream(path(name), std::ios::binary) << content; }

 private:
  std::filesystem::path folder_;
};

}  // namespace outsize
