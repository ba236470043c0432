// The command under limits that the operating system holds it to.
#pragma once

#include "../cli/cli.h"

namespace outsize {

class Limited : public Cli {
 protected:
  // The command after `limits`, lines for a shell that the command inherits: "ulimit -d 1000".
  Result run_after(const std::string& limits, const std::string& arguments) const {
    write("script", limits + "\nexec '" OUTSIZE_PROGRAM "' " + arguments + "\n");
    const int status = std::system(("cd '" + path(".") + "' && timeout 200 sh script >stdout 2>stderr").c_str());
    // The shell that the system starts has its own words for a program that a signal ended.
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 255, text("stdout"), text("stderr")};
  }
  // The command when all its data, the libraries' included, may take so many bytes.
  Result run_within(std::int64_t bytes, const std::string& arguments) const {
    return run_after(fmt::format("ulimit -c 0\nulimit -d {}", bytes >> 10), arguments);
  }
};

}  // namespace outsize
