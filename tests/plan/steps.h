#pragma once

#include <string>

#include "cost/profile.h"
#include "plan/plan.h"

namespace outsize {

// Every op takes a second, and a copy of 256 bytes `copy` seconds.
inline Profile second_an_op(double copy) {
  Profile profile;
  profile.device.flops = profile.device.bandwidth = 1e30;
  profile.device.launch_seconds = 1;
  profile.device.link_out = profile.device.link_in = copy > 1 ? 256 / (copy - 1) : 1e30;
  return profile;
}

// The steps of a plan in one line: ops by name, "<a" leaves, "-a" ends, ">a" comes.
inline std::string steps_of(const Graph& graph, const Plan& plan) {
  std::string text;
  for (const Step& step : plan.steps) {
    text += text.empty() ? "" : " ";
    if (const auto* run = std::get_if<RunStep>(&step)) text += graph.op(run->op).name;
    if (const auto* out = std::get_if<OutStep>(&step)) text += "<" + graph.value(out->value).name;
    if (const auto* drop = std::get_if<DropStep>(&step)) text += "-" + graph.value(drop->value).name;
    if (const auto* in = std::get_if<InStep>(&step)) text += ">" + graph.value(in->value).name;
  }
  return text;
}

}  // namespace outsize
