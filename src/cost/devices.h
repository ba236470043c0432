#pragma once

#include <span>
#include <string_view>

#include "cost/profile.h"

namespace outsize {

// Every device that can be planned for without being here.
std::span<const Device> devices();

// Throws UserError naming the devices there are.
const Device& find_device(std::string_view name);

}  // namespace outsize
