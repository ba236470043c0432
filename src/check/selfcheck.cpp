#include "outsize/selfcheck.h"

#include <algorithm>
#include <filesystem>

#include "base/bytes.h"
#include "check/parts.h"
#include "cost/measure.h"
#include "ops/registry.h"
#include "outsize/outsize.h"

namespace outsize {
namespace {

using Part = SelfcheckReport::Part;

// A kind of plan, by what asks for it.
struct Kind {
  const char* name;
  const char* planner;
  const char* memory;
  const char* host_memory;
  bool disk;
};
constexpr const char* kEnough = "1GiB";
constexpr Kind kKinds[]{{"keep", "keep", kEnough, "", false},
                        {"recompute", "checkpoint:segments=4", kEnough, "", false},
                        {"swap", "vdnn-all", kEnough, kEnough, false},
                        {"tiles", "2ps-h:rows=4,stream=all", kEnough, kEnough, false},
                        {"disk", "vdnn-all", kEnough, "256KiB", true}};

TrainingRequest small_training(const MachineRequest& machine, const std::string& backend, const Kind& kind) {
  TrainingRequest request;
  request.task.model.name = "resnet18";
  request.task.model.options = {.batch = 2, .image_height = 64, .image_width = 64, .classes = 10, .width = 0.125};
  request.task.model.precision = "f32";
  request.task.machine = machine;
  request.task.machine.backend = backend;
  request.task.planning.planner = kind.planner;
  request.task.planning.memory = kind.memory;
  request.task.planning.host_memory = kind.host_memory;
  request.task.planning.profile = "roofline";
  if (kind.disk) request.task.planning.spill = std::filesystem::temp_directory_path().string();  // in a file without a name
  request.learning_rate.base = 0.001;  // so that rounding of the first steps does not grow
  request.steps = 3;
  return request;
}

// Whether the plan is of the kind it stands for.
bool is_of_kind(const Kind& kind, const TrainingReport& report) {
  const std::string_view name = kind.name;
  const PlanFigures& figures = report.row.figures;
  if (name == "recompute") return figures.recomputed_ops > 0;
  if (name == "swap") return report.predicted_peaks.host > 0;
  if (name == "disk") return report.predicted_peaks.disk > 0;
  if (name == "tiles") return figures.tiles > 0;
  return true;
}

// Three steps of a small network by a plan of each kind: the same parameters to the bit as with `keep`, in tiles the same losses to
// rounding, and the memory that was foretold; `keep` itself has the losses of another backend.
std::vector<Part> check_plans(const MachineRequest& machine, const std::string& backend, const Observer& observer) {
  Observer quiet;
  quiet.quiet = true;
  std::vector<Part> parts;
  std::optional<TrainingReport> keep;
  const std::string other = backend == "cpu" ? "reference" : "cpu";
  for (const Kind& kind : kKinds) {
    Part part{.name = fmt::format("plan: {}", kind.name)};
    const double begin = checks::now();
    observer.show(fmt::format("checking a plan: {}", kind.name));
    try {
      const TrainingReport report = train(small_training(machine, backend, kind), quiet);
      if (report.refused) {
        checks::note(part, "refused: " + report.refused->message);
      } else {
        checks::check_peak(part, report);
        if (!is_of_kind(kind, report)) checks::note(part, fmt::format("its plan has no {}", kind.name));
        if (!keep) {
          checks::compare_losses(part, report, train(small_training(machine, other, kind), quiet), other);
          keep = report;
        } else if (report.rounding) {
          part.found += fmt::format(", {} tiles", report.row.figures.tiles);
          checks::compare_losses(part, report, *keep, "keep");
        } else {
          checks::compare_bits(part, report, *keep);
        }
        if (kind.disk) part.found += fmt::format(", {} on disk", format_bytes(report.predicted_peaks.disk));
      }
    } catch (const std::exception& error) {
      checks::note(part, error.what());
    }
    part.seconds = checks::now() - begin;
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

bool SelfcheckReport::well() const {
  return std::ranges::all_of(parts, [](const Part& part) { return part.well(); });
}

SelfcheckReport selfcheck(const MachineRequest& request, const Observer& observer) {
  const double begin = checks::now();
  register_ops();
  SelfcheckReport report;
  report.backend = request.backend.empty() ? "cuda" : request.backend;
  const int threads = request.threads > 0 ? static_cast<int>(request.threads) : describe_machine().threads;
  {
    const std::unique_ptr<Backend> backend = make_backend(report.backend, threads, false);
    report.device = backend->device().name;
    report.libraries = backend->libraries();
    report.parts.push_back(checks::check_link(*backend, observer));
    report.parts.push_back(checks::check_ops(*backend, "f32", 1e-5, observer));
  }
  if (report.backend == "cuda") {
    const std::unique_ptr<Backend> backend = make_backend(report.backend, threads, true);
    report.parts.push_back(checks::check_ops(*backend, "tf32", 1e-3, observer));
  }
  std::ranges::move(check_plans(request, report.backend, observer), std::back_inserter(report.parts));
  observer.show("");
  report.seconds = checks::now() - begin;
  return report;
}

}  // namespace outsize
