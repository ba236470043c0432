#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace outsize::cli {

// What a command does once its line is parsed; returns the exit status. Under --json it prints one object on standard output, also
// of a budget that cannot be met; an error that it throws is printed by whoever runs the command.
using Run = std::function<int()>;

// Each adds its flags to its own subcommand.
Run add_train(CLI::App& command);
Run add_plan(CLI::App& command);
Run add_compare(CLI::App& command);
Run add_fit(CLI::App& command);
Run add_models(CLI::App& command);
Run add_planners(CLI::App& command);
Run add_ops(CLI::App& command);
Run add_devices(CLI::App& command);
Run add_selfcheck(CLI::App& command);
Run add_completion(CLI::App& command);
Run add_version(CLI::App& command);

// What `outsize version` and `outsize --version` print.
void print_version(bool json);

inline constexpr int kDone = 0;
inline constexpr int kBudgetRefused = 1;
inline constexpr int kBadInput = 2;
inline constexpr int kCheckFailed = 3;
inline constexpr int kSignalled = 128;  // and the number of the signal, as shells have it

}  // namespace outsize::cli
