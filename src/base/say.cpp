#include "base/say.h"

#include <cstdio>

namespace outsize {
namespace {

std::function<void(const std::string&)>& taker() {
  static std::function<void(const std::string&)> function;
  return function;
}

}  // namespace

void write_to_stderr(std::string_view text) noexcept { std::fwrite(text.data(), 1, text.size(), stderr); }

void tell(const std::string& sentence) {
  if (taker()) return taker()(sentence);
  write_to_stderr(fmt::format("outsize: {}\n", sentence));
}

void on_message(std::function<void(const std::string&)> take) { taker() = std::move(take); }

}  // namespace outsize
