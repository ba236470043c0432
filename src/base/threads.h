#pragma once

#include <functional>
#include <string_view>
#include <thread>

namespace outsize {

// A thread that runs `body`. Throws UserError where the system has no room for one more, naming what it is for ("reading data").
std::thread start_thread(std::string_view purpose, std::function<void()> body);

// Throws UserError where the system has no room for so many threads more at the same time: for libraries that end the process
// where they cannot start theirs. The threads that are tried have ended when it returns.
void expect_threads(std::string_view purpose, int count);

}  // namespace outsize
