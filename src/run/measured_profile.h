#pragma once

#include <functional>
#include <string>

#include "backend/interface.h"
#include "cost/profile.h"
#include "outsize/reports.h"

namespace outsize {

struct MeasureOptions {
  double seconds = 30;          // after which no further op is begun
  double op_seconds = 0.05;     // of one op, in which it runs 15 times at most; it runs 3 times anyhow, once if that takes 50 ms
  std::int64_t free_bytes = 0;  // ops whose operands and workspace take more are left out; 0: no limit
  // Called before each op: how many are done, of how many.
  std::function<void(std::int64_t done, std::int64_t all)> progress;
};

// How many kernels a program runs on the profile's device, by signature, and how many of them the profile has measured.
Coverage coverage_of(const Profile& profile, const Graph& graph, const Program& program);

// Times every kernel signature of the program that the profile lacks, the ones that take longest by its estimate first, and adds
// the medians; ops that it does not come to, later ones too, are predicted by the scale of their kind (scale_of), where the ops of
// this program give one and no other program's gave one of more ops. Runs that lost their processor to something else do not count;
// a signature with no other runs is marked as disturbed and timed again by the next call, and the shorter time is kept. One op at a
// time is in memory. Operands are in the cache or not as they would be in a step: before each run the cache is filled with
// something else, then those operands are read that the program touched within the last cacheful of bytes. An op whose operands fit
// into the cache runs on others in between, so that its code is there, as that of most ops is in a step. Returns how many
// signatures were timed.
std::int64_t measure(Profile& profile, const Graph& graph, const Program& program, Backend& backend,
                     const MeasureOptions& options = {});

// This machine as `description` describes it, with the rates that are measured on that many threads; those of the disk in
// `directory`, or the description's where it cannot be written. Takes about three seconds.
Device measure_device(const Device& description, int threads, const std::string& directory);

// Gives the device the rates that are measured of a disk in `directory`; nothing where it cannot be written: a run that needs the
// disk says so itself. Takes about a second.
void measure_disk_of(Device& device, const std::string& directory);

// Gives a device that is not the host the rates of its link and of the host's memory, as far as there is memory to measure them
// in. Takes less than a second.
void measure_card(Device& device, Backend& backend);

}  // namespace outsize
