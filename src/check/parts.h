#pragma once

#include <string>

#include "backend/interface.h"
#include "outsize/selfcheck.h"

// What selfcheck() looks at, part by part.
namespace outsize::checks {

using Part = SelfcheckReport::Part;

// No more is said of one part than this; where so much is wrong, the rest is the same mistake or hides behind it.
inline constexpr std::size_t kMostWrong = 8;

// Notes what is wrong; returns whether there is room for more.
bool note(Part& part, std::string what);
// Seconds on a clock that only goes on.
double now();

// Every op of every case, forward and backward, beside the reference kernels in f64 on the same inputs; and what a kernel may not
// do. Floats may be off by `tolerance`, relative, whole numbers by nothing. `precision` names the backend's, for messages.
Part check_ops(Backend& backend, const std::string& precision, double tolerance, const Observer& observer);

// Copies between host and device: whether they bring what left, and how fast.
Part check_link(Backend& backend, const Observer& observer);

// Begins what is found of a run with the memory that it took, which is to be what its plan foretold.
void check_peak(Part& part, const TrainingReport& report);
// Whether a run has the losses of another one to rounding: to 1e-4.
void compare_losses(Part& part, const TrainingReport& report, const TrainingReport& expected, const std::string& whose);
// Whether a run leaves the same parameters as one that holds everything.
void compare_bits(Part& part, const TrainingReport& report, const TrainingReport& keep);

}  // namespace outsize::checks
