#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace outsize {

// The processor that the CPU backend computes on, and its memory.
struct Machine {
  std::string processor;     // as the system names it
  int threads = 1;           // that the system offers
  std::string_view vectors;  // the instructions that the kernels' loops are compiled for and that it has: "AVX-512", "AVX2", "SSE2"
  std::int64_t memory_bytes = 0;
};
Machine describe_machine();

// What this machine does in a second, as the CPU backend uses it. Rates are the best of several repetitions, overlaps the median.
struct MachineRates {
  double flops = 0;      // multiply-adds in f32, two operations each, on all threads
  double bandwidth = 0;  // bytes that copies on all threads read and write
  double link = 0;       // bytes that one thread copies from one arena to another: what a copy lane does
  double link_both = 0;  // bytes that two threads copy at once, one each way
  // How many times longer loops on all threads take while one thread copies, and the copy beside them: the means of a loop of
  // arithmetic alone and one of memory alone, since kernels are in between.
  double kernel_overlap = 1;
  double copy_overlap = 1;

  // Whether copies both ways at once are nearer to twice the rate of one than to its rate.
  bool full_duplex() const { return link_both >= 1.5 * link; }
};
// Takes about two seconds, and at most half a gibibyte or an eighth of `free_bytes`.
MachineRates measure_machine(int threads, std::int64_t free_bytes);

// Bytes a second to and from a file in a directory: to the disk itself, not only into the system's cache.
struct DiskRates {
  double out = 0;
  double in = 0;
};
// Takes about a second. Throws UserError naming the directory when no file can be made, written or read there.
DiskRates measure_disk(const std::string& directory);

// The middle one of at least one number, or the mean of the middle two.
double median(std::vector<double> numbers);

}  // namespace outsize
