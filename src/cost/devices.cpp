#include "cost/devices.h"

#include <cctype>
#include <vector>

#include "base/text.h"

namespace outsize {
namespace {

constexpr std::int64_t gib(double amount) { return static_cast<std::int64_t>(amount * (1 << 30)); }

// What a copy reaches of a PCIe link with sixteen lanes, in one direction: 12.2 GB/s of version 3 as the offload paper measured it,
// and the same share of the later versions, which double the rate each.
constexpr double kPcie3 = 12.2e9;
constexpr double kPcie4 = 2 * kPcie3;
constexpr double kPcie5 = 4 * kPcie3;

// What the processor of a server reads and writes of its memory in a second: six channels of DDR4-2666 have 128e9; a stream of
// updates reaches three quarters.
constexpr double kHostBandwidth = 96e9;

// What a description says of a graphics card and of the machine it is in.
struct Card {
  const char* name;
  double memory_gib;
  double host_gib;
  double tflops;
  double bandwidth_gb;
  double link;
  bool full_duplex = true;
  double tf32_tflops = 0;
};

Device device_of(const Card& card) {
  return {.name = card.name,
          .memory_bytes = gib(card.memory_gib),
          .host_bytes = gib(card.host_gib),
          .flops = card.tflops * 1e12,
          .tf32_flops = card.tf32_tflops * 1e12,
          .bandwidth = card.bandwidth_gb * 1e9,
          .link_out = card.link,
          .link_in = card.link,
          .full_duplex = card.full_duplex,
          .disk_out = 1e9,
          .disk_in = 2e9,
          .host_bandwidth = kHostBandwidth,
          .launch_seconds = 5e-6};
}

// Two Zen 3 cores with AVX2. The roof of arithmetic is what oneDNN's blocked convolutions reach (150 of the 202 GF/s peak), not the
// peak itself; bandwidth is the triad of both cores. A copy by one thread moves 9 GB/s, so it reads and writes 18 of these 28: two
// at once do not fit, hence half duplex. The disk's figures include the way through the page cache.
const Device kCpu{.name = "cpu",
                  .memory_bytes = gib(24),
                  .host_bytes = gib(24),
                  .flops = 1.5e11,
                  .bandwidth = 2.8e10,
                  .link_out = 9e9,
                  .link_in = 9e9,
                  .full_duplex = false,
                  .disk_out = 9e8,
                  .disk_in = 2.5e9,
                  .launch_seconds = 2e-6};

// Memory, f32 rate (no tensor cores) and bandwidth are the vendor's data sheets': roofs that no kernel quite reaches. Host memory
// and link are those of a paper's machine where a paper has one: offload (V100, half duplex), TFLMS (P100; its 256 "MB" a processor
// are GB), TSPLIT (Titan RTX, GTX 1080 Ti), LR-CNN (RTX 3080 and 3090, on PCIe 3). Otherwise they are the card's own PCIe version
// and a host that suits the card. The disk is an ordinary NVMe one.
constexpr Card kCards[]{
    {"v100-pcie-16", 15.75, 192, 14.0, 900, kPcie3, false},
    {"p100-nvlink-16", 16, 512, 10.6, 732, 40e9},
    {"titan-rtx-24", 24, 256, 16.3, 672, kPcie3},
    {"gtx-1080ti-11", 11, 128, 11.3, 484, kPcie3},
    {"rtx-2080ti-11", 11, 64, 13.4, 616, kPcie3},
    {"rtx-3080-10", 10, 64, 29.8, 760, kPcie3},
    {"rtx-3090-24", 24, 64, 35.6, 936, kPcie3},
    {"rtx-4090-24", 24, 64, 82.6, 1008, kPcie4},
    {"a100-40", 40, 256, 19.5, 1555, kPcie4, true, 156},
    {"a100-80", 80, 256, 19.5, 2039, kPcie4, true, 156},
    {"h100-80", 80, 512, 66.9, 3350, kPcie5, true, 494.7},
    {"h200-141", 141, 512, 66.9, 4800, kPcie5, true, 494.7},
};

// The letters and digits of a name, in lower case: how names are compared.
std::string bare(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (const auto letter = static_cast<unsigned char>(c); std::isalnum(letter)) text += static_cast<char>(std::tolower(letter));
  return text;
}

}  // namespace

std::span<const Device> devices() {
  static const std::vector<Device> kDevices = [] {
    std::vector<Device> all{kCpu};
    for (const Card& card : kCards) all.push_back(device_of(card));
    return all;
  }();
  return kDevices;
}

const Device& find_device(std::string_view name) {
  const std::string wanted = bare(name);
  std::vector<const Device*> begun;  // those whose names begin so
  std::vector<std::string_view> names;
  for (const Device& device : devices()) {
    const std::string own = bare(device.name);
    if (own == wanted) return device;
    if (!wanted.empty() && own.starts_with(wanted)) begun.push_back(&device);
    names.push_back(device.name);
  }
  if (begun.size() == 1) return *begun.front();
  std::string several;
  for (const Device* device : begun) several += (several.empty() ? "" : ", ") + device->name;
  if (!several.empty()) user_error("there is no device '{}'; there are several whose names begin so: {}", name, several);
  const std::string near = did_you_mean(name, names);
  user_error("there is no device '{}'{}", name, near.empty() ? "; `outsize devices` lists those there are" : near);
}

}  // namespace outsize
