#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace outsize {

// A device as a planner sees it. Rates in bytes (or operations) a second.
struct Device {
  std::string name = "cpu";
  std::int64_t memory_bytes = 0;
  std::int64_t host_bytes = 0;
  double flops = 1e11;
  // Of products whose factors are rounded to TF32, at the card's best; 0: it multiplies them no faster than others.
  double tf32_flops = 0;
  double bandwidth = 2e10;  // device memory, read and written
  double link_out = 1e10;   // device → host
  double link_in = 1e10;    // host → device
  bool full_duplex = true;  // both directions at once at full rate
  double disk_out = 1e9;
  double disk_in = 1e9;
  double host_bandwidth = 0;     // host memory, read and written by the host's processor; 0: it is the device's own
  double launch_seconds = 2e-6;  // fixed price of one instruction
  // How many times longer a kernel takes while a copy runs beside it, and a copy beside a kernel; 1: they share nothing.
  double kernel_overlap = 1;
  double copy_overlap = 1;
  double link_overlap = 1;  // the same of a copy while another runs the other way, of a link in full duplex

  // Whether its memory is the host's own, and the same processors work in both.
  bool is_host() const { return host_bandwidth == 0; }
};

// The processor that the CPU backend computes on, and its memory.
struct Machine {
  std::string processor;     // as the system names it
  int threads = 1;           // that the system offers
  std::string_view vectors;  // the instructions that the kernels' loops are compiled for and that it has: "AVX-512", "AVX2", "SSE2"
  std::int64_t memory_bytes = 0;
};

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

// Bytes a second to and from a file in a directory: to the disk itself, not only into the system's cache.
struct DiskRates {
  double out = 0;
  double in = 0;
};

}  // namespace outsize
