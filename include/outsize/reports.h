#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "outsize/budget.h"

// What the library answers. Seconds are seconds, bytes are bytes.
namespace outsize {

// What a task comes to before anything is planned.
struct Facts {
  std::string model;        // "resnet50"
  std::string description;  // "resnet50, batch 8 of [3, 224, 224], 25.6 M parameters"
  std::string x_shape;      // of a batch: "[8, 3, 224, 224]"
  std::int64_t batch = 0;
  std::int64_t parameters = 0;  // elements
  std::string backend;
  std::string precision;  // f64, f32, or tf32 where a card rounds the factors of products and convolutions
  std::int64_t threads = 0;
  std::string device;          // that is predicted for
  bool device_is_host = true;  // its memory is the machine's
  Budgets budgets;
};

// An option that a planner was given.
struct GivenOption {
  std::string name;
  std::variant<std::int64_t, double, std::string, std::vector<std::string>> value;
};

// How many times their roofline the ops of one kind take, and how many measured ops that rests on.
struct Scale {
  double ratio = 1;
  std::int64_t ops = 0;

  friend bool operator==(const Scale&, const Scale&) = default;
};

// How a prediction rests on measurements: of the kernels of a program by signature.
struct Coverage {
  std::int64_t measured = 0;
  std::int64_t disturbed = 0;  // of those measured: only while something else ran
  std::int64_t ops = 0;
  std::int64_t scaled = 0;              // of those that are not measured: by the scale of their kind
  std::map<std::string, Scale> scales;  // that they are predicted by

  // "measured" where all are, "roofline" where none is, else "partly".
  std::string_view name() const { return measured == 0 ? "roofline" : measured < ops ? "partly" : "measured"; }
  // "predicted from 83 measured ops of 120"
  std::string describe() const;
};

// What a plan pays in a step, its loops unrolled.
struct PlanFigures {
  std::int64_t swapped_bytes = 0;   // moved between tiers, both ways
  std::int64_t recomputed_ops = 0;  // kernels run again
  std::int64_t tiles = 0;           // over all passes
};

struct PlanRow;

// What plans are compared with: holding everything, and the time that no plan within the device's budget can beat.
struct Yardstick {
  std::int64_t keep_peak_bytes = 0;
  double keep_seconds = 0;
  double bound_seconds = 0;        // of plans without tiles
  double tiled_bound_seconds = 0;  // of plans with tiles

  double bound_of(const PlanFigures& figures) const { return figures.tiles > 0 ? tiled_bound_seconds : bound_seconds; }
  // Lowers the bound of tiles to what the plan of `row` shows to be possible: an op in tiles may take less than was known.
  void hold_for(const PlanRow& row);
};

// What one planner makes of a budget: what its plan costs, or why there is none.
struct PlanRow {
  std::string planner;  // its plain name
  std::string source;   // the paper or framework that the planner follows, or "ours"; empty of a plan that was given
  std::string made_by;  // the planner whose plan it is, where `planner` has asked several
  std::vector<GivenOption> options;
  std::string options_text;         // the same as given: "lb=2"
  std::optional<Refusal> refusal;   // none where it fits
  ByTier<std::int64_t> peak_bytes;  // of a refused one what the device would need, where that is known
  double step_seconds = 0;          // predicted
  double ops_seconds = 0;           // of its ops alone, none of them again, in the calls that the plan makes of them
  std::optional<double> plan_seconds;
  PlanFigures figures;

  bool fits() const { return !refusal; }
  // "tflms:lb=2"
  std::string name() const { return options_text.empty() ? planner : planner + ":" + options_text; }
  // "auto, by tsplit"
  std::string title() const { return made_by.empty() ? name() : name() + ", by " + made_by; }
  // 0 where it fits; none where the planner has no plan for the graph, whatever the budget.
  std::optional<std::int64_t> missing_bytes() const;
};

// What would have helped where a budget was refused: only what was tried and found to be true.
struct Advice {
  std::optional<std::int64_t> smallest_budget;  // bytes, the smallest found that the same planner fits in
  std::string peak;                             // what is at the peak of the plan within smallest_budget: "op conv1"
  bool budget_is_there = false;                 // whether the machine, or the card's description, has so many bytes
  std::vector<std::string> fitting_planners;    // that fit in the budget given
  std::vector<std::string> untried_planners;    // for which there was no time
  std::optional<std::int64_t> fitting_batch;    // samples, the most found that the same planner fits
};

// A refused budget, with what would have helped. `message` says all of it in sentences.
struct Refused {
  Refusal refusal;
  Advice advice;
  std::string message;
};

// What becomes of one value, and what else could have. Steps count from 1 in the plan, instructions from 0 in the program.
struct Explanation {
  struct Use {
    std::string op;
    std::int64_t step = 0;
    std::string pass;  // where it reads windows, tile by tile
  };
  struct Event {
    std::string what;  // "made", "made again", "swapped out", "swapped in", "dropped"
    std::int64_t step = 0;
    std::string text;  // "swapped out to host after op relu1"
  };
  struct Stay {  // a time in one tier
    Tier tier = Tier::device;
    std::int32_t first = 0;
    std::int32_t last = 0;
    std::string text;  // "op conv1 to op relu1"
  };
  std::string model, device, planner;
  std::int64_t plan_peak_bytes = 0;
  double step_seconds = 0;
  std::string value;
  std::string type;      // "f32[8, 64, 56, 56]"
  std::string role;      // "activation"
  std::string producer;  // the op that makes it; empty: it is there before the step
  std::string producer_kind;
  std::vector<std::string> producer_inputs;
  std::int64_t bytes = 0;
  std::vector<std::string> residency;  // "kept"; or some of "swapped", "recomputed", "streamed", "tiled"
  std::vector<Use> uses;
  std::vector<Event> events;
  std::vector<Stay> stays;
  std::string idle;  // "op a and op b": between them it is unused for longest
  double idle_seconds = 0;
  double host_out_seconds = 0;  // of the whole value over the link, and between host and disk
  double host_in_seconds = 0;
  double disk_out_seconds = 0;
  double disk_in_seconds = 0;
  std::optional<double> recompute_seconds;  // of its producer; none where there is none or it changes states
  bool live_at_peak = false;
  std::string peak_at;  // "op conv1"
  std::int64_t peak_live_bytes = 0;
};

struct PlanReport {
  Facts facts;
  std::string dumped;                      // the text that PlanningRequest::dump asked for; then what follows is empty
  std::optional<Explanation> explanation;  // where one was asked for
  PlanRow row;
  Yardstick yardstick;
  Coverage coverage;
  std::optional<Refused> refused;

