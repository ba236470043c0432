#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "base/error.h"
#include "base/text.h"
#include "command.h"
#include "ops/registry.h"

namespace outsize::cli {
namespace {

struct Command {
  const char* name;
  const char* help;
  Run (*add)(CLI::App&);
};

constexpr Command kCommands[]{
    {"train", "plan, check and train a model inside a memory budget", add_train},
    {"plan", "say whether a model fits a budget, and what it costs", add_plan},
    {"models", "list the models of the zoo", add_models},
    {"planners", "list the planners", add_planners},
    {"ops", "list the ops a graph may use", add_ops},
    {"devices", "list the devices that can be planned for", add_devices},
    {"version", "print the version", add_version},
};

constexpr const char* kFooter = "Exit status: 0 done; 1 the budget cannot be met; 2 bad input; 3 an internal check failed.";

// CLI11 leaves what it does not know; we name it and the nearest thing we know.
void refuse_extras(const CLI::App& app, const std::vector<std::string>& extras) {
  for (const std::string& extra : extras) {
    if (!extra.starts_with("-")) continue;
    std::vector<std::string> flags;
    for (const CLI::Option* option : app.get_options())
      for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    const std::string given = extra.substr(0, extra.find('='));
    const std::vector<std::string_view> candidates(flags.begin(), flags.end());
    const std::string near = did_you_mean(given, candidates);
    user_error("unknown flag '{}'{}", given, near.empty() ? "; --help lists those there are" : near);
  }
  if (extras.empty()) return;
  if (app.get_parent()) user_error("unexpected argument '{}'; --help shows what '{}' takes", extras.front(), app.get_name());
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const std::string near = did_you_mean(extras.front(), names);
  user_error("unknown command '{}'{}", extras.front(), near.empty() ? "; --help lists those there are" : near);
}

int run(int argc, char** argv) {
  CLI::App app("Outsize trains deep networks that do not fit the device.", "outsize");
  app.footer(kFooter);
  app.allow_extras();
  app.set_version_flag("--version", OUTSIZE_VERSION);
  std::vector<std::pair<CLI::App*, Run>> commands;
  for (const Command& command : kCommands) {
    CLI::App* subcommand = app.add_subcommand(command.name, command.help);
    subcommand->allow_extras();
    commands.emplace_back(subcommand, command.add(*subcommand));
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    user_error("{}", error.what());
  }
  register_ops();
  for (const auto& [subcommand, action] : commands) {
    if (!subcommand->parsed()) continue;
    refuse_extras(*subcommand, subcommand->remaining());
    return action();
  }
  refuse_extras(app, app.remaining());
  fmt::print(stderr, "{}", app.help());
  return kBadInput;
}

// OpenMP threads that wait by spinning for milliseconds, as they do by default, starve each other and the copy lanes as soon as
// anything else runs here: a step then takes several times as long. The library reads its setting when it is loaded, so the
// program starts itself again with a short spin, unless the user has chosen.
void spin_briefly(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  setenv("GOMP_SPINCOUNT", "20000", 1);
  execv("/proc/self/exe", argv);  // returns only where it fails: then all is as it was
}

}  // namespace
}  // namespace outsize::cli

int main(int argc, char** argv) {
  using namespace outsize;
  cli::spin_briefly(argv);
  try {
    return cli::run(argc, argv);
  } catch (const BudgetError& error) {
    fmt::print(stderr, "outsize: {}\n", error.what());
    return cli::kBudgetRefused;
  } catch (const UserError& error) {
    fmt::print(stderr, "outsize: {}\n", error.what());
    return cli::kBadInput;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "outsize: this machine has not enough memory for that; give a smaller --memory, --batch or --image\n");
    return cli::kBudgetRefused;
  } catch (const std::exception& error) {
    fmt::print(stderr, "outsize: internal error: {}\n", error.what());
    return cli::kCheckFailed;
  }
}
