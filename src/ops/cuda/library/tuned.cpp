#include "ops/cuda/library/tuned.h"

#include <cuda_runtime.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <span>

#include "base/cache_directory.h"
#include "base/error.h"
#include "base/sha256.h"

namespace outsize {
namespace {

class Tuned {
 public:
  Tuned() {
    std::filesystem::path directory = cache_directory();
    cudaDeviceProp card{};
    int driver = 0;
    if (directory.empty() || cudaGetDeviceProperties(&card, 0) != cudaSuccess || cudaDriverGetVersion(&driver) != cudaSuccess)
      return;
    const std::string on = fmt::format("{}, {} multiprocessors, driver {}", card.name, card.multiProcessorCount, driver);
    Sha256 hash;
    hash.update(std::as_bytes(std::span(on)));
    path_ = directory / ("kernels-" + hash.hex_digest().substr(0, 16) + ".txt");
    std::error_code ignored;
    std::filesystem::create_directories(directory, ignored);
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      const std::size_t first = line.find('\t'), second = line.find('\t', first + 1);
      if (first == std::string::npos || second == std::string::npos) continue;
      char* end = nullptr;
      const double seconds = std::strtod(line.c_str(), &end);
      if (end == line.c_str() + first) known_.try_emplace(line.substr(first + 1), seconds);
    }
  }

  std::optional<double> find(const std::string& key) const {
    const auto found = known_.find(key);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }

  // A line is one write to the end of the file, so that processes beside each other do not mix theirs. What cannot be kept is tried
  // again by the next process, and no error.
  void keep(const std::string& key, double seconds) {
    if (!known_.try_emplace(key, seconds).second || path_.empty()) return;
    const std::string line = fmt::format("{:.9g}\t{}\n", seconds, key);
    const int file = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) return;
    [[maybe_unused]] const ssize_t written = write(file, line.data(), line.size());
    close(file);
  }

 private:
  std::filesystem::path path_;
  std::map<std::string, double> known_;
};

// Never destroyed: the library may have ended before.
Tuned& tuned() {
  static Tuned& all = *new Tuned();
  return all;
}

}  // namespace

std::optional<double> tuned_seconds(const std::string& call, const std::string& way) { return tuned().find(call + '\t' + way); }

void keep_tuned_seconds(const std::string& call, const std::string& way, double seconds) {
  tuned().keep(call + '\t' + way, seconds);
}

}  // namespace outsize
