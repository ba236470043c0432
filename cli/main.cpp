#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>

#include "answer.h"
#include "command.h"
#include "help.h"
#include "outsize/listings.h"
#include "outsize/text.h"
#include "say.h"

namespace outsize::cli {
namespace {

struct Command {
  const char* name;
  const char* help;
  Run (*add)(CLI::App&);
  const char* footer;  // of its help: what the flags leave unsaid, and examples, which the tests run
};

constexpr Command kCommands[]{
    {"train", "plan, check and train a model inside a memory budget", add_train,
     R"(A SIZE is a number of bytes, or has KiB, MiB, GiB or TiB: 512MiB, 1.5GiB. --memory also takes a
percentage of what holding everything would take: 40%.

--data FILE.npz holds two arrays, samples first. x: float32, float64, or uint8 that is scaled to [0, 1],
shaped as the model takes it (images [N, C, H, W], volumes [N, C, D, H, W]); whole numbers [N, T] where
the model takes tokens. y: whole-number labels [N], or one for each position ([N, H, W], [N, T]);
targets of the output's shape where the loss is the mean squared error.

Examples:
  outsize train densenet121 --image 64 --width 0.25 --memory 80% --planner recompute-cheap --steps 5
  outsize train gpt2 --seq 64 --batch 2 --width 0.25 --classes 1000 --optimizer adamw --lr 3e-4 --steps 5
  outsize train resnet18 --image 32 --data photos/ --augment flip,crop --epochs 2 --checkpoint run/
  outsize train net.graph --data train.npz --epochs 3 --save weights.safetensors

Exit status: 0 done; 1 the budget cannot be met; 2 bad input; 3 an internal check failed; 129, 130, 143
stopped by SIGHUP, SIGINT or SIGTERM.
)"},
    {"plan", "say whether a model fits a budget, and what it costs", add_plan,
     R"(A SIZE is a number of bytes, or has KiB, MiB, GiB or TiB: 512MiB, 1.5GiB. --memory also takes a
percentage of what holding everything would take: 40%.

Examples:
  outsize plan resnet50 --batch 64 --memory 8GiB
  outsize plan vgg16 --batch 128 --image 224 --device rtx3090
  outsize plan resnet18 --batch 4 --planner recompute-cheap --dump plan > my.plan
  outsize plan resnet18 --batch 4 --planner recompute-cheap --explain layer1.0.relu1

Exit status: 0 it fits; 1 the budget cannot be met; 2 bad input; 3 an internal check failed.
)"},
    {"compare", "say what each planner makes of a budget", add_compare,
     R"(The fastest that fits comes first; those that do not fit come last, with the bytes they miss.
A SIZE is a number of bytes, or has KiB, MiB, GiB or TiB: 512MiB, 1.5GiB. --memory also takes a
percentage of what holding everything would take: 40%.

Examples:
  outsize compare resnet18 --batch 64 --image 64 --memory 95%
  outsize compare vgg16 --batch 32 --device rtx3090 --planners keep,recompute-cheap

Exit status: 0 at least one fits; 1 none does; 2 bad input; 3 an internal check failed.
)"},
    {"fit", "find the largest batch, image, width or depth that each planner fits into a budget", add_fit,
     R"(Sizes are doubled until one is refused, then halved in between; every one is planned and lowered, and
nothing is run. Sizes that the model does not take are skipped. Images are square (volumes cubes); widths
are multiples of 1/16; depths are those of the model's family: resnet18 to resnet152, say.

Examples:
  outsize fit resnet18 --image 64 --memory 200MiB --planners keep,recompute-cheap
  outsize fit unet2d --by image --batch 1 --width 0.25 --memory 100MiB --planners keep
  outsize fit resnet18 --by depth --batch 4 --image 64 --device gtx1080ti --planners keep

Exit status: 0 something fits; 1 nothing does; 2 bad input; 3 an internal check failed.
)"},
    {"models", "list the models of the zoo", add_models,
     R"(Examples:
  outsize models
  outsize models --json
)"},
    {"planners", "list the planners", add_planners,
     R"(Examples:
  outsize planners
  outsize planners --json
)"},
    {"ops", "list the ops a graph may use, or show one with its attributes", add_ops,
     R"(Examples:
  outsize ops
  outsize ops conv2d
)"},
    {"devices", "show this machine, measured, and list the devices that can be planned for", add_devices,
     R"(--device takes a name of the list, or as much of it as is its own, with or without dashes.

Examples:
  outsize devices
  outsize devices --spill . --json
)"},
    {"selfcheck", "check that this machine's card computes, copies and plans as it should", add_selfcheck,
     R"(Every op's cases beside the reference kernels, copies both ways, and a small plan of each kind (keep,
recompute, swap, tiles, disk): in less than two minutes. --backend checks another backend than cuda.

Examples:
  outsize selfcheck --backend cuda-host
  outsize selfcheck --backend cpu --json

Exit status: 0 all is well; 2 what is wrong, or there is no card.
)"},
    {"completion", "print the shell's completion of commands, flags and names (bash; zsh by bashcompinit)", add_completion,
     R"(`make install` puts it where bash looks.

Examples:
  outsize completion > completion.bash
)"},
    {"version", "print the version", add_version,
     R"(Examples:
  outsize version
)"},
};

constexpr const char* kFooter =
    "`outsize COMMAND --help` says what a command takes and gives examples.\n"
    "Exit status: 0 done; 1 the budget cannot be met; 2 bad input; 3 an internal check failed.\n";

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

// The commands beside `app` that take `flag`: "`train` or `plan`".
std::string takers_of(const CLI::App& app, const std::string& flag) {
  std::string names;
  if (!app.get_parent()) return names;
  for (const CLI::App* command : app.get_parent()->get_subcommands({}))
    if (command != &app && std::ranges::count(flags_of(*command), flag) > 0)
      names += fmt::format("{}`{}`", names.empty() ? "" : " or ", command->get_name());
  return names;
}

[[noreturn]] void refuse_flag(const CLI::App& app, const std::string& flag) {
  if (const std::string takers = takers_of(app, flag); !takers.empty())
    user_error("{}: `{}` has no such flag; it belongs to {}", flag, app.get_name(), takers);
  const std::vector<std::string> flags = flags_of(app);
  const std::vector<std::string_view> candidates(flags.begin(), flags.end());
  const std::string near = did_you_mean(flag, candidates);
  user_error("unknown flag '{}'{}", flag, near.empty() ? "; --help lists those there are" : near);
}

// CLI11 leaves what it does not know; we name it and the nearest thing we know.
void refuse_extras(const CLI::App& command, const std::vector<std::string>& extras) {
  for (const std::string& extra : extras)
    if (extra.starts_with("-")) refuse_flag(command, extra.substr(0, extra.find('=')));
  if (!extras.empty()) user_error("unexpected argument '{}'; --help shows what '{}' takes", extras.front(), command.get_name());
}

// The line has no command that we know.
void refuse_command(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty()) return;
  if (words.front().starts_with("-")) refuse_flag(app, words.front());
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const std::string near = did_you_mean(words.front(), names);
  user_error("unknown command '{}'{}", words.front(), near.empty() ? "; --help lists those there are" : near);
}

