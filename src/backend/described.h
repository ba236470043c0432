#pragma once

#include <memory>
#include <string_view>

#include "backend/interface.h"

namespace outsize {

// A card that is not here, as plans are made for it: it stores values as `kernels` does and asks for the same workspace, but for
// convolutions, which take what cuDNN plans for the card. `device` is a name of devices(). nullptr where the device has no such
// description, or there is no cuDNN. `kernels` must outlive it.
std::unique_ptr<Target> describe_card(Backend& kernels, std::string_view device, bool tf32);

}  // namespace outsize
