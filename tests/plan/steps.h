#pragma once

#include <string>
#include <string_view>

#include "cost/profile.h"
#include "plan/plan.h"

namespace outsize {

// A chain as in Figure 4 of TFLMS: f1's value is read at once and again far away. Every value has 256 bytes.
inline constexpr std::string_view kFigure4 = R"(graph chain
input x f32[64]
f1: a1 = relu(x)
f2: a2 = relu(a1)
f3: a3 = relu(a2)
f4: a4 = relu(a3)
b4: g3 = add(a4, a3) @backward(f4)
b3: g2 = add(g3, a2) @backward(f3)
b2: g1 = add(g2, a1) @backward(f2)
b1: g0 = add(g1, a2) @backward(f1)
output g0
)";

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
