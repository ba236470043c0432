#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/interface.h"
#include "graph/step_graph.h"
#include "outsize/reports.h"
#include "outsize/requests.h"
#include "run/measured_profile.h"
#include "run/profile_cache.h"
#include "search/advice.h"
#include "search/prepare.h"

namespace outsize {

// A task that was opened: the training graph of its model, and the backend that plans are made for.
struct Session {
  StepGraph training;
  std::vector<StepGraph> others;  // further programs of the run, which a budget must do for as well
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Target> described;  // the card of --device, where cuDNN plans for it
  Profile profile;
  MeasuredOn measured_on;
  bool on_this_machine = true;                          // what is planned for is the backend's own device
  bool measures = false;                                // --profile measured or fresh
  double measuring_seconds = MeasureOptions{}.seconds;  // that are left for it
  double advice_seconds = 0;                            // to look for what would help where a budget is refused
  Observer observer;
  std::string model;
  std::string planner;
  std::string precision;  // f64, f32 or tf32
  std::int64_t threads = 1;
  std::int64_t parameters = 0;  // elements
  std::int64_t batch = 0;

  // What plans are made for.
  Target& target() { return described ? *described : *backend; }
  // Takes `step` as the graph of the training step.
  void use(StepGraph step);
  // "resnet50, batch 8 of [3, 224, 224], 25.6 M parameters"
  std::string describe() const;
  Facts facts(const PrepareOptions& options) const;
};

// The task with the graph that training has, which counts how many labels the network meets.
inline Task with_accuracy(Task task) {
  task.training.accuracy = true;
  return task;
}

// Reads or builds the model and makes its training graph. Throws UserError for whatever does not fit.
Session open_session(const Task& task, const Observer& observer, StepKind kind = StepKind::whole);

// The forward graph of a model.
Graph load_model(const ModelRequest& request);
// The same for samples x of another shape. Throws UserError where the model does not take them.
Graph load_model(const ModelRequest& request, const Dims& x_shape);

// Plans under the budgets of the request. `keep` is filled when a percentage or the caller asks for it.
PrepareOptions resolve(Session& session, const PlanningRequest& request, std::optional<Prepared>* keep = nullptr);
// The same, but a device that is not here has what its description says, not what is free on this machine.
PrepareOptions resolve_for_device(Session& session, const PlanningRequest& request, std::optional<Prepared>* keep = nullptr);

// The plan that holds everything on the device, refined.
Prepared prepare_keep(Session& session);

// Where --profile measured (or fresh) asks for it, times those ops of the program that the profile lacks, keeps the times for later
// commands, and predicts again.
void refine(Session& session, Prepared& prepared);

// What would help where the session's budget is refused. A model of the zoo may be made for other batches; a file has the sizes
// that are in it.
Refused advised(Session& session, const Task& task, const PrepareOptions& options, const Refusal& refusal);

// The text that `dump` asks for of the graphs, or of a plan; empty where it asks for something else.
std::string dump_of_graph(const Session& session, const Task& task);
std::string dump_of_plan(const Session& session, const Prepared& prepared, const std::string& dump);

}  // namespace outsize
