#include <fmt/ranges.h>

#include <map>
#include <set>

#include "command.h"
#include "outsize/listings.h"

namespace outsize::cli {
namespace {

using Words = std::vector<std::string>;

template <class Infos, class Name>
Words names_in(const Infos& infos, Name name) {
  Words names;
  for (const auto& info : infos) names.push_back(info.*name);
  return names;
}

// What may follow a flag, by the name that its help gives the value: some words, a file, or what nobody can guess.
struct Value {
  Words words = {};
  bool file = false;
};

Value value_of(const CLI::Option& option) {
  const std::string flag = option.get_name(), type = option.get_type_name();
  if (flag == "--planner" || flag == "--planners") return {names_in(list_planners(), &PlannerInfo::name)};
  if (flag == "--device") return {names_in(list_devices(), &Device::name)};
  if (flag == "--backend") return {{"cpu", "reference", "cuda", "cuda-host"}};
  Value value;
  for (std::size_t from = 0; from < type.size();) {
    const std::size_t end = std::min(type.find('|', from), type.size());
    const std::string word = type.substr(from, end - from);
    // In capitals it stands for a value; else it is one.
    if (std::ranges::none_of(word, [](char c) { return c >= 'A' && c <= 'Z'; })) value.words.push_back(word);
    value.file |= word.starts_with("FILE") || word == "DIR" || word == "DATA";
    from = end + 1;
  }
  return value;
}

// A branch of a `case` of the shell.
std::string branch(const Words& patterns, const std::string& action) {
  return patterns.empty() ? "" : fmt::format("    {}) {} ;;\n", fmt::join(patterns, "|"), action);
}

std::string assign(const Words& words) { return fmt::format("words=\"{}\"", fmt::join(words, " ")); }

void print_completion(const CLI::App& app) {
  Words commands, files, unknown;
  std::map<std::string, Words> values;      // words, by flag
  std::map<std::string, Words> of_command;  // flags and names, by command
  std::set<std::string> seen;
  for (const CLI::App* command : app.get_subcommands({})) {
    commands.push_back(command->get_name());
    Words& words = of_command[command->get_name()];
    for (const CLI::Option* option : command->get_options()) {
      const std::string name = option->get_name();
      if (name == "MODEL" || name == "OP") {
        const Words names = name == "OP" ? names_in(list_ops(), &OpInfo::kind) : names_in(list_models(), &ModelInfo::name);
        words.insert(words.end(), names.begin(), names.end());
        continue;
      }
      words.push_back(name);
      if (option->get_items_expected_max() == 0 || !seen.insert(name).second) continue;
      const Value value = value_of(*option);
      if (!value.words.empty())
        values[name] = value.words;
      else
        (value.file ? files : unknown).push_back(name);
    }
  }
  fmt::print(R"(# Completes what is typed after outsize, in bash; in zsh after `autoload -U bashcompinit && bashcompinit`.
_outsize() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
  COMPREPLY=()
  case "$before" in
)");
  for (const auto& [flag, words] : values) fmt::print("{}", branch({flag}, assign(words)));
  fmt::print("{}{}", branch(files, "COMPREPLY=($(compgen -f -- \"$word\")); return"), branch(unknown, "return"));
  fmt::print("    *)\n      if ((COMP_CWORD == 1)); then {}; else\n      case \"${{COMP_WORDS[1]}}\" in\n", assign(commands));
  for (const auto& [command, words] : of_command) fmt::print("    {}", branch({command}, assign(words)));
  fmt::print(R"(      esac
      fi ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _outsize outsize
)");
}

}  // namespace

Run add_completion(CLI::App& command) {
  return [app = command.get_parent()] {
    print_completion(*app);
    return kDone;
  };
}

}  // namespace outsize::cli
