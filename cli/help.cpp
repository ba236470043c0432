#include "help.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>

namespace outsize::cli {
namespace {

constexpr std::string_view kRun[]{"--steps", "--epochs", "--accumulate", "--patience", "--print-every", "--resume"};
constexpr std::string_view kModel[]{"--batch",   "--image",           "--seq",      "--classes", "--width",
                                    "--dropout", "--label-smoothing", "--precision"};
constexpr std::string_view kData[]{"--data",   "--shuffle",      "--fit",       "--augment",
                                   "--strict", "--load-threads", "--eval-data", "--eval-every"};
constexpr std::string_view kOptimizer[]{"--lr",        "--schedule",     "--warm-up",  "--schedule-every", "--schedule-factor",
                                        "--optimizer", "--momentum",     "--nesterov", "--beta1",          "--beta2",
                                        "--eps",       "--weight-decay", "--clip-norm"};
constexpr std::string_view kPlan[]{"--memory",  "--host-memory", "--spill",    "--spill-limit", "--check-spill",
                                   "--planner", "--no-split",    "--planners", "--plan",        "--device",
                                   "--profile", "--dump",        "--explain"};
constexpr std::string_view kSearch[]{"--by", "--probe-limit", "--seconds"};
constexpr std::string_view kFiles[]{"--weights",    "--partial",         "--save", "--save-gradients", "--log",
                                    "--checkpoint", "--checkpoint-every"};
constexpr std::string_view kEveryCommand[]{"--json", "--seed", "--threads", "--backend", "--help"};

struct Section {
  std::string_view title;
  std::span<const std::string_view> flags;
};

// In the order of the help. A flag that is in none comes before them, under "Flags" or the group it was given.
constexpr Section kSections[]{{"Run", kRun},
                              {"Search", kSearch},
                              {"Model", kModel},
                              {"Data", kData},
                              {"Optimizer", kOptimizer},
                              {"Plan", kPlan},
                              {"Files", kFiles},
                              {"Every command", kEveryCommand}};
constexpr std::string_view kOther = "Flags";

std::string_view section_of(const std::string& flag) {
  for (const Section& section : kSections)
    if (std::ranges::find(section.flags, flag) != section.flags.end()) return section.title;
  return kOther;
}

constexpr std::size_t kWidth = 100;  // of a line
constexpr std::size_t kColumn = 30;  // where descriptions begin

// `text` in lines of at most `width` letters, broken at blanks.
std::string wrap(const std::string& text, std::size_t width) {
  std::string out;
  std::size_t length = 0;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find(' ', from), text.size());
    const std::string word = text.substr(from, end - from);
    const bool fits = length + 1 + word.size() <= width;
    if (!out.empty()) out += fits ? ' ' : '\n';
    length = (out.empty() || !fits ? 0 : length + 1) + word.size();
    out += word;
    from = end + 1;
  }
  return out;
}

class Formatter : public CLI::Formatter {
 public:
  Formatter() { column_width(kColumn); }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const override {
    std::string usage = app->get_parent() ? "" : " COMMAND";
    std::string arguments;
    for (const CLI::Option* option : app->get_options([](const CLI::Option* each) { return each->get_positional(); })) {
      usage += option->get_option_text().empty() ? " [" + option->get_name() + "]" : " " + option->get_name();
      arguments += make_option(option, true);
    }
    std::string text = fmt::format("Usage: {}{} [FLAGS]\n\n{}\n", name, usage, app->get_description());
    if (!arguments.empty()) text += "\nArguments:\n" + arguments;
    text += commands(*app);
    for (const std::string& group : app->get_groups())
      if (std::ranges::find(kSections, group, &Section::title) == std::end(kSections)) text += section(*app, group);
    for (const Section& each : kSections) text += section(*app, each.title);
    return app->get_footer().empty() ? text : text + "\n" + app->get_footer();
  }

  // The type of an argument is its name.
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_positional() && option->get_option_text().empty() ? "" : CLI::Formatter::make_option_opts(option);
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    return wrap(option->get_description(), kWidth - kColumn);
  }

 private:
  std::string section(const CLI::App& app, std::string_view title) const {
    std::string text;
    for (const CLI::Option* option :
         app.get_options([&](const CLI::Option* each) { return each->nonpositional() && each->get_group() == title; }))
      text += make_option(option, false);
    return text.empty() ? "" : fmt::format("\n{}:\n{}", title, text);
  }

  std::string commands(const CLI::App& app) const {
    std::string text;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); }))
      text += fmt::format("  {:<12}{}\n", command->get_name(), command->get_description());
    return text.empty() ? "" : "\nCommands:\n" + text;
  }
};

}  // namespace

void arrange_help(CLI::App& command, std::string_view footer) {
  command.set_help_flag("--help,-h", "print this");
  for (CLI::Option* option : command.get_options())
    if (option->get_group() == CLI::OptionDefaults().get_group())
      option->group(std::string(
          section_of(command.get_parent() && !option->get_lnames().empty() ? "--" + option->get_lnames().front() : "")));
  command.formatter(std::make_shared<Formatter>());
  command.footer(std::string(footer));
}

}  // namespace outsize::cli
