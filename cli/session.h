#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "flags.h"
#include "run/measured_profile.h"
#include "run/profile_cache.h"

namespace outsize::cli {

// What `train` and `plan` have in common: the training graph of a model, and the backend that plans are made for.
struct Session {
  StepGraph training;
  std::vector<StepGraph> others;  // further programs of the run, which a budget must do for as well
  std::unique_ptr<Backend> backend;
  Profile profile;
  MeasuredOn measured_on;
  bool measures = false;                                // --profile measured or fresh
  double measuring_seconds = MeasureOptions{}.seconds;  // that are left for it
  double advice_seconds = 0;                            // to look for what would help where a budget is refused
  bool quiet = false;                                   // --json
  std::string model;
  std::string planner;
  std::int64_t threads = 1;
  std::int64_t parameters = 0;  // elements
  std::int64_t batch = 0;

  // Takes `step` as the graph of the training step.
  void use(StepGraph step);
  // "resnet50, batch 8 of [3, 224, 224], 25.6 M parameters"
  std::string describe() const;
};

// Reads or builds the model and makes its training graph. Throws UserError for whatever does not fit.
Session open_session(const CommonFlags& common, const ModelFlags& model, const PlanFlags& plan, const TrainingOptions& training,
                     StepKind kind = StepKind::whole);

// Whether MODEL is a file: its name has a slash or ends in .graph. Else it is of the zoo.
bool is_file(const ModelFlags& flags);
// The forward graph of MODEL.
Graph load_model(const ModelFlags& flags);
// The same for samples x of another shape. Throws UserError where the model does not take them.
Graph load_model(const ModelFlags& flags, const Dims& x_shape);

// Plans under the budgets of the flags. `keep` is filled when a percentage or the caller asks for it.
PrepareOptions resolve(Session& session, const PlanFlags& flags, std::optional<Prepared>* keep = nullptr);

// The plan that holds everything on the device, refined.
Prepared prepare_keep(Session& session);

// Where --profile measured (or fresh) asks for it, times those ops of the program that the profile lacks, keeps the times for later
// commands, and predicts again.
void refine(Session& session, Prepared& prepared);
// "predicted from 83 measured ops of 120; 30 more by 5 or more measured ones of their kind"
std::string describe(const Coverage& coverage);
// Tells on standard error, but not under --json, of times that were measured while something else ran.
void warn_if_disturbed(const Session& session, const Coverage& coverage);
// Keys profile, measured_ops, disturbed_ops, distinct_ops.
nlohmann::ordered_json to_json(const Coverage& coverage);

// The options that the planner was given; none where a plan was given instead.
PlannerOptions given_options(const PrepareOptions& options);
// "tflms", "tflms:lb=2"
std::string with_options(std::string_view planner, const PlannerOptions& options);
// An object of the options that were given.
nlohmann::ordered_json to_json(const PlannerOptions& options);

// Prints what --dump asks for; true when there was something to print and the command is done.
bool dump_graph(const Session& session, const ModelFlags& model, const PlanFlags& flags);
bool dump_plan(const Session& session, const Prepared& prepared, const PlanFlags& flags);

}  // namespace outsize::cli
