#include "cost/devices.h"

#include <array>

namespace outsize {
namespace {

// Two Zen 3 cores with AVX2. The roof of arithmetic is what oneDNN's blocked convolutions reach (150 of the 202 GF/s peak), not the
// peak itself; bandwidth is the triad of both cores. A copy by one thread moves 9 GB/s, so it reads and writes 18 of these 28: two
// at once do not fit, hence half duplex. The disk's figures include the way through the page cache.
const std::array<Device, 1> kDevices{{
    {.name = "cpu",
     .memory_bytes = std::int64_t{24} << 30,
     .host_bytes = std::int64_t{24} << 30,
     .flops = 1.5e11,
     .bandwidth = 2.8e10,
     .link_out = 9e9,
     .link_in = 9e9,
     .full_duplex = false,
     .disk_out = 9e8,
     .disk_in = 2.5e9,
     .launch_seconds = 2e-6},
}};

}  // namespace

std::span<const Device> devices() { return kDevices; }

const Device& find_device(std::string_view name) {
  std::string names;
  for (const Device& device : kDevices) {
    if (device.name == name) return device;
    names += (names.empty() ? "" : ", ") + device.name;
  }
  user_error("there is no device '{}'; there are: {}", name, names);
}

}  // namespace outsize
