// Trains a network of the zoo within a budget, by the library alone:
//   train [MODEL] [MEMORY] [PLANNER]      train resnet18 80% checkpoint
#include <cstdio>

#include "outsize/outsize.h"

int main(int argc, char** argv) try {
  outsize::TrainingRequest request;
  request.task.model.name = argc > 1 ? argv[1] : "resnet18";
  request.task.model.options = {.batch = 64, .image_height = 64, .image_width = 64, .classes = 10};
  request.task.planning.memory = argc > 2 ? argv[2] : "80%";  // of what holding everything takes; or "512MiB"
  request.task.planning.planner = argc > 3 ? argv[3] : "checkpoint";
  request.steps = 5;

  // Does it fit, and what does it cost? Nothing is run for that.
  const outsize::PlanReport planned = outsize::plan(request.task);
  if (!planned.fits()) {
    std::printf("does not fit: %s\n", planned.refused->message.c_str());
    return 1;
  }
  std::printf("%s\n", planned.facts.description.c_str());
  std::printf("holding everything takes %s; this plan takes %s of its %s and %.2f times as long\n",
              outsize::format_bytes(planned.yardstick.keep_peak_bytes).c_str(),
              outsize::format_bytes(planned.row.peak_bytes.device).c_str(),
              outsize::format_bytes(planned.facts.budgets.device).c_str(),
              planned.row.step_seconds / planned.yardstick.keep_seconds);

  outsize::Observer observer;
  observer.step = [](const outsize::StepReport& step) {
    std::printf("step %ld of %ld: loss %.4f\n", static_cast<long>(step.step), static_cast<long>(step.steps), step.loss);
  };
  const outsize::TrainingReport trained = outsize::train(request, observer);
  if (trained.refused) return 1;
  std::printf("measured peak %s, predicted %s; the process took %s\n", outsize::format_bytes(trained.measured_peaks.device).c_str(),
              outsize::format_bytes(trained.predicted_peaks.device).c_str(),
              outsize::format_bytes(trained.process_peak_bytes).c_str());
} catch (const outsize::UserError& error) {
  std::printf("%s\n", error.what());
  return 2;
}
