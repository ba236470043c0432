#include <nlohmann/json.hpp>

#include "command.h"
#include "flags.h"
#include "outsize/listings.h"
#include "outsize/text.h"
#include "table.h"

namespace outsize::cli {
namespace {

struct Flags {
  CommonFlags common;
  std::string spill;
};

const char* duplex(bool full) { return full ? "full" : "half"; }

std::string gigabytes(double rate) { return fmt::format("{:.1f} GB/s", rate / 1e9); }

// "67 TFLOP/s in f32, 495 in tf32"
std::string arithmetic_of(const Device& device) {
  const std::string f32 = fmt::format("{:.0f} TFLOP/s in f32", device.flops / 1e12);
  return device.tf32_flops > 0 ? fmt::format("{}, {:.0f} in tf32", f32, device.tf32_flops / 1e12) : f32;
}

nlohmann::ordered_json to_json(const Device& device) {
  return {{"name", device.name},
          {"memory_bytes", device.memory_bytes},
          {"host_bytes", device.host_bytes},
          {"flops", device.flops},
          {"tf32_flops", device.tf32_flops},
          {"bandwidth", device.bandwidth},
          {"link_out", device.link_out},
          {"link_in", device.link_in},
          {"full_duplex", device.full_duplex},
          {"disk_out", device.disk_out},
          {"disk_in", device.disk_in}};
}

nlohmann::ordered_json to_json(const ThisMachine& here, const std::string& spill) {
  nlohmann::ordered_json object{{"processor", here.machine.processor},
                                {"cores", here.machine.threads},
                                {"vectors", here.machine.vectors},
                                {"memory_bytes", here.machine.memory_bytes},
                                {"free_bytes", here.free_bytes},
                                {"threads", here.threads},
                                {"flops", here.rates.flops},
                                {"bandwidth", here.rates.bandwidth},
                                {"link", here.rates.link},
                                {"link_both", here.rates.link_both},
                                {"full_duplex", here.rates.full_duplex()},
                                {"kernel_overlap", here.rates.kernel_overlap},
                                {"copy_overlap", here.rates.copy_overlap}};
  if (here.disk) {
    object["spill"] = spill;
    object["disk_out"] = here.disk->out;
    object["disk_in"] = here.disk->in;
  }
  if (here.card) object["card"] = to_json(*here.card);
  return object;
}

void print_here(const ThisMachine& here, const std::string& spill) {
  Summary summary;
  summary.row("processor", fmt::format("{}, {} core{}, {}", here.machine.processor, here.machine.threads,
                                       here.machine.threads == 1 ? "" : "s", here.machine.vectors));
  summary.row("memory", fmt::format("{}, {} free", format_bytes(here.machine.memory_bytes), format_bytes(here.free_bytes)));
  summary.row("measured on", fmt::format("{} thread{}", here.threads, here.threads == 1 ? "" : "s"));
  summary.row("multiply-adds", fmt::format("{:.0f} GFLOP/s in f32", here.rates.flops / 1e9));
  summary.row("memory copies", fmt::format("{}, read and written", gigabytes(here.rates.bandwidth)));
  summary.row("link", fmt::format("{} by one copy lane, {} by both: {} duplex", gigabytes(here.rates.link),
                                  gigabytes(here.rates.link_both), duplex(here.rates.full_duplex())));
  summary.row("kernels beside copies",
              fmt::format("{:.2f} times as long, copies {:.2f} times", here.rates.kernel_overlap, here.rates.copy_overlap));
  if (here.disk)
    summary.row("disk", fmt::format("{} written, {} read in {}", gigabytes(here.disk->out), gigabytes(here.disk->in), spill));
  else
    summary.row("disk", "not measured; --spill DIR does");
  if (here.card)
    summary.row("card",
                fmt::format("{}, {}, {}, memory {}, link {} in, {} out: {} duplex", here.card->name,
                            format_bytes(here.card->memory_bytes), arithmetic_of(*here.card), gigabytes(here.card->bandwidth),
                            gigabytes(here.card->link_in), gigabytes(here.card->link_out), duplex(here.card->full_duplex)));
  summary.print();
}

void print_descriptions() {
  Table table({"--device", "memory", "host memory", "link GB/s", "duplex", "f32 TFLOP/s", "tf32 TFLOP/s", "memory GB/s"});
  for (const Device& device : list_devices())
    table.row({device.name, format_bytes(device.memory_bytes), format_bytes(device.host_bytes),
               fmt::format("{:.1f}", device.link_out / 1e9), duplex(device.full_duplex), fmt::format("{:.2f}", device.flops / 1e12),
               device.tf32_flops > 0 ? fmt::format("{:.0f}", device.tf32_flops / 1e12) : "-",
               fmt::format("{:.0f}", device.bandwidth / 1e9)});
  table.print();
}

int show_devices(const Flags& flags) {
  const ThisMachine here = measure_here(flags.common.machine, flags.spill);
  if (flags.common.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Device& device : list_devices()) rows.push_back(to_json(device));
    fmt::print("{}\n", nlohmann::ordered_json{{"machine", to_json(here, flags.spill)}, {"rows", rows}}.dump(2));
    return kDone;
  }
  print_here(here, flags.spill);
  fmt::print("\n");
  print_descriptions();
  return kDone;
}

}  // namespace

Run add_devices(CLI::App& command) {
  auto flags = std::make_shared<Flags>();
  command.add_option("--spill", flags->spill, "measure the disk of this directory too")->type_name("DIR")->group("Measuring");
  add_common_flags(command, flags->common);
  return [flags] { return show_devices(*flags); };
}

}  // namespace outsize::cli
