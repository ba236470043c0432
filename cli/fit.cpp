#include <algorithm>
#include <charconv>
#include <limits>

#include "advice.h"
#include "base/bytes.h"
#include "base/positions.h"
#include "command.h"
#include "progress.h"
#include "row.h"
#include "search.h"
#include "table.h"

namespace outsize::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  CommonFlags common;
  ModelFlags model;
  PlanFlags plan;
  TrainingOptions training;
  std::vector<std::string> planners;
  std::string by = "batch";
  double probe_seconds = 60;
};

// What is made larger. Its sizes are numbered from 1 in the steps that the model takes.
struct Axis {
  std::function<Json(std::int64_t)> size;    // what the user would give: 64, 0.75
  std::function<Graph(std::int64_t)> model;  // throws UserError where the model does not take it
  std::int64_t start = 1;                    // the size that the model has without being asked
  bool family = false;                       // `start` members, which need not grow from one to the next
};

// Whether `model` builds.
bool takes(const Axis& axis, std::int64_t number) {
  try {
    axis.model(number);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

Axis batch_axis(const ModelFlags& flags, const Dims& x_shape) {
  return {.size = [](std::int64_t batch) { return Json(batch); },
          .model =
              [&flags, x_shape](std::int64_t batch) {
                Dims shape = x_shape;
                shape[0] = batch;
                return load_model(flags, shape);
              },
          .start = x_shape[0]};
}

// Sides of squares and cubes. A model that halves its maps and joins them again takes multiples only: how far apart they are is
// seen from its own size.
Axis image_axis(const ModelFlags& flags, const Dims& x_shape) {
  constexpr std::int64_t kLargestStep = 256;
  if (x_shape.rank() < 4) user_error("--by image: {} takes {}, not images", flags.model, to_string(without_first(x_shape)));
  const std::int64_t own = x_shape[2];
  const auto sides = [&flags, x_shape](std::int64_t first, std::int64_t step) {
    const auto side = [first, step](std::int64_t number) { return first + step * (number - 1); };
    return Axis{.size = [side](std::int64_t number) { return Json(side(number)); },
                .model =
                    [&flags, x_shape, side](std::int64_t number) {
                      Dims shape = x_shape;
                      for (int i = 2; i < shape.rank(); ++i) shape[i] = side(number);
                      return load_model(flags, shape);
                    },
                .start = (x_shape[2] - first) / step + 1};
  };
  std::int64_t step = 1;
  while (step < kLargestStep && !takes(sides(own, step), 2)) step *= 2;
  const std::int64_t rest = own % step;
  return sides(rest > 0 ? rest : step, step);
}

Axis width_axis(const ModelFlags& flags) {
  constexpr std::int64_t kSteps = 16;  // in a width of 1
  constexpr double kStep = 1.0 / kSteps;
  Axis axis{.size = [](std::int64_t number) { return Json(kStep * static_cast<double>(number)); },
            .model =
                [&flags](std::int64_t number) {
                  ModelFlags wider = flags;
                  wider.options.width = kStep * static_cast<double>(number);
                  wider.zoo_only.emplace_back("--by width");  // a file is as wide as it is
                  return load_model(wider);
                },
            .start = kSteps};
  axis.model(axis.start);
  return axis;
}

// "resnet50" → "resnet#" and 50; 0 where there is no number.
std::pair<std::string, std::int64_t> family_of(std::string_view name) {
  const std::size_t from = std::min(name.find_first_of("0123456789"), name.size());
  const std::size_t end = std::min(name.find_first_not_of("0123456789", from), name.size());
  std::int64_t number = 0;
  std::from_chars(name.data() + from, name.data() + end, number);
  return {std::string(name.substr(0, from)) + "#" + std::string(name.substr(end)), number};
}

// Models of one family differ in the number of layers that is in their names.
Axis depth_axis(const ModelFlags& flags) {
  const auto entry = std::ranges::find(zoo(), flags.model, &ModelEntry::name);
  std::vector<std::string> family;
  if (entry != zoo().end())
    for (const ModelEntry& other : zoo())
      if (other.build == entry->build && other.domain == entry->domain &&
          family_of(other.name).first == family_of(entry->name).first)
        family.emplace_back(other.name);
  if (family.size() < 2)
    user_error("--by depth: {} is of no family whose names count their layers, as those of resnet18 to resnet152 do", flags.model);
  std::ranges::sort(family, {}, [](const std::string& name) { return family_of(name).second; });
  const auto members = static_cast<std::int64_t>(family.size());
  const auto name_of_member = [family](std::int64_t number) { return family[static_cast<std::size_t>(number - 1)]; };
  return {.size = [name_of_member](std::int64_t number) { return Json(family_of(name_of_member(number)).second); },
          .model =
              [&flags, name_of_member](std::int64_t number) {
                ModelFlags deeper = flags;
                deeper.model = name_of_member(number);
                return load_model(deeper);
              },
          .start = members,
          .family = true};
}

Axis axis_of(const Flags& flags, const Session& session) {
  const Dims& x_shape = session.training.graph.value(session.training.x).type.shape;
  if (flags.by == "image") return image_axis(flags.model, x_shape);
  if (flags.by == "width") return width_axis(flags.model);
  if (flags.by == "depth") return depth_axis(flags.model);
  return batch_axis(flags.model, x_shape);
}

// What a planner reaches.
struct Reach {
  std::string planner;  // with its options
  LargestSearch search;
  PlanRow row;             // at the largest size that fits, or, where none does, the last refusal
  std::int64_t batch = 0;  // samples a step there
  std::string model;
  std::int64_t missing_above = 0;  // bytes at the smallest size that is refused
};

double throughput(const Reach& reach) { return static_cast<double>(reach.batch) / reach.row.step_seconds; }

// Asks every planner that wants this size; those whose turn took too long are asked no more.
void probe(std::vector<Reach>& reaches, std::int64_t number, const Axis& axis, const Flags& flags, Session& session,
           PrepareOptions options) {
  using Outcome = LargestSearch::Outcome;
  std::optional<StepGraph> step;
  try {
    step = make_step_graph(axis.model(number), StepKind::whole, flags.training);
  } catch (const UserError&) {  // the size is skipped
  }
  for (Reach& reach : reaches) {
    if (reach.search.next() != number) continue;
    if (!step) {
      reach.search.record(number, Outcome::untaken);
      continue;
    }
    options.planner = reach.planner;
    const PlanRow row = plan_row(step->graph, session, options);
    reach.search.record(number, row.fits() ? Outcome::fits : Outcome::refused);
    if (row.fits()) {
      reach.batch = step->graph.value(step->x).type.shape[0];
      reach.model = step->graph.name;
    } else {
      reach.missing_above = row.missing_bytes().value_or(0);
    }
    if (row.fits() || reach.search.largest() == 0) reach.row = row;
    if (*row.plan_seconds > flags.probe_seconds) reach.search.stop();
  }
  session.backend->release_kernels();
}

void search_all(std::vector<Reach>& reaches, const Axis& axis, const Flags& flags, Session& session,
                const PrepareOptions& options) {
  Progress progress(!flags.common.json);
  // Planners go together as far as they can, so that a size is built, and its kernels are prepared, once.
  while (true) {
    std::int64_t number = 0;
    std::size_t searching = 0;
    for (const Reach& reach : reaches) {
      const std::int64_t next = reach.search.next();
      if (next == 0) continue;
      ++searching;
      number = number == 0 ? next : std::min(number, next);
    }
    if (number == 0) return;
    progress.show(fmt::format("{} {}, {} of {} planners searching", flags.by, axis.size(number).dump(), searching, reaches.size()));
    probe(reaches, number, axis, flags, session, options);
  }
}

void print_table(const Flags& flags, const Session& session, const PrepareOptions& options, const Axis& axis,
                 const std::vector<Reach>& reaches) {
  fmt::print("{}, {} on {}\n\n", flags.model.model, format_bytes(options.budgets.device), session.profile.device.name);
  Table table({"planner", "largest " + flags.by, "peak", "step", "throughput", "missing for more"});
  for (const Reach& reach : reaches) {
    const std::string missing = reach.missing_above > 0 ? format_bytes(reach.missing_above) : "-";
    if (!reach.row.fits()) {
      table.row({reach.planner, reach.search.stopped() ? "none tried" : "none", "-", "-", "-", missing});
      continue;
    }
    const std::string largest = axis.size(reach.search.largest()).dump() + (reach.search.stopped() ? " or more" : "");
    table.row({reach.planner, largest, format_bytes(reach.row.peak_bytes.device), format_seconds(reach.row.step_seconds),
               format_rate(throughput(reach)), missing});
  }
  table.print();
}

void print_json(const Flags& flags, const Session& session, const PrepareOptions& options, const Axis& axis,
                const std::vector<Reach>& reaches) {
  Json object{{"fits", std::ranges::any_of(reaches, [](const Reach& reach) { return reach.row.fits(); })},
              {"model", flags.model.model},
              {"backend", session.backend->name()},
              {"device", session.profile.device.name},
              {"budget_bytes", options.budgets.device},
              {"by", flags.by},
              {"rows", Json::array()}};
  for (const Reach& reach : reaches) {
    const PlannerChoice choice = choose_planner(reach.planner);
    Json row{{"planner", choice.planner.name}, {"planner_options", to_json(choice.options)}};
    if (reach.row.fits())
      row.update(Json{{"largest", axis.size(reach.search.largest())},
                      {"peak_bytes", reach.row.peak_bytes.device},
                      {"step_s", reach.row.step_seconds},
                      {"throughput", throughput(reach)},
                      {"model", reach.model},
                      {"batch", reach.batch}});
    else
      row.update(Json{{"largest", nullptr},
                      {"peak_bytes", nullptr},
                      {"step_s", nullptr},
                      {"throughput", nullptr},
                      {"error", message_of(*reach.row.refusal)}});
    row["missing_bytes"] = reach.missing_above;
    row["stopped"] = reach.search.stopped();
    object["rows"].push_back(std::move(row));
  }
  fmt::print("{}\n", object.dump(2));
}

// The size that is searched for is not given.
void check_flags(const Flags& flags) {
  const std::string searched = "--" + flags.by;
  if (std::ranges::count(flags.model.zoo_only, searched) > 0)
    user_error("{}: `fit --by {}` searches for it; leave it out", searched, flags.by);
  if (flags.model.own_sizes) user_error("--image own: a plan is for one size; give it in pixels");
  if (flags.plan.memory.ends_with("%"))
    user_error("--memory: a percentage of what `keep` needs has no meaning while the size changes; give a size such as 2GiB");
}

int fit(const Flags& flags) {
  check_flags(flags);
  const std::vector<std::string> names = planners_named(flags.planners);
  Session session = open_session(flags.common, flags.model, flags.plan, flags.training);
  const PrepareOptions options = resolve_for_device(session, flags.plan);
  const Axis axis = axis_of(flags, session);
  std::vector<Reach> reaches;
  for (const std::string& name : names)
    reaches.push_back({.planner = name,
                       .search = axis.family ? LargestSearch::from_the_end(axis.start) : LargestSearch(axis.start),
                       .row = {},
                       .model = {}});
  search_all(reaches, axis, flags, session, options);
  (flags.common.json ? print_json : print_table)(flags, session, options, axis, reaches);
  if (std::ranges::any_of(reaches, [](const Reach& reach) { return reach.row.fits(); })) return kDone;
  const Reach& nearest = *std::ranges::min_element(
      reaches, {}, [](const Reach& reach) { return reach.row.missing_bytes().value_or(std::numeric_limits<std::int64_t>::max()); });
  const bool stopped = std::ranges::any_of(reaches, [](const Reach& reach) { return reach.search.stopped(); });
  throw BudgetError(*nearest.row.refusal,
                    fmt::format("no {}{} fits: {}", flags.by, stopped ? " that was tried" : "", sentence_of(*nearest.row.refusal)));
}

}  // namespace

Run add_fit(CLI::App& command) {
  auto flags = std::make_shared<Flags>();
  add_word(command, "--by", flags->by, {"batch", "image", "width", "depth"}, "what is made larger [batch]");
  add_number(command, "--probe-limit", flags->probe_seconds, 0,
             "a planner that takes more seconds than this for one size is asked no more [60]");
  add_model_flags(command, flags->model);
  add_optimizer_flags(command, flags->training);
  add_planners_flags(command, flags->plan, flags->planners);
  add_common_flags(command, flags->common);
  return [flags] { return fit(*flags); };
}

}  // namespace outsize::cli
