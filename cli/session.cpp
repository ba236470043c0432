#include "session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/bytes.h"
#include "base/say.h"
#include "cost/devices.h"
#include "data/file.h"
#include "graph/reshaped.h"
#include "graph/text.h"
#include "program/simulator.h"
#include "progress.h"

namespace outsize::cli {

bool is_file(const ModelFlags& flags) { return flags.model.ends_with(".graph") || flags.model.find('/') != std::string::npos; }

Graph load_model(const ModelFlags& flags) {
  if (flags.model.empty()) user_error("expected a MODEL: a name of the zoo (`outsize models`) or a graph file");
  if (!is_file(flags)) {
    Graph graph = build_model(flags.model, flags.options);
    if (std::ranges::count(flags.zoo_only, "--classes") > 0 && !graph.find_value("labels"))
      user_error("--classes does not apply: {} has no labels; its loss is the mean squared error", graph.name);
    return graph;
  }
  if (!flags.zoo_only.empty())
    user_error("{}: applies to models of the zoo; the shapes and types of {} are those in the file", flags.zoo_only.front(),
               flags.model);
  return parse_network(read_text(flags.model), flags.model);
}

Graph load_model(const ModelFlags& flags, const Dims& x_shape) {
  if (is_file(flags)) return reshaped(load_model(flags), x_shape);
  ModelFlags other = flags;
  other.options.batch = x_shape[0];
  if (x_shape.rank() >= 4) {
    other.options.image_height = x_shape[x_shape.rank() == 5 ? 3 : 2];
    other.options.image_width = x_shape[x_shape.rank() == 5 ? 4 : 3];
    if (x_shape.rank() == 5) other.options.image_depth = x_shape[2];
  }
  return load_model(other);
}

namespace {

// The profile that --profile and --device ask for. What was measured on this machine is kept from one command to the next.
Profile choose_profile(Session& session, const PlanFlags& flags) {
  const bool here = find_device(flags.device).name == devices().front().name;
  const bool fresh = flags.profile == "fresh";
  session.measures = flags.profile == "measured" || fresh;
  const bool word = flags.profile.empty() || session.measures || flags.profile == "roofline";
  if (!here && (session.measures || !word))
    user_error("--profile {}: is of a device itself; give it without --device {}", flags.profile, flags.device);
  if (!word) return parse_profile(read_text(flags.profile), flags.profile);
  Profile profile;
  profile.device = find_device(flags.device);
  if (!here || flags.profile == "roofline") return profile;

  session.measured_on = {describe_machine(), std::string(session.backend->name()), session.backend->libraries(), OUTSIZE_VERSION,
                         session.threads};
  const std::string path = profile_cache_path(session.measured_on);
  if (!fresh)
    if (std::optional<Profile> cached = read_profile_cache(path)) return std::move(*cached);
  if (!session.measures) return profile;
  Progress progress(!session.quiet);
  progress.show("measuring the machine");
  profile.device = measure_device(profile.device, static_cast<int>(session.threads),
                                  flags.spill.empty() ? std::filesystem::temp_directory_path().string() : flags.spill);
  write_profile_cache(path, session.measured_on, profile);
  return profile;
}

}  // namespace

Session open_session(const CommonFlags& common, const ModelFlags& model, const PlanFlags& plan, const TrainingOptions& training,
                     StepKind kind) {
  if (common.json && !plan.dump.empty()) user_error("--dump {} prints text, not JSON; give it without --json", plan.dump);
  Session session;
  session.use(make_step_graph(load_model(model), kind, training));
  const Graph& graph = session.training.graph;

  const DType dtype = graph.value(session.training.loss).type.dtype;
  session.threads = common.threads > 0 ? common.threads : std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  const std::string backend = !common.backend.empty() ? common.backend : dtype == DType::f64 ? "reference" : "cpu";
  session.backend = make_backend(backend, static_cast<int>(session.threads));
  if (!session.backend->supports(dtype))
    user_error("backend {} does not compute in {}; --backend reference does", backend, name_of(dtype));
  session.quiet = common.json;
  session.advice_seconds = plan.advice_seconds;
  session.profile = choose_profile(session, plan);
  if (!plan.plan_file.empty() && !plan.planner.empty()) user_error("give --plan or --planner, not both");
  session.planner = plan.planner.empty() ? default_planner() : plan.planner;
  const PlannerChoice choice = choose_planner(session.planner);
  if (plan.no_split) {
    const auto split = std::ranges::find(choice.planner.options, "split", &PlannerOption::name);
    if (split == choice.planner.options.end()) user_error("--no-split: applies to --planner tsplit only");
    if (!choice.options.has(*split))
      session.planner += choice.options.given().empty() ? ":split=false" : ",split=false";
    else if (choice.options.flag(*split))
      user_error("give --no-split or tsplit:split=true, not both");
  }
  return session;
}

void Session::use(StepGraph step) {
  training = std::move(step);
  const Graph& graph = training.graph;
  model = graph.name;
  parameters = 0;
  for (const Value& value : graph.values())
    if (value.role == Role::parameter && !value.producer) parameters += value.type.elements();
  batch = graph.value(training.x).type.shape[0];
}

std::string Session::describe() const {
  const Dims& shape = training.graph.value(training.x).type.shape;
  Dims sample;
  for (int i = 1; i < shape.rank(); ++i) sample.push_back(shape[i]);
  const double millions = static_cast<double>(parameters) / 1e6;
  return fmt::format("{}, batch {} of {}, {:.{}f} M parameters", model, batch, to_string(sample), millions, millions < 10 ? 2 : 1);
}

Prepared prepare_keep(Session& session) {
  Prepared keep = prepare(session.training.graph, *session.backend, session.profile,
                          {.planner = "keep", .plan_text = {}, .plan_file = {}, .budgets = {}})
                      .take();
  refine(session, keep);
  return keep;
}

void refine(Session& session, Prepared& prepared) {
  if (!session.measures) return;
  const Graph& graph = session.training.graph;
  MeasureOptions options;
  options.seconds = session.measuring_seconds;
  options.free_bytes = session.backend->free_bytes();
  Progress progress(!session.quiet);
  options.progress = [&](std::int64_t done, std::int64_t all) {
    progress.show(fmt::format("measuring op {} of {}", done + 1, all));
  };
  const auto begin = std::chrono::steady_clock::now();
  if (measure(session.profile, graph, prepared.program, *session.backend, options) > 0)
    write_profile_cache(profile_cache_path(session.measured_on), session.measured_on, session.profile);
  session.measuring_seconds -= std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  prepared.predicted = simulate(graph, prepared.program, session.profile);
}

std::string describe(const Coverage& coverage) {
  std::string text = fmt::format("predicted from {} measured ops of {}", coverage.measured, coverage.ops);
  if (coverage.scaled == 0) return text;
  const auto least = std::ranges::min_element(coverage.scales, {}, [](const auto& entry) { return entry.second.ops; });
  return text + fmt::format("; {} more by {} or more measured ones of their kind", coverage.scaled, least->second.ops);
}

void warn_if_disturbed(const Session& session, const Coverage& coverage) {
  if (coverage.disturbed == 0 || session.quiet) return;
  say("something else ran while {} of the {} measured ops were timed, which may be faster than that; --profile measured times "
      "them again",
      coverage.disturbed, coverage.measured);
}

nlohmann::ordered_json to_json(const Coverage& coverage) {
  nlohmann::ordered_json scales = nlohmann::ordered_json::object();
  for (const auto& [kind, scale] : coverage.scales) scales[kind] = {{"ratio", scale.ratio}, {"ops", scale.ops}};
  return {{"profile", coverage.name()},   {"measured_ops", coverage.measured}, {"disturbed_ops", coverage.disturbed},
          {"distinct_ops", coverage.ops}, {"scaled_ops", coverage.scaled},     {"scales", scales}};
}

PlannerOptions given_options(const PrepareOptions& options) {
  return options.plan_text.empty() ? choose_planner(options.planner).options : PlannerOptions();
}

std::string with_options(std::string_view planner, const PlannerOptions& options) {
  return fmt::format("{}{}{}", planner, options.given().empty() ? "" : ":", options.to_string());
}

nlohmann::ordered_json to_json(const PlannerOptions& options) {
  using Kind = PlannerOption::Kind;
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [option, text] : options.given()) {
    nlohmann::ordered_json& value = object[std::string(option.name)];
    switch (option.kind) {
      case Kind::integer: value = options.integer(option); break;
      case Kind::number: value = options.number(option); break;
      case Kind::word: value = text; break;
      case Kind::names: value = options.names(option); break;
    }
  }
  return object;
}

