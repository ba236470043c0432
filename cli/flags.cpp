#include "flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "outsize/text.h"
#include "say.h"

namespace outsize::cli {

CLI::Option* add_integer(CLI::App& command, const std::string& flag, std::int64_t& target, std::int64_t minimum,
                         const std::string& help) {
  const auto take = [flag, &target, minimum](const std::string& text) {
    if (!parse_integer(text, target) || target < minimum)
      user_error("{}: '{}' is not a whole number of at least {}", flag, text, minimum);
  };
  return command.add_option_function<std::string>(flag, take, help)->type_name("N");
}

std::string Range::describe() const {
  const std::string from = fmt::format("{} {}", open ? "above" : "of at least", least);
  return std::isinf(below) ? from : fmt::format("{} and below {}", from, below);
}

CLI::Option* add_number(CLI::App& command, const std::string& flag, double& target, const Range& range, const std::string& help) {
  const auto take = [flag, &target, range](const std::string& text) {
    if (!parse_number(text, target) || !range.has(target)) user_error("{}: '{}' is not a number {}", flag, text, range.describe());
  };
  return command.add_option_function<std::string>(flag, take, help)->type_name("NUMBER");
}

CLI::Option* add_word(CLI::App& command, const std::string& flag, std::string& target, std::vector<std::string> choices,
                      const std::string& help) {
  const std::string type_name = fmt::format("{}", fmt::join(choices, "|"));
  const auto take = [flag, &target, choices = std::move(choices)](const std::string& text) {
    if (std::ranges::find(choices, text) == choices.end())
      user_error("{}: '{}' is not one of {}", flag, text, fmt::join(choices, ", "));
    target = text;
  };
  return command.add_option_function<std::string>(flag, take, help)->type_name(type_name);
}

void add_common_flags(CLI::App& command, CommonFlags& flags) {
  command.add_flag("--json", flags.json, "print one JSON object instead of text");
  const auto take_seed = [&flags](const std::string& text) {
    std::int64_t seed = 0;
    if (!parse_integer(text, seed) || seed < 0) user_error("--seed: '{}' is not a whole number of at least 0", text);
    flags.machine.seed = static_cast<std::uint64_t>(seed);
  };
  command.add_option_function<std::string>("--seed", take_seed, "of all random numbers [0]")->type_name("N");
  const auto take_threads = [&flags](const std::string& text) {
    std::int64_t threads = 0;
    if (!parse_integer(text, threads) || threads < 1 || threads > 1024)
      user_error("--threads: '{}' is not a whole number from 1 to 1024", text);
    flags.machine.threads = threads;
  };
  command.add_option_function<std::string>("--threads", take_threads, "threads of the backend [all]")->type_name("N");
  command
      .add_option("--backend", flags.machine.backend,
                  "cuda, cpu or reference [a card where there is one, else cpu; f64: reference]")
      ->type_name("NAME");
}

namespace {

// A part of one: dropout rates, momenta, decays. The whole would leave nothing of what it is a part of.
const Range kShare(0, 1);

// "512", "512x384" or "64x64x32".
void take_image(const std::string& text, ModelOptions& options) {
  std::vector<std::int64_t> extents;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t by = std::min(text.find('x', from), text.size());
    std::int64_t extent = 0;
    if (!parse_integer(std::string_view(text).substr(from, by - from), extent) || extent < 1 || extents.size() == 3)
      user_error("--image: '{}' is not a size in pixels; expected H, HxW or HxWxD, such as 224, 480x640 or 64x64x32, or own", text);
    extents.push_back(extent);
    from = by + 1;
  }
  options.image_height = extents[0];
  options.image_width = extents[extents.size() > 1 ? 1 : 0];
  options.image_depth = extents.size() > 2 ? extents[2] : 0;
}

}  // namespace

void add_model_flags(CLI::App& command, ModelRequest& flags) {
  const auto note = [&flags](CLI::Option* option) {
    option->each([&flags, name = option->get_name()](const std::string&) { flags.zoo_only.push_back(name); });
  };
  command.add_option("MODEL", flags.name, "a model of the zoo (`outsize models`) or a graph file (*.graph)")
      ->option_text("(required)");
  note(add_integer(command, "--batch", flags.options.batch, 1, "samples a step [8]"));
  note(command
           .add_option_function<std::string>(
               "--image",
               [&flags](const std::string& text) {
                 flags.own_sizes = text == "own";
                 if (!flags.own_sizes) take_image(text, flags.options);
               },
               "extents of an image or volume [the model's]; own: each sample's own, with --batch 1")
           ->type_name("H[xW[xD]]|own"));
  note(add_integer(command, "--seq", flags.options.sequence, 1, "tokens a sample [the model's]"));
  note(add_integer(command, "--classes", flags.options.classes, 1,
                   "classes, or the vocabulary of a language model [the data's or the model's]"));
  note(add_number(command, "--width", flags.options.width, 1e-6, "factor on every hidden channel count [1]"));
  note(add_number(command, "--dropout", flags.options.dropout, kShare, "every dropout rate of the model [as published]"));
  note(add_number(command, "--label-smoothing", flags.options.label_smoothing, kShare,
                  "share of the target spread over all classes [0]"));
  command
      .add_option_function<std::string>(
          "--precision",
          [&flags](const std::string& text) {
            if (text != "f32" && text != "tf32" && text != "f64")
              user_error("--precision: '{}' is not one of f32, tf32, f64", text);
            flags.options.dtype = text == "f64" ? DType::f64 : DType::f32;
            flags.precision = text;
            if (text == "f64") flags.zoo_only.push_back("--precision");
          },
          "of parameters and activations; tf32: f32 whose products a card makes of rounded factors [a card that does so faster: "
          "tf32, else f32]")
      ->type_name("f32|tf32|f64");
}

