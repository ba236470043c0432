#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "ops/kernel.h"

namespace outsize {

// A device as a planner sees it. Rates in bytes (or operations) a second.
struct Device {
  std::string name = "cpu";
  std::int64_t memory_bytes = 0;
  std::int64_t host_bytes = 0;
  double flops = 1e11;
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

  // Whether its memory is the host's own, and the same processors work in both.
  bool is_host() const { return host_bandwidth == 0; }
};

// What identifies the price of a call: kind, attributes, types and extents of its boxes, not its name or position.
std::string signature(const Call& call);

// Time of each op signature on a device: measured where an entry exists, otherwise the roofline of the device, times what the kind
// of op was found to take of it.
struct Profile {
  Device device;
  std::unordered_map<std::string, double> seconds;  // by signature
  std::unordered_map<std::string, double> scale;    // by kind: measured over roofline; 1 where there is none
  std::unordered_set<std::string> disturbed;        // signatures whose seconds something else that ran may have lengthened

  double seconds_of(const Call& call) const;
};

// max(operations / flops, bytes / bandwidth) + launch.
double roofline_seconds(const Device& device, const Call& call);

// The text form: one `device key=value …` line, then `scale RATIO KIND`, `op SECONDS SIGNATURE` and `disturbed SIGNATURE` lines,
// one an entry; round-trips.
std::string print_profile(const Profile& profile);
// Throws UserError "FILE:LINE: …".
Profile parse_profile(std::string_view text, std::string_view file);

}  // namespace outsize
