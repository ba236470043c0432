#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/prepare.h"

namespace outsize {

// The instruction at which the most device bytes are live.
struct Peak {
  std::int32_t instruction = -1;  // none in a program without instructions
  std::int64_t live_bytes = 0;
};
Peak peak_of(const Program& program);
// "op layer1.0.conv1", "copy_in of relu1"
std::string name_of_instruction(const Graph& graph, const Program& program, std::int32_t instruction);

// The value of that name. Throws UserError with the nearest name, or, for the name of an op, with the values it makes.
ValueId find_explained(const Graph& graph, std::string_view name);

// All of it is read from the plan, the program and the profile, whoever made the plan.
Explanation explain(const Graph& graph, const Profile& profile, const Prepared& prepared, ValueId value);

}  // namespace outsize
