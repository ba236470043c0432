// Runs every file of the given folders through a fuzz target, without libFuzzer: what fuzzing found once stays found.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  constexpr double kMostSeconds = 5;  // under the sanitizers, on a busy machine; a hang is far longer
  int files = 0, failures = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
      const auto begin = Clock::now();
      const char* wrong = nullptr;
      try {
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
        if (std::chrono::duration<double>(Clock::now() - begin).count() > kMostSeconds) wrong = "takes too long";
      } catch (const std::exception& error) {
        wrong = error.what();
        std::fprintf(stderr, "%s: %s\n", entry.path().c_str(), wrong);
      }
      ++files;
      if (wrong) ++failures;
    }
  }
  std::printf("%d inputs, %d wrong\n", files, failures);
  return files > 0 && failures == 0 ? 0 : 1;
}
