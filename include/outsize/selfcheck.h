#pragma once

#include <string>
#include <vector>

#include "outsize/reports.h"
#include "outsize/requests.h"

namespace outsize {

// What was found of a backend on this machine.
struct SelfcheckReport {
  // One thing that was looked at.
  struct Part {
    std::string name;                // "ops in f32"
    std::string found;               // "509 cases, at most 3.1e-07 from the reference (1e-05 allowed)"
    std::vector<std::string> wrong;  // what is not as it should be, in a sentence each; empty: all is well
    double seconds = 0;

    bool well() const { return wrong.empty(); }
  };
  std::string backend;    // "cuda"
  std::string device;     // "NVIDIA H200"
  std::string libraries;  // its driver and what its kernels call, with versions; empty where there are none
  std::vector<Part> parts;
  double seconds = 0;

  bool well() const;
};

// Whether a backend, by default that of an NVIDIA card, does on this machine what it should: every op's cases beside the reference
// kernels, copies both ways, and a small plan of each kind beside one that holds everything. Takes less than two minutes. Throws
// UserError where there is no such backend here.
SelfcheckReport selfcheck(const MachineRequest& request = {}, const Observer& observer = {});

}  // namespace outsize
