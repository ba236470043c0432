#include "ops/cuda/library/described.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace outsize {
namespace {

struct Card {
  std::string_view device, name;
  int version, multiprocessors, shared_memory, threads, blocks;
  std::int64_t l2, memory;
  int clock, memory_clock;
};

// As each card's driver describes it, from Ampere on.
constexpr Card kCards[]{
    {"a100-40", "A100-SXM4-40GB", 800, 108, 166912, 2048, 32, 41943040, 42297786368, 1410000, 1215000},
    {"a100-80", "A100-SXM4-80GB", 800, 108, 166912, 2048, 32, 41943040, 85100068864, 1410000, 1593000},
    {"rtx-3080-10", "RTX-3080", 860, 68, 101376, 1536, 16, 5242880, 10504699904, 1710000, 9501000},
    {"rtx-3090-24", "RTX-3090", 860, 82, 101376, 1536, 16, 6291456, 25430786048, 1695000, 9751000},
    {"rtx-4090-24", "RTX-4090", 890, 128, 101376, 1536, 24, 75497472, 25393692672, 2520000, 10501000},
    {"h100-80", "H100-SXM", 900, 132, 232448, 2048, 32, 52428800, 84942979072, 1980000, 2619000},
    {"h200-141", "H200", 900, 132, 232448, 2048, 32, 62914560, 150109880320, 1980000, 3201000},
};

}  // namespace

std::string cudnn_description(std::string_view device) {
  const auto* const card = std::ranges::find(kCards, device, &Card::device);
  if (card == std::end(kCards)) return {};
  return fmt::format(
      R"({{"deviceVer":{},"multiProcessorCount":{},"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
      R"("maxSharedMemoryPerBlockOptin":{},"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":{},)"
      R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":{},"regsPerBlock":65536,"totalGlobalMem":{},"smClockRateKHz":{},)"
      R"("l2CacheSize":{},"maxBlockSize":[1024,1024,64],"memClockRateKHz":{},"maxGridSize":[2147483647,65535,65535],)"
      R"("supportCoopLaunch":1,"pciDeviceId":0,"isTccDriver":0,"cudaDeviceId":0,"driverVer":13000,"deviceName":"{}"}})",
      card->version, card->multiprocessors, card->shared_memory, card->blocks, card->threads, card->memory, card->clock, card->l2,
      card->memory_clock, card->name);
}

std::vector<std::string_view> cudnn_described() {
  std::vector<std::string_view> devices;
  for (const Card& card : kCards) devices.push_back(card.device);
  return devices;
}

}  // namespace outsize
