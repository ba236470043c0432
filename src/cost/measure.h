#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "outsize/devices.h"

namespace outsize {

// The processor that the CPU backend computes on, and its memory.
Machine describe_machine();

// Takes about two seconds, and at most half a gibibyte or an eighth of `free_bytes`.
MachineRates measure_machine(int threads, std::int64_t free_bytes);

// Bytes a second that this many threads read and write of the host's memory. Takes half a second and as much memory.
double measure_memory(int threads, std::int64_t free_bytes);

// Takes about a second. Throws UserError naming the directory when no file can be made, written or read there.
DiskRates measure_disk(const std::string& directory);

// The middle one of at least one number, or the mean of the middle two.
double median(std::vector<double> numbers);

}  // namespace outsize
