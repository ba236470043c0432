#pragma once

#include <CLI/CLI.hpp>
#include <string_view>

namespace outsize::cli {

// Puts the flags of a command, all of them added, into the sections of its help; `footer` ends it.
void arrange_help(CLI::App& command, std::string_view footer);

}  // namespace outsize::cli
