#include "run/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "backend/described.h"
#include "backend/host_memory.h"
#include "base/bytes.h"
#include "base/say.h"
#include "cost/devices.h"
#include "data/file.h"
#include "graph/reshaped.h"
#include "graph/text.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "program/simulator.h"

namespace outsize {

Graph load_model(const ModelRequest& request) {
  if (request.name.empty()) user_error("expected a MODEL: a name of the zoo (`outsize models`) or a graph file");
  if (!request.is_file()) {
    Graph graph = build_model(request.name, request.options);
    if (std::ranges::count(request.zoo_only, "--classes") > 0 && !graph.find_value("labels"))
      user_error("--classes does not apply: {} has no labels; its loss is the mean squared error", graph.name);
    return graph;
  }
  if (!request.zoo_only.empty())
    user_error("{}: applies to models of the zoo; the shapes and types of {} are those in the file", request.zoo_only.front(),
               request.name);
  return parse_network(read_text(request.name), request.name);
}

Graph load_model(const ModelRequest& request, const Dims& x_shape) {
  if (request.is_file()) return reshaped(load_model(request), x_shape);
  ModelRequest other = request;
  other.options.batch = x_shape[0];
  if (x_shape.rank() >= 4) {
    other.options.image_height = x_shape[x_shape.rank() == 5 ? 3 : 2];
    other.options.image_width = x_shape[x_shape.rank() == 5 ? 4 : 3];
    if (x_shape.rank() == 5) other.options.image_depth = x_shape[2];
  }
  return load_model(other);
}

namespace {

// Of one op on a card, which nothing else disturbs.
constexpr double kCardOpSeconds = 0.01;

// For which ops are timed where nobody has asked for it.
constexpr double kUnaskedSeconds = 5;

// What --profile and --device ask for, and what was measured on this machine is kept from one command to the next. A device that is
// not the host is measured without being asked: its ops take milliseconds, and nobody knows their times beforehand.
Profile choose_profile(Session& session, const PlanningRequest& flags) {
  const bool fresh = flags.profile == "fresh", asked = flags.profile == "measured" || fresh;
  const bool word = flags.profile.empty() || asked || flags.profile == "roofline";
  if (!session.on_this_machine && (asked || !word))
    user_error("--profile {}: is of a device itself; give it without --device {}", flags.profile, flags.device);
  if (!word) return parse_profile(read_text(flags.profile), flags.profile);
  Profile profile;
  if (!session.on_this_machine) {
    profile.device = find_device(flags.device);
    if (session.precision == "f32") profile.device.tf32_flops = 0;
    return profile;
  }
  profile.device = session.backend->device();
  const bool is_host = profile.device.is_host(), roofline = flags.profile == "roofline";
  if (roofline && is_host) return profile;
  session.measures = asked || (!is_host && !roofline);
  if (!asked) session.measuring_seconds = kUnaskedSeconds;
  session.measured_on = {describe_machine(), std::string(session.backend->name()), session.backend->libraries(), OUTSIZE_VERSION,
                         session.threads};
  const std::string path = profile_cache_path(session.measured_on);
  if (!fresh) {
    if (std::optional<Profile> cached = read_profile_cache(path)) {
      if (!is_host) {
        // What is free of the host's memory changes from run to run.
        cached->device.memory_bytes = profile.device.memory_bytes;
        cached->device.host_bytes = profile.device.host_bytes;
      }
      if (!roofline) return std::move(*cached);
      profile.device = cached->device;
      return profile;
    }
  }
  if (is_host && !session.measures) return profile;
  session.observer.show(is_host ? "measuring the machine" : "measuring the card");
  const std::string directory = flags.spill.empty() ? std::filesystem::temp_directory_path().string() : flags.spill;
  if (is_host) {
    profile.device = measure_device(profile.device, static_cast<int>(session.threads), directory);
  } else {
    measure_card(profile.device, *session.backend);
    measure_disk_of(profile.device, directory);
  }
  session.observer.show("");
  write_profile_cache(path, session.measured_on, profile);
  return profile;
}

}  // namespace

Session open_session(const Task& task, const Observer& observer, StepKind kind) {
  const PlanningRequest& plan = task.planning;
  register_ops();
  Session session;
  session.observer = observer;
  session.use(make_step_graph(load_model(task.model), kind, task.training));
  const Graph& graph = session.training.graph;

  const DType dtype = graph.value(session.training.loss).type.dtype;
  session.threads =
      task.machine.threads > 0 ? task.machine.threads : std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  session.on_this_machine = plan.device.empty() || find_device(plan.device).name == devices().front().name;
  std::string backend = task.machine.backend;
  // A described device is planned for with the kernels of cpu, but for convolutions where cuDNN plans them for it: the plan is the
  // same wherever it is made with the same cuDNN, or without one.
  if (backend.empty()) backend = dtype == DType::f64 ? "reference" : plan.device.empty() ? backend_names().front() : "cpu";
  const bool has_tf32 = session.on_this_machine ? backend == "cuda" : find_device(plan.device).tf32_flops > 0;
  if (task.model.precision == "tf32" && !has_tf32) {
    if (session.on_this_machine) user_error("--precision tf32: is of NVIDIA cards; backend {} computes in f32", backend);
    user_error("--precision tf32: {} multiplies no faster in it; leave it out", find_device(plan.device).name);
  }
  session.backend = make_backend(backend, static_cast<int>(session.threads), task.model.precision != "f32");
  session.precision = dtype == DType::f64 ? "f64" : has_tf32 && task.model.precision != "f32" ? "tf32" : "f32";
  if (!session.backend->supports(dtype))
    user_error("backend {} does not compute in {}; --backend reference does", backend, name_of(dtype));
  session.advice_seconds = plan.advice_seconds;
  if (!session.on_this_machine && backend == "cpu")
    session.described = describe_card(*session.backend, find_device(plan.device).name, session.precision == "tf32");
  session.profile = choose_profile(session, plan);
  if (!plan.plan_file.empty() && !plan.planner.empty()) user_error("give --plan or --planner, not both");
  session.planner = plan.planner.empty() ? std::string(auto_planner().name) : plan.planner;
  const PlannerChoice choice = choose_planner(session.planner);
  if (plan.no_split) {
    const auto split_of = [](const Planner& planner) { return std::ranges::find(planner.options, "split", &PlannerOption::name); };
    const auto split = split_of(choice.planner);
    if (split == choice.planner.options.end()) {
      std::vector<std::string_view> names;
      for (const Planner& planner : planners())
        if (split_of(planner) != planner.options.end()) names.push_back(planner.name);
      user_error("--no-split: applies to planners {} only", fmt::join(names, ", "));
    }
    if (!choice.options.has(*split))
      session.planner += choice.options.given().empty() ? ":split=false" : ",split=false";
    else if (choice.options.flag(*split))
      user_error("give --no-split or {}:split=true, not both", choice.planner.name);
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
  Prepared keep = prepare(session.training.graph, session.target(), session.profile,
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
  if (!session.profile.device.is_host()) options.op_seconds = kCardOpSeconds;
  options.free_bytes = session.backend->free_bytes();
  options.progress = [&](std::int64_t done, std::int64_t all) {
    session.observer.show(fmt::format("measuring op {} of {}", done + 1, all));
  };
  const auto begin = std::chrono::steady_clock::now();
  if (measure(session.profile, graph, prepared.program, *session.backend, options) > 0)
    write_profile_cache(profile_cache_path(session.measured_on), session.measured_on, session.profile);
  session.observer.show("");
  session.measuring_seconds -= std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  prepared.predicted = simulate(graph, prepared.program, session.profile);
}

std::string Coverage::describe() const {
  std::string text = fmt::format("predicted from {} measured ops of {}", measured, ops);
  if (scaled == 0) return text;
  const auto least = std::ranges::min_element(scales, {}, [](const auto& entry) { return entry.second.ops; });
  return text + fmt::format("; {} more by {} or more measured ones of their kind", scaled, least->second.ops);
}

Facts Session::facts(const PrepareOptions& options) const {
  return {.model = model,
          .description = describe(),
          .x_shape = to_string(training.graph.value(training.x).type.shape),
          .batch = batch,
          .parameters = parameters,
          .backend = std::string(backend->name()),
          .precision = precision,
          .threads = threads,
          .device = profile.device.name,
          .device_is_host = profile.device.is_host(),
          .budgets = options.budgets};
}

PrepareOptions resolve(Session& session, const PlanningRequest& flags, std::optional<Prepared>* keep) {
  PrepareOptions options;
  options.planner = session.planner;
  options.windows = true;  // all data can be read so
  options.progress = [observer = session.observer](const std::string& text) { observer.show(text); };
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
  if (options.budgets.device == 0 && flags.memory.empty())
    user_error(
        "this process can have only {} more of memory, and a run takes up to {} beside its budget; raise its limits (ulimit -d, "
        "-v), "
        "close other programs, or give a small --memory",
        format_bytes(available_bytes()), format_bytes(kMostOutside));
  if (options.budgets.device == 0) user_error("--memory: a budget of 0 bytes holds nothing");
  if (!flags.spill.empty() && !std::filesystem::is_directory(flags.spill))
    user_error("--spill: '{}' is not a directory; make it, or name one that is there", flags.spill);
  if (!flags.spill.empty()) options.budgets.disk = kNoLimit;
  // Where the device is the host, its memory is all there is: a lower tier in it would save nothing.
  if (session.profile.device.is_host())
    options.budgets.host = 0;
  else if (session.on_this_machine)
    options.budgets.host = session.profile.device.host_bytes;
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

PrepareOptions resolve_for_device(Session& session, const PlanningRequest& request, std::optional<Prepared>* keep) {
  PrepareOptions options = resolve(session, request, keep);
  const Device& device = session.profile.device;
  if (session.on_this_machine) return options;
  if (request.memory.empty()) options.budgets.device = device.memory_bytes;
  if (request.host_memory.empty()) options.budgets.host = device.host_bytes;
  return options;
}

Refused advised(Session& session, const Task& task, const PrepareOptions& options, const Refusal& refusal) {
  AdviceRequest request{.step = session.training,
                        .others = session.others,
                        .target = session.target(),
                        .profile = session.profile,
                        .options = options,
                        .seconds = session.advice_seconds};
  if (!task.model.is_file() && !task.model.own_sizes)
    request.rebuild = [&](const Dims& x_shape) {
      const Graph forward = load_model(task.model, x_shape);
      std::vector<StepGraph> programs{make_step_graph(forward, session.training.kind, task.training)};
      for (const StepGraph& other : session.others) programs.push_back(make_step_graph(forward, other.kind, task.training));
      return programs;
    };
  Refused refused = advised(request, refusal);
  const Device& device = session.profile.device;
  const std::int64_t there = device.is_host() ? session.backend->free_bytes() : device.memory_bytes;
  refused.advice.budget_is_there = refused.advice.smallest_budget.value_or(kNoLimit) <= there;
  return refused;
}

std::string dump_of_graph(const Session& session, const Task& task) {
  if (task.planning.dump == "forward") return print_graph(load_model(task.model));
  if (task.planning.dump == "graph") return print_graph(session.training.graph);
  return {};
}

std::string dump_of_plan(const Session& session, const Prepared& prepared, const std::string& dump) {
  if (dump == "plan") return print_plan(session.training.graph, prepared.plan);
  if (dump == "program") return print_program(session.training.graph, prepared.program);
  return {};
}

}  // namespace outsize
