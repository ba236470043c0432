#include "base/threads.h"

#include <latch>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"

namespace outsize {
namespace {

[[noreturn]] void refuse(std::string_view purpose, std::string_view why) {
  user_error(
      "cannot start a thread for {}: {}; give smaller --threads, --load-threads or --memory, or raise the limits of this process "
      "(ulimit -u, -d, -v)",
      purpose, why);
}

}  // namespace

std::thread start_thread(std::string_view purpose, std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    refuse(purpose, error.code().message());
  } catch (const std::bad_alloc&) {
    refuse(purpose, "there is no memory for it");
  }
}

void expect_threads(std::string_view purpose, int count) {
  // Those that were started end before an error leaves here.
  struct Tried {
    std::latch go{1};
    std::vector<std::thread> threads;
    ~Tried() {
      go.count_down();
      for (std::thread& thread : threads) thread.join();
    }
  } tried;
  tried.threads.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) tried.threads.push_back(start_thread(purpose, [&tried] { tried.go.wait(); }));
}

}  // namespace outsize