// A flag with an empty value was meant to have one (an unset variable of a script, say), and one with the name of a flag as well.
void refuse_missing_values(const CLI::App& command) {
  const std::vector<std::string> flags = flags_of(command);
  for (const CLI::Option* option : command.get_options())
    for (const std::string& value : option->results()) {
      if (value.empty()) user_error("{}: expected a value, found nothing", option->get_name());
      if (std::ranges::count(flags, value) > 0) user_error("{}: expected a value, found the flag {}", option->get_name(), value);
    }
}

// In our words, what CLI11 could not parse.
[[noreturn]] void refuse_line(const CLI::App& app, const CLI::ParseError& error) {
  const std::string_view message = error.what();
  if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::ArgumentMismatch)) user_error("{}", message);
  for (const CLI::App* command : app.get_subcommands())
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_items_expected_max() == 1 && option->count() > 1)
        user_error("{}: given {}", option->get_name(), option->count() == 2 ? "twice" : fmt::format("{} times", option->count()));
      if (message.starts_with(option->get_name() + ": "))
        user_error("{}: expected {} after it", option->get_name(), option->get_type_name());
    }
  user_error("{}", message);
}

int run(int argc, char** argv, bool json) {
  CLI::App app("Outsize trains deep networks that do not fit the device.", "outsize");
  app.allow_extras();
  app.set_version_flag("--version", "outsize " + version(), "print the version");
  std::vector<std::pair<CLI::App*, Run>> commands;
  for (const Command& command : kCommands) {
    CLI::App* subcommand = app.add_subcommand(command.name, command.help);
    subcommand->allow_extras();
    if (command.add == add_version) subcommand->group("");  // --version stands in the same list
    commands.emplace_back(subcommand, command.add(*subcommand));
    arrange_help(*subcommand, command.footer);
  }
  arrange_help(app, kFooter);

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion&) {
    print_version(json);
    return kDone;
  } catch (const CLI::Success& request) {  // --help
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    refuse_line(app, error);
  }
  for (const auto& [subcommand, action] : commands) {
    if (!subcommand->parsed()) continue;
    refuse_extras(*subcommand, subcommand->remaining());
    refuse_missing_values(*subcommand);
    return action();
  }
  refuse_command(app, app.remaining());
  write_to_stderr(app.help());
  return kBadInput;
}

