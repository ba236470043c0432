#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "outsize/model.h"
#include "outsize/training.h"

// What is asked of the library. Every field has the default of the command line's flag of that name, and messages speak of them by
// their flags.
namespace outsize {

// Where and how it runs.
struct MachineRequest {
  std::uint64_t seed = 0;    // of all random numbers
  std::int64_t threads = 0;  // of the backend; 0: all the machine has
  std::string backend = {};  // "cuda", "cpu" or "reference"; empty: for f32 a card where there is one, else cpu; for f64 reference
};

// The budget and who keeps it. Sizes are texts: a number of bytes, or with KiB, MiB, GiB, TiB.
struct PlanningRequest {
  std::string planner = {};      // with its options: "tflms:lb=2"; empty: the default one
  bool no_split = false;         // a planner with option `split` splits nothing
  std::string plan_file = {};    // run exactly this plan, instead of a planner
  std::string memory = {};       // or "40%" of what `keep` needs; empty: what is free
  std::string host_memory = {};  // empty: none on cpu, else what the device's description says
  std::string spill = {};        // the directory of the disk tier; empty: there is no disk tier
  std::string spill_limit = {};  // empty: no limit
  std::string device = {};       // to predict for; empty: this machine's, which the backend computes on
  // measured, fresh, roofline or a file; empty: roofline, and what was measured before; a card is measured
  std::string profile = {};
  double advice_seconds = 2;  // to look for what would help where a budget is refused
  std::string dump = {};      // forward, graph, plan or program: this text is all that is wanted
};

// What is to be trained, within what, and where.
struct Task {
  ModelRequest model;
  PlanningRequest planning = {};
  TrainingOptions training = {};
  MachineRequest machine = {};
};

struct Facts;
struct FitRow;

// What is made larger, and whom to ask.
struct FitRequest {
  std::string by = "batch";                // batch, image, width or depth
  std::vector<std::string> planners = {};  // as PlanningRequest::planner is; all where none is named
  double probe_seconds = 60;               // a planner that takes longer for one size is asked no more
  double seconds = 50;                     // nor is one whose next size would take longer than is left of these
  // Told of each planner as soon as its largest size is known.
  std::function<void(const FitRow&, const Facts&)> found = nullptr;
};

// What make_dataset() takes, in a line for the user.
inline constexpr std::string_view kDataForms =
    "a folder with a sub-folder of PNG or JPEG images for each class, or with images/ and masks/ (or train/ and test/ with "
    "either); "
    "FILE.npz with arrays x and y; x.npy beside y.npy; LIST.csv of file,label; a slide (.svs, .tif and others); "
    "generated:slides[:size=HxW,count=N,vary]; synthetic";

// The steps of a run where neither steps nor epochs are given.
inline constexpr std::int64_t kDefaultSteps = 10;

// A training run.
struct TrainingRequest {
  Task task;
  std::int64_t steps = 0;
  std::int64_t epochs = 0;  // instead of steps
  std::int64_t accumulate = 1;
  LearningRate learning_rate = {};
  std::string schedule = "constant";
  std::string data = {};  // empty: synthetic
  std::string shuffle = "on";
  std::string fit = "resize";
  std::vector<std::string> augment = {};
  bool strict = false;
  std::int64_t load_threads = 2;
  std::int64_t eval_every = 0;
  std::int64_t patience = 0;
  std::string eval_data = {};
  std::string checkpoint = {};
  std::int64_t checkpoint_every = 0;
  bool resume = false;
  bool check_spill = false;
  std::string log = {};
  std::string weights = {};
  bool partial = false;
  std::string save = {};
  std::string save_gradients = {};
  std::string trace = {};  // a file for the times of the last step's instructions
};

}  // namespace outsize