  bool fits() const { return !refused; }
};

// Every planner that was asked, the fastest that fits first; then those that lack the fewest bytes.
struct Comparison {
  Facts facts;
  Yardstick yardstick;
  std::vector<PlanRow> rows;
};

// What one planner reaches.
struct FitRow {
  PlanRow row;  // at the largest size that fits, or, where none does, the last refusal
  std::optional<std::variant<std::int64_t, double>> largest;
  std::int64_t batch = 0;          // samples a step there
  std::string model;               // of that size
  std::int64_t missing_above = 0;  // bytes at the smallest size that is refused
  bool stopped = false;            // it was not asked of every size: that took too long, or the search was stopped

  double throughput() const { return static_cast<double>(batch) / row.step_seconds; }
};

struct FitReport {
  Facts facts;
  std::string by;
  std::vector<FitRow> rows;  // in the order of the planners

  bool fits() const;
};

// What some batches were found to give.
struct Score {
  double loss = 0;  // the mean over all labels that count, or all samples
  std::int64_t samples = 0;
  std::int64_t rows = 0;  // labels that count, as many as samples or as positions; 0 where they are not counted
  double correct = 0;     // rows whose label is the likeliest class
  double correct5 = 0;    // rows whose label is among the five likeliest; 0 where there are not more than five classes

  // Adds what another batch gave.
  void add(const Score& batch);
  double accuracy() const { return rows > 0 ? correct / static_cast<double>(rows) : 0; }
  double accuracy5() const { return rows > 0 ? correct5 / static_cast<double>(rows) : 0; }
};

// A step that was made.
struct StepReport {
  std::int64_t step = 0;   // steps made, those before a resumption included
  std::int64_t steps = 0;  // that the run is to make
  std::int64_t first = 0;  // steps made before this run
  double loss = 0;
  Score score;                      // of its batches
  Score recent;                     // of the last few steps together
  std::optional<Score> evaluation;  // the last that was made
  double seconds = 0;               // that the last steps took, each, the median
  double samples_a_second = 0;
  std::int64_t peak_bytes = 0;
};

struct EvaluationReport {
  Facts facts;
  std::optional<Refused> refused;  // then nothing was evaluated
  PlanRow row;
  std::string data;
  Score score;
  ByTier<std::int64_t> predicted_peaks;
  ByTier<std::int64_t> measured_peaks;
};

struct TrainingReport {
  Facts facts;
  std::string dumped;              // the text that PlanningRequest::dump asked for; then nothing was trained
  std::optional<Refused> refused;  // then nothing was trained, and what follows is empty
  PlanRow row;                     // the plan of a step
  bool rounding = false;           // whether its results are those of holding everything to rounding, not to the bit
  Coverage coverage;
  std::string data;
  std::int64_t accumulate = 1;
  std::vector<double> losses;        // of the steps made
  std::vector<double> step_seconds;  // of the same
  double measured_step_s = 0;        // their median
  std::int64_t samples = 0;
  std::int64_t steps_made = 0;  // those before a resumption included
  ByTier<std::int64_t> predicted_peaks;
  ByTier<std::int64_t> measured_peaks;
  std::int64_t process_peak_bytes = 0;
  std::int64_t outside_bytes = 0;         // of it: beside the plan
  std::int64_t device_outside_bytes = 0;  // of a card's memory, beside the plan: context, modules, handles, other processes
  std::optional<Score> evaluation;
  std::string stopped_by;     // what Observer::stop said, "patience", or empty: all steps were made
  double waited_seconds = 0;  // for data
  std::int64_t skipped = 0;   // samples that could not be read
  std::string log_failure;    // lines of the log that were lost, and why; empty where none was
  std::string parameters_sha256, states_sha256;
};

// What is told while something runs; each may be empty.
struct Observer {
  // What is going on, in the place of what was told before; empty where that is over.
  std::function<void(const std::string&)> progress;
  std::function<void(const StepReport&)> step;
  // Asked after each step has been told, or each size of fit(): why it is to end now ("SIGINT"), or empty.
  std::function<std::string()> stop;
  bool quiet = false;  // nothing is said on standard error but what went wrong

  void show(const std::string& text) const {
    if (progress) progress(text);
  }
};

}  // namespace outsize