void add_plan_flags(CLI::App& command, PlanningRequest& flags) {
  const auto take_memory = [&flags](const std::string& text) {
    if (text.empty()) user_error("--memory: expected a size such as 512MiB, 2GiB or 40%, found nothing");
    flags.memory = text;
  };
  command
      .add_option_function<std::string>("--memory", take_memory, "budget of the device, or 40% of what `keep` needs [what is free]")
      ->type_name("SIZE");
  command.add_option("--host-memory", flags.host_memory, "budget of the host tier [no limit]")->type_name("SIZE");
  command.add_option("--spill", flags.spill, "directory of the disk tier [the system's temporary one]")->type_name("DIR");
  command.add_option("--spill-limit", flags.spill_limit, "budget of the disk tier [no limit]")->type_name("SIZE");
  command.add_option("--planner", flags.planner, "who plans, and its options (`outsize planners`)")
      ->type_name("NAME[:OPTION=VALUE,…]");
  command.add_flag("--no-split", flags.no_split, "a planner with the option split (tsplit, stream, blend) splits nothing");
  command.add_option("--plan", flags.plan_file, "run exactly this plan (as --dump plan prints it)")->type_name("FILE");
  command.add_option("--device", flags.device, "the device to predict for (`outsize devices`) [this one]")->type_name("NAME");
  command
      .add_option(
          "--profile", flags.profile,
          "what ops take: `measured` times those first that never were, or only while something else ran; `fresh` times all "
          "anew; `roofline` estimates [estimates, but for ops that were measured here before; on a card: measured]")
      ->type_name("measured|fresh|roofline|FILE");
  add_number(command, "--advice", flags.advice_seconds, 0,
             "seconds in which a refusal looks for a budget, and for planners, that would do [2]");
  add_word(command, "--dump", flags.dump, {"forward", "graph", "plan", "program"}, "print it and stop");
}

void add_optimizer_flags(CLI::App& command, TrainingOptions& options) {
  options.accuracy = true;
  // First: the library takes flags in this order, whatever the user's, and the others look at it.
  const auto take_optimizer = [&options](const std::string& text) {
    if (text == "sgd")
      options.optimizer = Optimizer::sgd;
    else if (text == "adam")
      options.optimizer = Optimizer::adam;
    else if (text == "adamw")
      options.optimizer = Optimizer::adamw;
    else
      user_error("--optimizer: '{}' is not one of sgd, adam, adamw", text);
  };
  command.add_option_function<std::string>("--optimizer", take_optimizer, "how parameters are updated [sgd]")
      ->type_name("sgd|adam|adamw");
  const auto expect = [&options](const std::string& flag, bool sgd) {
    if ((options.optimizer == Optimizer::sgd) != sgd)
      user_error("{}: applies to {}", flag, sgd ? "--optimizer sgd only" : "--optimizer adam or adamw only");
  };
  const auto only_with = [&expect](bool sgd, CLI::Option* option) {
    option->each([expect, flag = option->get_name(), sgd](const std::string&) { expect(flag, sgd); });
  };
  only_with(true, add_number(command, "--momentum", options.momentum, kShare, "of sgd [0.9]"));
  command.add_flag_callback(
      "--nesterov",
      [&options, expect] {
        expect("--nesterov", true);
        options.nesterov = true;
      },
      "look ahead along the momentum, in sgd");
  only_with(false, add_number(command, "--beta1", options.beta1, kShare, "decay of the mean gradient in adam [0.9]"));
  only_with(false, add_number(command, "--beta2", options.beta2, kShare, "decay of the mean squared gradient in adam [0.999]"));
  only_with(false, add_number(command, "--eps", options.eps, Range::above(0), "added to the denominator in adam [1e-8]"));
  add_number(command, "--weight-decay", options.weight_decay, 0, "L2 penalty, in adamw decoupled [0]");
  add_number(command, "--clip-norm", options.clip_norm, 0, "the gradients' largest common norm [0: not clipped]");
}

std::vector<std::string> planners_named(const std::vector<std::string>& parts) {
  // A comma also stands between options: what has an = but no colon before it is one of the planner before.
  std::vector<std::string> texts;
  for (const std::string& part : parts) {
    const bool option = part.find('=') < part.find(':');
    if (option && !texts.empty())
      texts.back() += (texts.back().find(':') == std::string::npos ? ":" : ",") + part;
    else
      texts.push_back(part);
  }
  return texts;
}

void add_planners_flags(CLI::App& command, PlanningRequest& request, std::vector<std::string>& planners) {
  // One word, so that it does not take MODEL too.
  command.add_option("--planners", planners, "only these, with their options (`outsize planners`) [all]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME[:OPTION=VALUE,…],…");
  add_plan_flags(command, request);
  // They are about one plan.
  for (const char* flag : {"--planner", "--no-split", "--plan", "--advice", "--dump"})
    command.remove_option(command.get_option(flag));
}

}  // namespace outsize::cli