// OpenMP threads that wait by spinning for milliseconds, as they do by default, starve each other and the copy lanes as soon as
// anything else runs here: a step then takes several times as long. The library reads its setting when it is loaded, so the
// program starts itself again with a short spin, unless the user has chosen.
void spin_briefly(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  setenv("GOMP_SPINCOUNT", "20000", 1);
  setenv("OMP_STACKSIZE", "1M", 0);
  execv("/proc/self/exe", argv);  // returns only where it fails: then all is as it was
}

// Takes the places of standard streams that are closed, so that no file that is opened later becomes one of them and gets our
// messages written into it. Opened the wrong way round, they still fail when they are used.
void fill_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) == -1 && errno == EBADF) open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// Throws UserError unless all that was printed has arrived: a full disk shows only here.
void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    user_error("standard output: cannot write to file: {}", std::strerror(errno));
}

// Says on standard error, and under --json also in an object, why the command ends; returns `status`.
int report(bool json, int status, const std::string& message) {
  say("{}", message);
  if (json) {
    // A file name in a message need not be UTF-8.
    constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
    const std::string text = nlohmann::ordered_json{{"error", message}, {"status", status}}.dump(2, ' ', false, kReplace);
    std::puts(text.c_str());  // where that fails, standard error and the status must do
  }
  return status;
}

int run_and_report(int argc, char** argv) {
  const bool json = std::any_of(argv, argv + argc, [](const char* argument) { return std::strcmp(argument, "--json") == 0; });
  try {
    const int status = run(argc, argv, json);
    flush_output();
    return status;
  } catch (const UserError& error) {
    return report(json, kBadInput, error.what());
  } catch (const std::bad_alloc&) {
    return report(
        json, kBudgetRefused,
        "this process can have no more memory; give a smaller --memory, --batch or --image, or raise its limits (ulimit -d, -v)");
  } catch (const std::exception& error) {
    if (std::ferror(stdout)) return report(false, kBadInput, fmt::format("standard output: {}", error.what()));
    return report(json, kCheckFailed, fmt::format("internal error: {}", error.what()));
  }
}

}  // namespace
}  // namespace outsize::cli

// Threads need little more than some frames, and share one heap easily: they allocate little. But each is given a stack as large as
// the main thread's may be, and a heap of its own, which count where the process is limited.
void make_threads_small() {
  mallopt(M_ARENA_MAX, 1);
  constexpr std::size_t kStack = 1 << 20;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  if (pthread_attr_setstacksize(&attributes, kStack) == 0) pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

int main(int argc, char** argv) {
  using namespace outsize;
  make_threads_small();
  cli::fill_standard_streams();
  cli::spin_briefly(argv);
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the limit is an error of its write, with a message
  cli::keep_words(argc, argv);
  return cli::run_and_report(argc, argv);
}
