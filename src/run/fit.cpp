#include <algorithm>
#include <charconv>
#include <chrono>
#include <variant>

#include "base/positions.h"
#include "model/zoo.h"
#include "outsize/outsize.h"
#include "run/session.h"
#include "search/largest.h"
#include "search/row.h"

namespace outsize {
namespace {

using Size = std::variant<std::int64_t, double>;

// What is made larger. Its sizes are numbered from 1 in the steps that the model takes.
struct Axis {
  std::function<Size(std::int64_t)> size;    // what the user would give: 64, 0.75
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

Axis batch_axis(const ModelRequest& flags, const Dims& x_shape) {
  return {.size = [](std::int64_t batch) { return Size(batch); },
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
Axis image_axis(const ModelRequest& flags, const Dims& x_shape) {
  constexpr std::int64_t kLargestStep = 256;
  if (x_shape.rank() < 4) user_error("--by image: {} takes {}, not images", flags.name, to_string(without_first(x_shape)));
  const std::int64_t own = x_shape[2];
  const auto sides = [&flags, x_shape](std::int64_t first, std::int64_t step) {
    const auto side = [first, step](std::int64_t number) { return first + step * (number - 1); };
    return Axis{.size = [side](std::int64_t number) { return Size(side(number)); },
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

Axis width_axis(const ModelRequest& flags) {
  constexpr std::int64_t kSteps = 16;  // in a width of 1
  constexpr double kStep = 1.0 / kSteps;
  Axis axis{.size = [](std::int64_t number) { return Size(kStep * static_cast<double>(number)); },
            .model =
                [&flags](std::int64_t number) {
                  ModelRequest wider = flags;
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
Axis depth_axis(const ModelRequest& flags) {
  const auto entry = std::ranges::find(zoo(), flags.name, &ModelEntry::name);
  std::vector<std::string> family;
  if (entry != zoo().end())
    for (const ModelEntry& other : zoo())
      if (other.build == entry->build && other.domain == entry->domain &&
          family_of(other.name).first == family_of(entry->name).first)
        family.emplace_back(other.name);
  if (family.size() < 2)
    user_error("--by depth: {} is of no family whose names count their layers, as those of resnet18 to resnet152 do", flags.name);
  std::ranges::sort(family, {}, [](const std::string& name) { return family_of(name).second; });
  const auto members = static_cast<std::int64_t>(family.size());
  const auto name_of_member = [family](std::int64_t number) { return family[number - 1]; };
  return {.size = [name_of_member](std::int64_t number) { return Size(family_of(name_of_member(number)).second); },
          .model =
              [&flags, name_of_member](std::int64_t number) {
                ModelRequest deeper = flags;
                deeper.name = name_of_member(number);
                return load_model(deeper);
              },
          .start = members,
          .family = true};
}

Axis axis_of(const std::string& by, const ModelRequest& model, const Session& session) {
  const Dims& x_shape = session.training.graph.value(session.training.x).type.shape;
  if (by == "image") return image_axis(model, x_shape);
  if (by == "width") return width_axis(model);
  if (by == "depth") return depth_axis(model);
  if (by != "batch") user_error("--by: '{}' is not one of batch, image, width, depth", by);
  return batch_axis(model, x_shape);
}

// A planner's search.
struct Reach {
  std::string planner;  // with its options
  LargestSearch search;
  FitRow found;
  bool told = false;
  std::int64_t asked = 0;  // the last size …
  double seconds = 0;      // … and how long that took

  // What another size is likely to take. A refusal comes after more has been tried.
  double expected_seconds(std::int64_t number) const {
    constexpr double kRefusal = 2;
    return asked == 0 ? 0 : kRefusal * seconds * std::max(1.0, static_cast<double>(number) / static_cast<double>(asked));
  }
};

bool is_stopped(const Observer& observer) { return observer.stop && !observer.stop().empty(); }

std::string text_of(const Size& size) {
  return std::visit([](auto number) { return fmt::format("{}", number); }, size);
}

// Asks every planner that wants this size; those whose turn took too long are asked no more.
void probe(std::vector<Reach>& reaches, std::int64_t number, const Axis& axis, const Task& task, double seconds, Session& session,
           PrepareOptions options) {
  using Outcome = LargestSearch::Outcome;
  std::optional<StepGraph> step;
  try {
    step = make_step_graph(axis.model(number), StepKind::whole, task.training);
  } catch (const UserError&) {  // the size is skipped
  }
  for (Reach& reach : reaches) {
    if (reach.search.next() != number) continue;
    if (is_stopped(session.observer)) return;
    if (!step) {
      reach.search.record(number, Outcome::untaken);
      continue;
    }
    options.planner = reach.planner;
    const PlanRow row = plan_row(step->graph, session.target(), session.profile, options);
    reach.search.record(number, row.fits() ? Outcome::fits : Outcome::refused);
    FitRow& found = reach.found;
    if (!row.fits()) found.missing_above = row.missing_bytes().value_or(0);
    if (row.fits() || reach.search.largest() == 0) {
      found.row = row;
      found.batch = step->graph.value(step->x).type.shape[0];
      found.model = step->graph.name;
    }
    reach.asked = number;
    reach.seconds = *row.plan_seconds;
    if (reach.seconds > seconds) reach.search.stop();
  }
  session.backend->release_kernels();
}

// Tells of those whose search is over.
void tell(std::vector<Reach>& reaches, const Axis& axis, const FitRequest& request, const Facts& facts) {
  for (Reach& reach : reaches) {
    if (reach.told || reach.search.next() != 0) continue;
    reach.told = true;
    if (reach.search.largest() > 0) reach.found.largest = axis.size(reach.search.largest());
    reach.found.stopped = reach.search.stopped();
    if (request.found) request.found(reach.found, facts);
  }
}

void search_all(std::vector<Reach>& reaches, const Axis& axis, const Task& task, const FitRequest& request, Session& session,
                const PrepareOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const Observer& observer = session.observer;
  const Facts facts = session.facts(options);
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
    if (number == 0) return observer.show("");
    observer.show(
        fmt::format("{} {}, {} of {} planners searching", request.by, text_of(axis.size(number)), searching, reaches.size()));
    probe(reaches, number, axis, task, request.probe_seconds, session, options);
    const double left = request.seconds - std::chrono::duration<double>(Clock::now() - begin).count();
    for (Reach& reach : reaches)
      if (const std::int64_t next = reach.search.next(); next != 0)
        if (is_stopped(observer) || (reach.asked > 0 && reach.expected_seconds(next) > left)) reach.search.stop();
    tell(reaches, axis, request, facts);
  }
}

// The size that is searched for is not given.
void check(const Task& task, const FitRequest& request) {
  const std::string searched = "--" + request.by;
  if (std::ranges::count(task.model.zoo_only, searched) > 0)
    user_error("{}: `fit --by {}` searches for it; leave it out", searched, request.by);
  if (task.model.own_sizes) user_error("--image own: a plan is for one size; give it in pixels");
  if (task.planning.memory.ends_with("%"))
    user_error("--memory: a percentage of what `keep` needs has no meaning while the size changes; give a size such as 2GiB");
}

}  // namespace

bool FitReport::fits() const {
  return std::ranges::any_of(rows, [](const FitRow& row) { return row.largest.has_value(); });
}

FitReport fit(const Task& asked, const FitRequest& request, const Observer& observer) {
  const Task task = with_accuracy(asked);
  check(task, request);
  const std::vector<std::string> names = planners_or_all(request.planners);
  Session session = open_session(task, observer);
  const PrepareOptions options = resolve_for_device(session, task.planning);
  const Axis axis = axis_of(request.by, task.model, session);
  std::vector<Reach> reaches;
  for (const std::string& name : names)
    reaches.push_back({.planner = name,
                       .search = axis.family ? LargestSearch::from_the_end(axis.start) : LargestSearch(axis.start),
                       .found = {}});
  search_all(reaches, axis, task, request, session, options);
  FitReport report{.facts = session.facts(options), .by = request.by, .rows = {}};
  for (Reach& reach : reaches) report.rows.push_back(std::move(reach.found));
  return report;
}

}  // namespace outsize
