#include "outsize/listings.h"

#include <algorithm>
#include <filesystem>

#include "backend/host_memory.h"
#include "backend/interface.h"
#include "base/text.h"
#include "cost/devices.h"
#include "cost/measure.h"
#include "graph/opdef.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/planner.h"
#include "run/measured_profile.h"

namespace outsize {
namespace {

const OpDef& op_of_kind(const std::string& kind) {
  if (const OpDef* def = find_op_def(kind)) return *def;
  std::vector<std::string_view> kinds;
  for (const OpDef* def : all_op_defs()) kinds.push_back(def->kind());
  const std::string near = did_you_mean(kind, kinds);
  user_error("unknown op '{}'{}", kind, near.empty() ? "; `outsize ops` lists those there are" : near);
}

OpInfo info_of(const OpDef& def) {
  OpInfo info{.kind = std::string(def.kind()), .help = std::string(def.help())};
  for (const auto& input : def.input_names()) info.inputs.emplace_back(input);
  for (const AttributeSpec& spec : def.attribute_specs())
    info.attributes.push_back({std::string(spec.name), to_string(spec.fallback), std::string(spec.help)});
  return info;
}

}  // namespace

std::vector<ModelInfo> list_models() {
  std::vector<ModelInfo> models;
  for (const ModelEntry& entry : zoo()) models.push_back({std::string(entry.name), std::string(entry.help)});
  return models;
}

std::vector<PlannerInfo> list_planners() {
  std::vector<PlannerInfo> infos;
  std::vector<Planner> all{auto_planner()};
  all.insert(all.end(), planners().begin(), planners().end());
  for (const Planner& planner : all) {
    PlannerInfo& info =
        infos.emplace_back(PlannerInfo{std::string(planner.name), std::string(planner.help), std::string(planner.source), {}});
    for (const PlannerOption& option : planner.options)
      info.options.push_back({std::string(option.name), expected_by(option), std::string(option.words), std::string(option.initial),
                              std::string(option.help)});
  }
  return infos;
}

std::vector<OpInfo> list_ops(const std::string& kind) {
  register_ops();
  if (!kind.empty()) return {info_of(op_of_kind(kind))};
  std::vector<OpInfo> infos;
  for (const OpDef* def : all_op_defs()) infos.push_back(info_of(*def));
  std::ranges::sort(infos, {}, &OpInfo::kind);
  return infos;
}

std::vector<Device> list_devices() { return {devices().begin(), devices().end()}; }

ThisMachine measure_here(const MachineRequest& request, const std::string& spill) {
  if (!spill.empty() && !std::filesystem::is_directory(spill)) user_error("--spill: '{}' is not a directory", spill);
  ThisMachine here{.machine = describe_machine(), .free_bytes = available_bytes()};
  here.threads = request.threads > 0 ? static_cast<int>(request.threads) : here.machine.threads;
  here.rates = measure_machine(here.threads, here.free_bytes);
  if (!spill.empty()) here.disk = measure_disk(spill);
  if (backend_names().front() == "cuda") {
    const std::unique_ptr<Backend> card = make_backend("cuda", here.threads);
    here.card = card->device();
    measure_card(*here.card, *card);
  }
  return here;
}

std::string version() { return OUTSIZE_VERSION; }

}  // namespace outsize
