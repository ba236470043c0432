#pragma once

#include <span>
#include <string_view>

#include "cost/profile.h"

namespace outsize {

// Every device that can be planned for without being here; "cpu" is the first.
std::span<const Device> devices();

// The device of that name. Letters and digits alone count ("rtx3090", "RTX-3090-24"), and a beginning that only one name has will
// do. Throws UserError with the names that come near.
const Device& find_device(std::string_view name);

}  // namespace outsize