PrepareOptions resolve(Session& session, const PlanFlags& flags, std::optional<Prepared>* keep) {
  PrepareOptions options;
  options.planner = session.planner;
  options.windows = true;  // all data can be read so
  if (!flags.plan_file.empty()) {
    options.plan_text = read_text(flags.plan_file);
    options.plan_file = flags.plan_file;
    if (options.plan_text.empty()) user_error("{}: the plan is empty", flags.plan_file);
  }
  std::optional<Prepared> local;
  if (!keep) keep = &local;
  // Planners should know the times of the ops that they choose among.
  if ((flags.memory.ends_with("%") || session.measures) && !*keep) *keep = prepare_keep(session);
  const std::int64_t keep_bytes = *keep ? (*keep)->program.peak_bytes.device : 0;
  options.budgets.device = flags.memory.empty() ? session.backend->free_bytes() : parse_bytes(flags.memory, "--memory", keep_bytes);
  if (options.budgets.device == 0) user_error("--memory: a budget of 0 bytes holds nothing");
  if (!flags.spill.empty() && !std::filesystem::is_directory(flags.spill))
    user_error("--spill: '{}' is not a directory; make it, or name one that is there", flags.spill);
  if (!flags.spill.empty()) options.budgets.disk = kNoLimit;
  // Where the device is the host, its memory is all there is: a lower tier in it would save nothing.
  if (session.profile.device.is_host()) options.budgets.host = 0;
  if (!flags.host_memory.empty()) {
    options.budgets.host = parse_bytes(flags.host_memory, "--host-memory");
    if (options.budgets.host == 0)
      user_error("--host-memory: 0 bytes hold nothing; leave the flag out, or choose a planner that does not swap");
  }
  if (!flags.spill_limit.empty()) {
    options.budgets.disk = parse_bytes(flags.spill_limit, "--spill-limit");
    if (options.budgets.disk == 0) user_error("--spill-limit: 0 bytes hold nothing; leave out the flag, or --spill with it");
    if (flags.spill.empty()) user_error("--spill-limit: says how much --spill DIR may hold; give that too");
  }
  return options;
}

bool dump_graph(const Session& session, const ModelFlags& model, const PlanFlags& flags) {
  if (flags.dump == "forward") fmt::print("{}", print_graph(load_model(model)));
  if (flags.dump == "graph") fmt::print("{}", print_graph(session.training.graph));
  return flags.dump == "forward" || flags.dump == "graph";
}

bool dump_plan(const Session& session, const Prepared& prepared, const PlanFlags& flags) {
  if (flags.dump == "plan") fmt::print("{}", print_plan(session.training.graph, prepared.plan));
  if (flags.dump == "program") fmt::print("{}", print_program(session.training.graph, prepared.program));
  return flags.dump == "plan" || flags.dump == "program";
}

}  // namespace outsize::cli
